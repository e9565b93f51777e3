"""Providers and exporters from settings: `with telemetry(settings) as emit:`.

What must stay true: nothing here waits for a collector. Queues are bounded and drop; the exit takes `exit_seconds` at
most, whatever the collectors do; local sinks see every span and record, sampled or not, with OTEL_SDK_DISABLED or without.
No provider is made global: whoever is to emit is given `emit`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.sdk import metrics as sdk_metrics
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from telemetry import otlp
from telemetry.emit import Emit
from telemetry.events import Fact
from telemetry.jsonl import JsonlExporter
from telemetry.local_fields import NO_LIMITS, WithoutLocalFields
from telemetry.metric_names import EXPORT_LOST, SINK_FAILURES
from telemetry.metrics import Metrics
from telemetry.names import Attr
from telemetry.otel import OtelEmit
from telemetry.otlp import Signal, Target
from telemetry.otlp_limits import NO_SPAN_LIMITS, LimitedSpanExporter
from telemetry.otlp_lost import CountingLogExporter, CountingSpanExporter
from telemetry.sampling import RecordAll
from telemetry.trace_store import TraceStore
from telemetry.troubles import Troubles, hear_sdk_log

SCOPE = "insomnia"
NOT_NAMED = "unknown_service"  # what the SDK calls a service whose operator gave it no name

# Far above what closed labels allow, far below what hurts: a series too many shows as `otel.metric.overflow`.
CARDINALITY_LIMITS: dict[type, int] = {
    kind: 10_000
    for kind in (
        sdk_metrics.Counter,
        sdk_metrics.UpDownCounter,
        sdk_metrics.Histogram,
        sdk_metrics.ObservableCounter,
        sdk_metrics.ObservableUpDownCounter,
        sdk_metrics.ObservableGauge,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """The composition root's word. OTEL_* variables decide about everything that leaves the machine."""

    service_name: str = "insomnia"  # OTEL_SERVICE_NAME wins
    version: str = ""
    routes: tuple[str, ...] = ()  # configured names: the label's closed set; any other route is counted as `none`
    accounts: tuple[str, ...] = ()  # configured names, likewise
    slack_mode: str = ""  # embedded | socket | http; on the resource
    content: bool = False  # whether text may stand in spans and logs; nothing emits any yet
    exit_seconds: float = 3.0  # a flush to a healthy collector takes a fraction; more would hold up a restart
    span_processors: Sequence[SpanProcessor] = ()  # local sinks; they also get spans that no sampler took
    log_exporters: Sequence[LogRecordExporter] = ()  # local sinks, written synchronously: a batch is lost on SIGTERM
    metric_readers: Sequence[MetricReader] = ()  # give them CARDINALITY_LIMITS
    listeners: Sequence[Callable[[Fact], None]] = ()  # hear every fact, in its context, after its sinks


@contextmanager
def telemetry(settings: TelemetrySettings) -> Iterator[Emit]:
    """Around a whole program, asyncio or not. Leaving it flushes, within `exit_seconds`."""
    troubles = Troubles()
    hear_sdk_log(troubles)
    targets = otlp.targets(os.environ, troubles)
    with otlp.sdk_environment():
        # The counter comes with the metrics, those with the providers; nothing is lost before there is something to emit.
        providers = _Providers.build(settings, targets, troubles, lost=lambda signal, n: metrics.add(EXPORT_LOST, {"signal": signal}, n))
        metrics = Metrics(providers.meters.get_meter(SCOPE, settings.version), routes=settings.routes, accounts=settings.accounts)
        troubles.on_failure = lambda: metrics.add(SINK_FAILURES, {})
        for exporter in settings.log_exporters:
            if isinstance(exporter, JsonlExporter):
                metrics.latest.lines = exporter.sum_of
        for processor in settings.span_processors:
            if isinstance(processor, TraceStore):
                processor.on_drop = lambda count: metrics.add(SINK_FAILURES, {}, count)
        tracer = providers.tracers.get_tracer(SCOPE, settings.version)
        logger = providers.loggers.get_logger(SCOPE, settings.version)
    with troubles.caught("priming"):
        metrics.prime()
    if "metrics" in targets:
        _in_background(providers.meters.force_flush, name="telemetry-first-export", troubles=troubles)
    try:
        yield OtelEmit(tracer, logger, metrics, troubles, listeners=settings.listeners)
    finally:
        providers.close(settings.exit_seconds, troubles)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Providers:
    tracers: TracerProvider
    meters: MeterProvider
    loggers: LoggerProvider

    @classmethod
    def build(
        cls, settings: TelemetrySettings, targets: dict[Signal, Target], troubles: Troubles, *, lost: Callable[[Signal, int], None]
    ) -> _Providers:
        resource = _resource(settings)
        meters = _meters(settings, targets.get("metrics"), troubles=troubles, resource=resource)
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False, span_limits=NO_SPAN_LIMITS, meter_provider=meters)
        tracers.sampler = RecordAll(tracers.sampler)
        loggers = LoggerProvider(resource=resource, shutdown_on_exit=False, meter_provider=meters, log_record_limits=NO_LIMITS)
        # Local sinks first: at the exit they are closed in this order, and a collector may hang.
        for processor in settings.span_processors:
            tracers.add_span_processor(_Guarded(processor, troubles))
        for exporter in settings.log_exporters:
            loggers.add_log_record_processor(SimpleLogRecordProcessor(exporter, meter_provider=meters))
        # A wrong OTEL_* value costs that signal its export, never the bot its start.
        if target := targets.get("traces"):
            with troubles.caught("OTLP traces"):
                spans = CountingSpanExporter(LimitedSpanExporter(otlp.span_exporter(target, meters)), lambda n: lost("traces", n))
                tracers.add_span_processor(BatchSpanProcessor(spans, meter_provider=meters))
        if target := targets.get("logs"):
            with troubles.caught("OTLP logs"):
                records = CountingLogExporter(otlp.log_exporter(target, meters), lambda n: lost("logs", n))
                loggers.add_log_record_processor(WithoutLocalFields(BatchLogRecordProcessor(records, meter_provider=meters)))
        return cls(tracers=tracers, meters=meters, loggers=loggers)

    def close(self, seconds: float, troubles: Troubles) -> None:
        """All at once under one deadline, in threads that do not keep the process alive: a hanging collector is left behind."""
        deadline = time.monotonic() + seconds
        closing = [
            _in_background(close, name="telemetry-close", troubles=troubles)
            for close in (self.tracers.shutdown, self.loggers.shutdown, self.meters.shutdown)
        ]
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in closing):
            troubles.say("exit", f"not done after {seconds:g} s at the exit; what was still queued is lost")


def _resource(settings: TelemetrySettings) -> Resource:
    ours = {
        Attr.SERVICE_NAME.value: settings.service_name,
        Attr.SERVICE_VERSION.value: settings.version,
        Attr.SLACK_MODE.value: settings.slack_mode,
    }
    # `create` reads the environment, and would let its argument win over it; here the operator wins.
    theirs = Resource.create()
    unnamed = str(theirs.attributes[Attr.SERVICE_NAME.value]).startswith(NOT_NAMED)
    taken = theirs.attributes.keys() - ({Attr.SERVICE_NAME.value} if unnamed else set())
    return theirs.merge(Resource({key: value for key, value in ours.items() if value and key not in taken}))


def _meters(settings: TelemetrySettings, target: Target | None, *, troubles: Troubles, resource: Resource) -> MeterProvider:
    readers = list(settings.metric_readers)
    exporter = None
    if target:
        with troubles.caught("OTLP metrics"):
            exporter = otlp.metric_exporter(target)
            readers.append(PeriodicExportingMetricReader(exporter, cardinality_limits=CARDINALITY_LIMITS))
    meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    if exporter:
        exporter.set_meter_provider(meters)
    return meters


def _in_background(work: Callable[[], object], *, name: str, troubles: Troubles) -> threading.Thread:
    def run() -> None:
        with troubles.caught(name):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class _Guarded(SpanProcessor):
    """The SDK lets an exception of a processor through to whoever starts or ends a span; here it ends."""

    def __init__(self, processor: SpanProcessor, troubles: Troubles) -> None:
        self._processor = processor
        self._what = f"span processor {type(processor).__name__}"
        self._troubles = troubles

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        with self._troubles.caught(self._what):
            self._processor.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        with self._troubles.caught(self._what):
            self._processor.on_end(span)

    def shutdown(self) -> None:
        with self._troubles.caught(self._what):
            self._processor.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        flushed = False
        with self._troubles.caught(self._what):
            flushed = self._processor.force_flush(timeout_millis)
        return flushed
