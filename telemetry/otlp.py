"""What leaves the machine over OTLP, and how: read from the standard environment variables, nothing of our own.

Three things differ from what the Python exporters would do by themselves: time-outs are milliseconds as specified,
a collector on loopback is reached past any proxy, and nothing is exported before an endpoint (or `otlp`) was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from telemetry.troubles import Troubles

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetricExporter
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.trace.export import SpanExporter

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
DEFAULT_ENDPOINTS = {"http/protobuf": "http://localhost:4318", "grpc": "http://localhost:4317"}
DEFAULT_TIMEOUT_SECONDS = 10.0  # the specification's
ENDPOINT, TIMEOUT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TIMEOUT"
LONGEST_NUMBER = 9  # digits; eleven days
INTERNAL_METRICS = "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one signal goes. `endpoint` is the full URL, path included for HTTP."""

    signal: Signal
    protocol: str
    endpoint: str
    timeout_seconds: float

    @property
    def is_loopback(self) -> bool:
        host = urlsplit(self.endpoint if "://" in self.endpoint else f"//{self.endpoint}").hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False


def targets(environ: Mapping[str, str], troubles: Troubles) -> dict[Signal, Target]:
    """The signals that are to be exported. An empty variable counts as unset, as specified."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    found = ((signal, _target(signal, environ, troubles)) for signal in SIGNALS)
    return {signal: target for signal, target in found if target is not None}


def _target(signal: Signal, environ: Mapping[str, str], troubles: Troubles) -> Target | None:
    base, own = environ.get(ENDPOINT, "").strip(), _own(signal, "ENDPOINT", environ)
    wanted = {name.strip().lower() for name in environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",")} - {""}
    if unknown := wanted - {"otlp", "none"}:
        troubles.say("exporter", f"OTEL_{signal.upper()}_EXPORTER={','.join(sorted(unknown))} is not supported; use otlp or none")
    if "none" in wanted or not (base or own or "otlp" in wanted):
        return None
    protocol = _protocol(signal, environ, troubles)
    if (said := own or base) and (wrong := _wrong(said, protocol)):
        name = _name(signal, "ENDPOINT") if own else ENDPOINT
        troubles.say(name, f"{name} {wrong}; nothing is sent there")
        return None
    base = base or DEFAULT_ENDPOINTS[protocol]
    shared = base if protocol == "grpc" else f"{base.rstrip('/')}/v1/{signal}"
    return Target(signal=signal, protocol=protocol, endpoint=own or shared, timeout_seconds=_timeout(signal, environ, troubles))


def _wrong(endpoint: str, protocol: str) -> str:
    """What is, without a word of it: a password may be in it. gRPC has schemes of its own, and may go without."""
    if not endpoint.lower().startswith(("http://", "https://")) and (protocol != "grpc" or "://" in endpoint):
        return "" if protocol == "grpc" else "has to begin with http:// or https://"
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        return "" if parts.hostname and parts.port != 0 else "names no host, or port 0"
    except ValueError:  # that of the library quotes it
        return "is no address (what stands before an @ in it has to be percent-encoded)"


def _name(signal: Signal, name: str) -> str:
    return f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}"


def _own(signal: Signal, name: str, environ: Mapping[str, str]) -> str:
    """Empty where it is not set, or blank."""
    return environ.get(_name(signal, name), "").strip()


def _protocol(signal: Signal, environ: Mapping[str, str], troubles: Troubles) -> str:
    protocol = (_own(signal, "PROTOCOL", environ) or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()).lower() or "http/protobuf"
    if protocol not in DEFAULT_ENDPOINTS:
        troubles.say("protocol", f"OTLP protocol {protocol} is not supported; using http/protobuf (the other choice is grpc)")
        return "http/protobuf"
    return protocol


def _timeout(signal: Signal, environ: Mapping[str, str], troubles: Troubles) -> float:
    own = _own(signal, "TIMEOUT", environ)
    value, name = (own, _name(signal, "TIMEOUT")) if own else (environ.get(TIMEOUT, "").strip(), TIMEOUT)
    if not value:
        return DEFAULT_TIMEOUT_SECONDS
    if not (value.isascii() and value.isdecimal() and int(value[:LONGEST_NUMBER]) > 0 and len(value) <= LONGEST_NUMBER):
        troubles.say(name, f"{name}={value} is not a number of milliseconds above 0; using 10000")
        return DEFAULT_TIMEOUT_SECONDS
    return int(value) / 1000


@contextmanager
def sdk_environment() -> Iterator[None]:
    """The environment as the SDK shall see it while providers are built; it reads variables in a dozen constructors.

    Disabled is decided above (local sinks stay); time-outs are passed in seconds; internal metrics are on unless denied.
    """
    timeouts = (TIMEOUT, *(_name(signal, "TIMEOUT") for signal in SIGNALS))
    hidden = ("OTEL_SDK_DISABLED", *timeouts)
    before = {name: os.environ.get(name) for name in (*hidden, INTERNAL_METRICS)}
    for name in hidden:
        os.environ.pop(name, None)
    if not (before[INTERNAL_METRICS] or "").strip():
        os.environ[INTERNAL_METRICS] = "true"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def span_exporter(target: Target, meter_provider: MeterProvider) -> SpanExporter:
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc(**_grpc(target), meter_provider=meter_provider)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    return Http(**_http(target), meter_provider=meter_provider)


def log_exporter(target: Target, meter_provider: MeterProvider) -> LogRecordExporter:
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as Grpc

        return Grpc(**_grpc(target), meter_provider=meter_provider)
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as Http

    return Http(**_http(target), meter_provider=meter_provider)


def metric_exporter(target: Target) -> GrpcMetricExporter | HttpMetricExporter:
    """Its own metrics need the provider that is built from it: `set_meter_provider` afterwards."""
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as Grpc

        return Grpc(**_grpc(target))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as Http

    return Http(**_http(target))


def _http(target: Target) -> dict[str, Any]:
    from telemetry.otlp_session import CollectorSession  # only here: 40 ms of import that no machine without a collector pays

    # Where the operator names a provider of credentials, the session is that one's to make.
    provided = any(
        value.strip() and name.startswith("OTEL_PYTHON_EXPORTER_OTLP_HTTP_") and name.endswith("CREDENTIAL_PROVIDER")
        for name, value in os.environ.items()
    )
    session: dict[str, Any] = {} if provided else {"session": CollectorSession(direct=target.is_loopback)}
    return {"endpoint": target.endpoint, "timeout": target.timeout_seconds, **session}


def _grpc(target: Target) -> dict[str, Any]:
    past_proxy = {"channel_options": (("grpc.enable_http_proxy", 0),)} if target.is_loopback else {}
    return {"endpoint": target.endpoint, "timeout": target.timeout_seconds, **past_proxy}
