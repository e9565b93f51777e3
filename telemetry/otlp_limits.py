"""The span limits of OTEL_*, on what leaves the machine and on nothing else: a span of the local store is whole.

What is cut off is counted on the span, as the SDK does. Span events and attributes of links are none of ours and stay as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util import BoundedList

_NONE = SpanLimits.UNSET
NO_SPAN_LIMITS = SpanLimits(
    max_attributes=_NONE,
    max_events=_NONE,
    max_links=_NONE,
    max_span_attributes=_NONE,
    max_event_attributes=_NONE,
    max_link_attributes=_NONE,
    max_attribute_length=_NONE,
    max_span_attribute_length=_NONE,
)


class LimitedSpanExporter(SpanExporter):
    """Reads OTEL_* limits as it is made."""

    def __init__(self, onward: SpanExporter) -> None:
        self._onward, self._limits = onward, SpanLimits()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._onward.export([_limited(span, self._limits) for span in spans])

    def shutdown(self) -> None:
        self._onward.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._onward.force_flush(timeout_millis)


def _limited(span: ReadableSpan, limits: SpanLimits) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=BoundedAttributes(limits.max_span_attributes, span.attributes, max_value_len=limits.max_span_attribute_length),
        events=span.events,
        links=BoundedList.from_seq(limits.max_links, span.links),
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
