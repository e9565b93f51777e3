"""Spans behind the verbs of `emit`: names, kinds, parents, links, and how each of them ends.

Nothing here records text: of an exception only its class is kept, since its message may quote a model or a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from telemetry.emit import AttrValue, Span
from telemetry.events import TraceRef
from telemetry.names import Attr, SpanName
from telemetry.troubles import Troubles

CANCELLED = "cancelled"

KINDS = {SpanName.PROCESS: SpanKind.CONSUMER, SpanName.CHAT: SpanKind.CLIENT, SpanName.SLACK_REPLY: SpanKind.CLIENT}


def plain(attributes: Mapping[Attr, AttrValue]) -> dict[str, AttrValue]:
    """Plain strings: exporters and stores need not know our enums."""
    return {key.value: str(value) if isinstance(value, StrEnum) else value for key, value in attributes.items()}


def to_link(ref: TraceRef) -> Link:
    # Sampled: whether it was is not known any more, and a viewer should at least try to follow.
    return Link(SpanContext(int(ref.trace_id, 16), int(ref.span_id, 16), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))


def to_ref(span: trace.Span) -> TraceRef:
    ids = span.get_span_context()
    return TraceRef(trace.format_trace_id(ids.trace_id), trace.format_span_id(ids.span_id))


class OtelSpan:
    """An `emit.Span`. After its end it takes nothing any more: the SDK would only log about it."""

    def __init__(self, span: trace.Span, troubles: Troubles) -> None:
        self.otel = span
        self._troubles = troubles
        self._ended = False

    @property
    def ref(self) -> TraceRef:
        return to_ref(self.otel)

    def set(self, attributes: Mapping[Attr, AttrValue]) -> None:
        with self._troubles.caught("span"):
            if not self._ended:
                self.otel.set_attributes(plain(attributes))

    def fail(self, error_type: str) -> None:
        with self._troubles.caught("span"):
            if not self._ended:
                self.otel.set_attribute(Attr.ERROR_TYPE.value, error_type)
                self.otel.set_status(Status(StatusCode.ERROR, error_type))  # viewers show the description

    def end(self) -> None:
        with self._troubles.caught("span"):
            if not self._ended:
                self._ended = True
                self.otel.end()


class Spans:
    """Implements the span verbs of `emit.Emit`; `OtelEmit` adds the facts."""

    def __init__(self, tracer: trace.Tracer, troubles: Troubles) -> None:
        self._tracer = tracer
        self._troubles = troubles

    @contextmanager
    def span(
        self, name: SpanName, attributes: Mapping[Attr, AttrValue] | None = None, *, label: str = "", links: Sequence[TraceRef] = ()
    ) -> Iterator[Span]:
        span = self.begin(name, attributes, label=label, links=links)
        try:
            with self.within(span):
                yield span
        except asyncio.CancelledError:
            # Not an error by the conventions, so the status stays unset; without the attribute it would look done.
            span.set({Attr.ERROR_TYPE: CANCELLED})
            raise
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            span.end()

    def begin(
        self,
        name: SpanName,
        attributes: Mapping[Attr, AttrValue] | None = None,
        *,
        label: str = "",
        root: bool = False,
        links: Sequence[TraceRef] = (),
    ) -> Span:
        span: trace.Span = trace.INVALID_SPAN
        with self._troubles.caught("span"):
            span = self._tracer.start_span(
                f"{name.value} {label}" if label else name.value,
                context=Context() if root else None,
                kind=KINDS.get(name, SpanKind.INTERNAL),
                attributes=plain(attributes or {}),
                links=[to_link(ref) for ref in links],
            )
        return OtelSpan(span, self._troubles)

    @contextmanager
    def within(self, span: Span) -> Iterator[None]:
        if not isinstance(span, OtelSpan):  # a test's own double; it has no context to carry
            yield
            return
        token = otel_context.attach(trace.set_span_in_context(span.otel))
        try:
            yield
        finally:
            otel_context.detach(token)

    def current(self) -> TraceRef | None:
        span = trace.get_current_span()
        return to_ref(span) if span.get_span_context().is_valid else None
