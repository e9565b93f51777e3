"""Telemetry with sinks in memory; `Recorded` shows what came out as plain dicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import format_span_id, format_trace_id

from telemetry.emit import Emit
from telemetry.setup import CARDINALITY_LIMITS, TelemetrySettings, telemetry
from tests.otlp_receiver import otlp_receiver

__all__ = ["otlp_receiver"]


class Kept(SpanProcessor):
    """A local sink as the product's own ones are: it also takes spans that no sampler took."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


@dataclass
class Recorded:
    emit: Emit
    kept: Kept
    log: InMemoryLogRecordExporter
    reader: InMemoryMetricReader

    def spans(self) -> list[dict[str, Any]]:
        return [_span(span) for span in sorted(self.kept.ended, key=lambda span: span.start_time or 0)]

    def span(self, name: str) -> dict[str, Any]:
        (found,) = (span for span in self.spans() if span["name"] == name)
        return found

    def tree(self) -> list[dict[str, Any]]:
        """Names only: `[{"process slack": ["lane.wait", {"thread.gate": ["thread.refetch"]}]}]`."""
        return self._below("")

    def _below(self, parent_id: str) -> list[Any]:
        here = [span for span in self.spans() if span["parent_id"] == parent_id]
        return [{span["name"]: below} if (below := self._below(span["span_id"])) else span["name"] for span in here]

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "event_name": record.event_name,
                "body": record.body,
                "severity": record.severity_text,
                "timestamp": record.timestamp,
                "trace_id": format_trace_id(record.trace_id or 0),
                "span_id": format_span_id(record.span_id or 0),
                "attributes": dict(record.attributes or {}),
            }
            for record in (finished.log_record for finished in self.log.get_finished_logs())
        ]

    def points(self) -> list[dict[str, Any]]:
        """Every series: name, unit, attributes, and its value (of a histogram: its sum)."""
        data = self.reader.get_metrics_data()
        found = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return [
            {
                "name": metric.name,
                "unit": metric.unit,
                "attributes": dict(point.attributes or {}),
                "value": point.sum if isinstance(point, HistogramDataPoint) else getattr(point, "value", None),
                "bounds": list(point.explicit_bounds) if isinstance(point, HistogramDataPoint) else [],
                "exemplars": [format_trace_id(e.trace_id or 0) for e in getattr(point, "exemplars", ())],
            }
            for metric in found
            for point in metric.data.data_points
        ]

    def value(self, name: str, **attributes: str) -> float | None:
        """Of the one series with exactly these labels; None where there is none."""
        values: list[float] = [point["value"] for point in self.points() if point["name"] == name and point["attributes"] == attributes]
        assert len(values) <= 1
        return values[0] if values else None

    def nonzero(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [(p["attributes"], p["value"]) for p in self.points() if p["name"] == name and p["value"]]


@dataclass
class Sinks:
    kept: Kept = field(default_factory=Kept)
    log: InMemoryLogRecordExporter = field(default_factory=InMemoryLogRecordExporter)
    reader: InMemoryMetricReader = field(default_factory=lambda: InMemoryMetricReader(cardinality_limits=CARDINALITY_LIMITS))


@contextmanager
def recording(**settings: Any) -> Iterator[Recorded]:
    sinks = Sinks()
    local = {"span_processors": [sinks.kept], "log_exporters": [sinks.log], "metric_readers": [sinks.reader]}
    with telemetry(TelemetrySettings(**{"routes": ("main", "coder"), "accounts": ("work", "spare"), **local, **settings})) as emit:
        yield Recorded(emit=emit, kept=sinks.kept, log=sinks.log, reader=sinks.reader)


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


def _span(span: ReadableSpan) -> dict[str, Any]:
    assert span.context is not None
    return {
        "name": span.name,
        "trace_id": format_trace_id(span.context.trace_id),
        "span_id": format_span_id(span.context.span_id),
        "parent_id": format_span_id(span.parent.span_id) if span.parent else "",
        "kind": span.kind.name,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
        "links": [format_span_id(link.context.span_id) for link in span.links],
        "seconds": ((span.end_time or 0) - (span.start_time or 0)) / 1e9,
        "events": [event.name for event in span.events],
    }
