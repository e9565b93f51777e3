"""From ended spans to rows of the trace store. Pure: it reads spans and gives plain values.

A trace is found by what its root says of it, so the root's attributes become columns; what a child alone knows (that the
context was reset, which process was started, which messages the answer became) gets a row of its own table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from telemetry.events import Outcome
from telemetry.names import Attr, SpanName
from telemetry.stored_values import whole

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

REPLY, RUN, SESSION, RESET, OTHER = "reply", "run", "session", "reset", "other"
KINDS = {SpanName.PROCESS.value: REPLY, SpanName.SESSION.value: SESSION, SpanName.SESSION_RESET.value: RESET}
INTERRUPTED = "interrupted"  # its process died before it ended

# Column of a trace → the root's attribute.
_ROOT = {
    "team": Attr.THREAD_TEAM.value,
    "channel": Attr.MESSAGING_DESTINATION.value,
    "ts": Attr.MESSAGING_MESSAGE_ID.value,
    "thread_ts": Attr.MESSAGING_CONVERSATION_ID.value,
    "route": Attr.ROUTE.value,
    "decision": Attr.GATE_DECISION.value,
    "gate_reason": Attr.GATE_REASON.value,
    "attempt": Attr.REPLY_ATTEMPT.value,
}
_NUMBERS = frozenset({"attempt"})
_GATE = {"decision": Attr.GATE_DECISION.value, "gate_reason": Attr.GATE_REASON.value}

# ASCII, so that not even a lone surrogate can make a row unwritable; a value of no known kind is kept as its text.
_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """A root that has only begun; by the time it is read it may have ended, which is then told by itself."""

    span: ReadableSpan


@dataclass(slots=True)
class Gathered:
    """What one batch says of one trace."""

    spans: list[tuple[Any, ...]] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    first_start: int = 0
    resets: list[tuple[Any, ...]] = field(default_factory=list)
    starts: list[tuple[Any, ...]] = field(default_factory=list)
    posts: list[str] = field(default_factory=list)

    @property
    def body(self) -> str:
        return _encode(self.spans)


def gather(batch: Iterable[ReadableSpan | Begun]) -> dict[int, Gathered]:
    """By trace id, in the order in which the traces are first met."""
    found: dict[int, Gathered] = {}
    for item in batch:
        span = item.span if isinstance(item, Begun) else item
        if span.context is None:
            continue
        trace = found.get(span.context.trace_id)
        if trace is None:
            trace = found[span.context.trace_id] = Gathered(first_start=span.start_time or 0)
        attributes = _read(span)
        if isinstance(item, Begun):
            trace.columns |= _root(span, attributes)
        else:
            _take(trace, span, span.context.span_id, attributes)
    return found


def _read(span: ReadableSpan) -> Attributes:
    """A root that still runs is written to by its reply meanwhile: what is just being replaced is left out."""
    attributes = span.attributes or {}
    return {key: value for key in attributes if (value := attributes.get(key)) is not None}


def _take(trace: Gathered, span: ReadableSpan, span_id: int, attributes: Attributes) -> None:
    parent, start, end, name = span.parent, span.start_time or 0, span.end_time or 0, span.name
    above = f"{parent.span_id:016x}" if parent else ""
    row = (f"{span_id:016x}", above, name, start, end - start, span.status.status_code.value, attributes)
    trace.spans.append((*row, _links(span)) if span.links else row)
    if parent is None:
        trace.columns |= _root(span, attributes) | {"ended": end} | _end(span.name, attributes)
    _note(trace, name, attributes, at=end)


def _note(trace: Gathered, name: str, attributes: Attributes, *, at: int) -> None:
    if name == SpanName.THREAD_GATE.value:
        trace.columns |= _present(_GATE, attributes)
    elif name == SpanName.SESSION_RESET.value:
        trace.resets.append((at, *_reset(attributes)))
    elif name == SpanName.SESSION_START.value:
        text = (_text(attributes.get(a.value, "")) for a in (Attr.GEN_AI_CONVERSATION_ID, Attr.RESET_HOW, Attr.SESSION_ACCOUNT))
        trace.starts.append((at, *text))
    elif name == SpanName.SLACK_REPLY.value:
        posted = attributes.get(Attr.REPLY_TS.value, ())
        trace.posts += [_text(ts) for ts in ([posted] if isinstance(posted, str) else posted)]
    elif name.startswith(SpanName.INVOKE_AGENT.value) and (agent := attributes.get(Attr.GEN_AI_AGENT.value)):
        trace.columns.setdefault("route", _text(agent))


def _reset(attributes: Attributes) -> Iterable[Any]:
    """key, route, session id, cause, how, epoch, forgotten, tokens before and after."""
    words = (Attr.SESSION_KEY, Attr.ROUTE, Attr.GEN_AI_CONVERSATION_ID, Attr.RESET_CAUSE, Attr.RESET_HOW)
    numbers = (Attr.SESSION_EPOCH, Attr.RESET_FORGOTTEN, Attr.RESET_PRE_TOKENS, Attr.RESET_POST_TOKENS)
    return (*(_text(attributes.get(a.value, "")) for a in words), *(whole(attributes.get(a.value)) for a in numbers))


def _root(span: ReadableSpan, attributes: Attributes) -> dict[str, Any]:
    columns = _present(_ROOT, attributes) | {"kind": _kind(span.name), "name": _text(span.name), "started": span.start_time or 0}
    if columns["kind"] == REPLY and span.links:
        columns["previous"] = span.links[0].context.trace_id.to_bytes(16, "big")
    return columns


def _kind(name: str) -> str:
    return KINDS.get(name) or (RUN if name.startswith(SpanName.MEMORY_RUN.value) else OTHER)


def _end(name: str, attributes: Attributes) -> dict[str, str]:
    """A reply or run that says nothing of its outcome was cancelled before it could; a session only ends."""
    if _kind(name) not in (REPLY, RUN):
        return {}
    outcome = attributes.get(Attr.REPLY_OUTCOME.value) or attributes.get(Attr.MEMORY_STATUS.value) or Outcome.CANCELLED.value
    reason = attributes.get(Attr.REPLY_REASON.value) or attributes.get(Attr.MEMORY_REASON.value) or ""
    return {"outcome": _text(outcome), "reason": _text(reason)}


def _present(columns: Mapping[str, str], attributes: Attributes) -> dict[str, Any]:
    found = {column: value for column, key in columns.items() if (value := attributes.get(key)) not in (None, "")}
    return {column: kept for column, value in found.items() if (kept := whole(value) if column in _NUMBERS else _text(value)) is not None}


def _text(value: object) -> str:
    """As SQLite takes it: no lone surrogates."""
    return str(value).encode("utf-8", "replace").decode()


def _links(span: ReadableSpan) -> list[tuple[str, str]]:
    return [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links]
