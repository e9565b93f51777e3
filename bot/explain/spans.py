"""From a stored trace to an `Explanation`. Pure: what the spans say, nothing looked up elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.explain.explanation import (
    LATE,
    OK,
    RUNNING,
    AskedMessage,
    Explanation,
    Gate,
    History,
    ModelCall,
    Part,
    Reset,
    Run,
    Session,
    Tool,
)
from telemetry.events import Decision, Outcome
from telemetry.names import Attr, SpanName
from telemetry.stored_values import number, text, whole
from telemetry.trace_reading import ERROR, StoredReset, StoredSpan, StoredTrace, Summary
from telemetry.trace_rows import REPLY, RUN

RUN_COUNTS = {
    Attr.MEMORY_STAGED: "staged",
    Attr.MEMORY_WRITTEN: "written",
    Attr.MEMORY_EDITED: "edited",
    Attr.MEMORY_TRIMMED: "trimmed",
    Attr.MEMORY_MERGED: "merged",
    Attr.MEMORY_DROPPED: "dropped",
    Attr.MEMORY_DELETED: "deleted",
}
DEEPEST = 20  # levels that are shown as such; the bot makes four
_MEMORY_TOOLS = ("memory_", "knowledge_")
_WELL = frozenset({"", Outcome.ANSWERED.value, "completed", "skipped"})


def explain(trace: StoredTrace, *, account: str = "", since: Sequence[StoredReset] = (), following: str = "") -> Explanation:
    """`account`: of the session that answered. `since`: resets of its session after the reply. `following`: the next attempt."""
    about, root = trace.about, _attributes(trace.root)
    parts = tuple(_parts(trace))
    tools = [_tool(span) for span in trace.named(SpanName.EXECUTE_TOOL.value)]
    return Explanation(
        trace_id=about.trace_id,
        kind=about.kind,
        name=about.name,
        message=AskedMessage(team=about.team, channel=about.channel, ts=about.ts, thread_ts=about.thread_ts),
        outcome=_outcome(about),
        reason=about.reason,
        began=about.started,
        seconds=about.seconds,
        attempt=about.attempt,
        previous=about.previous,
        next=following,
        gate=_gate(trace),
        history=_history(trace),
        session=_session(trace, root, account=account, since=since),
        parts=parts,
        model=tuple(_model(trace)),
        tools=tuple(tools),
        memory=tuple(tool for tool in tools if tool.name.rpartition("__")[2].startswith(_MEMORY_TOOLS)),
        run=_run(root) if about.kind == RUN else Run(),
    )


def reset_of(reset: StoredReset) -> Reset:
    return Reset(
        cause=reset.cause,
        how=reset.how,
        epoch=reset.epoch,
        forgotten=reset.forgotten,
        pre_tokens=reset.pre_tokens,
        post_tokens=reset.post_tokens,
    )


def _outcome(about: Summary) -> str:
    """Of a reply or run that has not ended: that it runs, unless the store knows better."""
    return about.outcome or (RUNNING if about.ended is None and about.kind in (REPLY, RUN) else "")


def _attributes(span: StoredSpan | None) -> Mapping[str, Any]:
    return span.attributes if span else {}


# -- the gate and what it brought --------------------------------------------------------------------------------------
def _gate(trace: StoredTrace) -> Gate:
    """The last one: it is the one that the answer's prompt was made from."""
    gates, injected = trace.named(SpanName.THREAD_GATE.value), _injected(trace)
    last = _attributes(gates[-1] if gates else None)
    return Gate(
        decision=text(last.get(Attr.GATE_DECISION, trace.about.decision)),
        reason=text(last.get(Attr.GATE_REASON, trace.about.gate_reason)),
        injection=text(injected.get(Attr.INJECT_INJECTION)),
        epoch=whole(last.get(Attr.SESSION_EPOCH)),
        known_threads=whole(last.get(Attr.GATE_KNOWN_THREADS)),
        tries=len(gates),
    )


def _injected(trace: StoredTrace) -> Mapping[str, Any]:
    gates = trace.named(SpanName.THREAD_GATE.value)
    since = gates[-1].start if gates else 0
    found = [span for span in trace.named(SpanName.THREAD_INJECT.value) if span.start >= since]
    return _attributes(found[-1] if found else None)


def _history(trace: StoredTrace) -> History:
    gates, injected = trace.named(SpanName.THREAD_GATE.value), _injected(trace)
    read = [span for span in trace.named(SpanName.THREAD_REFETCH.value) if gates and span.parent_id == gates[-1].span_id]
    refetch = _attributes(read[-1] if read else None)
    failed = bool(gates) and gates[-1].attributes.get(Attr.GATE_DECISION) == Decision.REFETCH_FAILED.value
    return History(
        read=whole(refetch.get(Attr.REFETCH_MESSAGES)) or 0,
        injected=whole(injected.get(Attr.INJECT_MESSAGES)) or 0,
        omitted=whole(injected.get(Attr.INJECT_OMITTED)) or 0,
        incomplete=failed or bool(refetch.get(Attr.REFETCH_TRUNCATED)),
    )


# -- the session -------------------------------------------------------------------------------------------------------
def _session(trace: StoredTrace, root: Mapping[str, Any], *, account: str, since: Sequence[StoredReset]) -> Session:
    asked = trace.named(SpanName.INVOKE_AGENT.value)
    resets = [span.attributes for span in trace.named(SpanName.SESSION_RESET.value)]
    known = (root, *(_attributes(span) for span in reversed(asked)), *resets)
    started = trace.named(SpanName.SESSION_START.value)
    return Session(
        route=trace.about.route,
        key=_first(known, Attr.SESSION_KEY),
        id=_first(known, Attr.GEN_AI_CONVERSATION_ID),
        account=text(_attributes(started[-1] if started else None).get(Attr.SESSION_ACCOUNT, account)),
        resets=tuple(_reset(attributes) for attributes in resets),
        since=tuple(reset_of(reset) for reset in since),
    )


def session_of(trace: StoredTrace) -> tuple[str, str]:
    """Key and session id, by which the rest is looked up."""
    session = _session(trace, _attributes(trace.root), account="", since=())
    return session.key, session.id


def _first(places: Sequence[Mapping[str, Any]], key: Attr) -> str:
    return next((value for place in places if (value := text(place.get(key)))), "")


def _reset(attributes: Mapping[str, Any]) -> Reset:
    return Reset(
        cause=text(attributes.get(Attr.RESET_CAUSE)),
        how=text(attributes.get(Attr.RESET_HOW)),
        epoch=whole(attributes.get(Attr.SESSION_EPOCH)),
        forgotten=whole(attributes.get(Attr.RESET_FORGOTTEN)),
        pre_tokens=whole(attributes.get(Attr.RESET_PRE_TOKENS)),
        post_tokens=whole(attributes.get(Attr.RESET_POST_TOKENS)),
    )


# -- time --------------------------------------------------------------------------------------------------------------
def _parts(trace: StoredTrace) -> Iterator[Part]:
    """The tree, parents first; a span whose parent was never stored, or is below it, stands under the root. Each once."""
    about, there = trace.about, {span.span_id for span in trace.spans}
    children: dict[str, list[StoredSpan]] = defaultdict(list)
    for span in trace.spans:
        children[span.parent_id if span.parent_id in there else ""].append(span)
    roots = [span for span in children.pop("", []) if span is not trace.root]
    if trace.root is not None:
        yield _part(trace.root, about, depth=0, status=_root_status(about))
        roots = [*children.pop(trace.root.span_id, []), *roots]
    else:
        yield Part(name=about.name or "?", start_ms=0.0, ms=None, status=_root_status(about))
    yield from _below(sorted(roots, key=lambda span: span.start), children, about)
    while children:  # a circle: what is left of it, from its first span on
        first = min((span for spans in children.values() for span in spans), key=lambda span: span.start)
        yield from _below(children.pop(first.parent_id), children, about)


def _below(roots: Sequence[StoredSpan], children: dict[str, list[StoredSpan]], about: Summary) -> Iterator[Part]:
    """Takes out of `children` what it shows."""
    open_ends = [(span, 1) for span in reversed(roots)]
    while open_ends:
        span, depth = open_ends.pop()
        yield _part(span, about, depth=min(depth, DEEPEST), status=_status(span))
        open_ends += [(child, depth + 1) for child in reversed(children.pop(span.span_id, []))]


def _part(span: StoredSpan, about: Summary, *, depth: int, status: str) -> Part:
    start = round(span.start / 1e6 - about.started * 1e3, 1)
    return Part(name=span.name, start_ms=start, ms=_ms(span), status=status, depth=depth)


def _ms(span: StoredSpan) -> float:
    return round((span.end - span.start) / 1e6, 1)


def _status(span: StoredSpan) -> str:
    if error := text(span.attributes.get(Attr.ERROR_TYPE)):
        return error
    if span.status == ERROR:
        return "error"
    return LATE if span.attributes.get(Attr.TOOL_LATE) else OK


def _root_status(about: Summary) -> str:
    if about.ended is None:
        return about.outcome or RUNNING
    return OK if about.outcome in _WELL else about.reason or about.outcome


# -- model, tools, runs ------------------------------------------------------------------------------------------------
def _model(trace: StoredTrace) -> Iterator[ModelCall]:
    """What began in a prompt that never ended has no cost yet."""
    costs = {span.span_id: number(span.attributes.get(Attr.COST_USD)) for span in trace.named(SpanName.INVOKE_AGENT.value)}
    chats = trace.named(SpanName.CHAT.value)
    last_of = {chat.parent_id: chat.span_id for chat in chats}
    for chat in chats:
        a = chat.attributes
        yield ModelCall(
            model=text(a.get(Attr.GEN_AI_RESPONSE_MODEL)) or text(a.get(Attr.GEN_AI_REQUEST_MODEL)),
            input_tokens=whole(a.get(Attr.GEN_AI_INPUT_TOKENS)),
            output_tokens=whole(a.get(Attr.GEN_AI_OUTPUT_TOKENS)),
            cache_read_tokens=whole(a.get(Attr.GEN_AI_CACHE_READ_TOKENS)),
            cost_usd=costs.get(chat.parent_id) if last_of[chat.parent_id] == chat.span_id else None,
        )


def _tool(span: StoredSpan) -> Tool:
    name = text(span.attributes.get(Attr.GEN_AI_TOOL_NAME)) or span.name.partition(" ")[2]
    return Tool(name=name, ms=_ms(span), status=_status(span))


def _run(root: Mapping[str, Any]) -> Run:
    return Run(
        id=text(root.get(Attr.MEMORY_RUN_ID)),
        worker=text(root.get(Attr.MEMORY_WORKER)),
        trigger=text(root.get(Attr.MEMORY_TRIGGER)),
        counts={word: count for key, word in RUN_COUNTS.items() if (count := whole(root.get(key)))},
    )
