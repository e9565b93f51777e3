"""OTLP protobuf → plain dicts. Ids become lower-case hex ("" for none), times stay nanoseconds, enums become their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, Metric, NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Plain = dict[str, Any]

_STATUS = ("UNSET", "OK", "ERROR")


def spans(request: ExportTraceServiceRequest) -> Iterator[Plain]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield {**_span(span), "resource": resource}


def logs(request: ExportLogsServiceRequest) -> Iterator[Plain]:
    for group in request.resource_logs:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_logs:
            for record in scope.log_records:
                yield {**_log(record), "resource": resource}


def points(request: ExportMetricsServiceRequest) -> Iterator[tuple[tuple[str, ...], Plain]]:
    """Each data point with what identifies its series."""
    for group in request.resource_metrics:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                for point in _points(metric):
                    identity = (str(sorted(resource.items())), metric.name, str(sorted(point["attributes"].items())))
                    yield identity, {**point, "resource": resource}


def _span(span: Span) -> Plain:
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": span.parent_span_id.hex(),
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        "attributes": _attributes(span.attributes),
        "links": [
            {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex(), "attributes": _attributes(link.attributes)}
            for link in span.links
        ],
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "status": _STATUS[span.status.code],
        "status_message": span.status.message,
    }


def _log(record: LogRecord) -> Plain:
    return {
        "event_name": record.event_name,
        "body": _value(record.body),
        "severity": record.severity_text,
        "attributes": _attributes(record.attributes),
        "timestamp": record.time_unix_nano,
        "trace_id": record.trace_id.hex(),
        "span_id": record.span_id.hex(),
    }


def _points(metric: Metric) -> Iterator[Plain]:
    kind = metric.WhichOneof("data") or ""
    common = {"name": metric.name, "unit": metric.unit, "kind": kind}
    if kind == "histogram":
        for histogram in metric.histogram.data_points:
            yield {**common, **_histogram(histogram)}
    elif kind in ("sum", "gauge"):
        for number in (metric.sum if kind == "sum" else metric.gauge).data_points:
            yield {**common, **_number(number)}


def _number(point: NumberDataPoint) -> Plain:
    value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
    return {"attributes": _attributes(point.attributes), "value": value, "exemplars": _exemplars(point)}


def _histogram(point: HistogramDataPoint) -> Plain:
    return {
        "attributes": _attributes(point.attributes),
        "count": point.count,
        "sum": point.sum,
        "bounds": list(point.explicit_bounds),
        "buckets": list(point.bucket_counts),
        "exemplars": _exemplars(point),
    }


def _exemplars(point: NumberDataPoint | HistogramDataPoint) -> list[Plain]:
    return [{"trace_id": exemplar.trace_id.hex(), "span_id": exemplar.span_id.hex()} for exemplar in point.exemplars]


def _attributes(pairs: Iterable[KeyValue]) -> Plain:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind)
