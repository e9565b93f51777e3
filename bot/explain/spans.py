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
        decision=str(last.get(Attr.GATE_DECISION, trace.about.decision)),
        reason=str(last.get(Attr.GATE_REASON, trace.about.gate_reason)),
        injection=str(injected.get(Attr.INJECT_INJECTION, "")),
        epoch=last.get(Attr.SESSION_EPOCH),
        known_threads=last.get(Attr.GATE_KNOWN_THREADS),
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
        read=int(refetch.get(Attr.REFETCH_MESSAGES, 0)),
        injected=int(injected.get(Attr.INJECT_MESSAGES, 0)),
        omitted=int(injected.get(Attr.INJECT_OMITTED, 0)),
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
        account=str(_attributes(started[-1] if started else None).get(Attr.SESSION_ACCOUNT, account)),
        resets=tuple(_reset(attributes) for attributes in resets),
        since=tuple(reset_of(reset) for reset in since),
    )


def session_of(trace: StoredTrace) -> tuple[str, str]:
    """Key and session id, by which the rest is looked up."""
    session = _session(trace, _attributes(trace.root), account="", since=())
    return session.key, session.id


def _first(places: Sequence[Mapping[str, Any]], key: Attr) -> str:
    return next((str(value) for place in places if (value := place.get(key))), "")


def _reset(attributes: Mapping[str, Any]) -> Reset:
    return Reset(
        cause=str(attributes.get(Attr.RESET_CAUSE, "")),
        how=str(attributes.get(Attr.RESET_HOW, "")),
        epoch=attributes.get(Attr.SESSION_EPOCH),
        forgotten=attributes.get(Attr.RESET_FORGOTTEN),
        pre_tokens=attributes.get(Attr.RESET_PRE_TOKENS),
        post_tokens=attributes.get(Attr.RESET_POST_TOKENS),
    )


# -- time --------------------------------------------------------------------------------------------------------------
def _parts(trace: StoredTrace) -> Iterator[Part]:
    """The tree, parents first; a span whose parent was never stored stands under the root."""
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
    for span in sorted(roots, key=lambda span: span.start):
        yield from _below(span, children, about, depth=1)


def _below(span: StoredSpan, children: Mapping[str, Sequence[StoredSpan]], about: Summary, *, depth: int) -> Iterator[Part]:
    yield _part(span, about, depth=depth, status=_status(span))
    for child in children.get(span.span_id, ()):
        yield from _below(child, children, about, depth=depth + 1)


def _part(span: StoredSpan, about: Summary, *, depth: int, status: str) -> Part:
    start = round(span.start / 1e6 - about.started * 1e3, 1)
    return Part(name=span.name, start_ms=start, ms=_ms(span), status=status, depth=depth)


def _ms(span: StoredSpan) -> float:
    return round((span.end - span.start) / 1e6, 1)


def _status(span: StoredSpan) -> str:
    if error := span.attributes.get(Attr.ERROR_TYPE):
        return str(error)
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
    costs = {span.span_id: span.attributes.get(Attr.COST_USD) for span in trace.named(SpanName.INVOKE_AGENT.value)}
    chats = trace.named(SpanName.CHAT.value)
    last_of = {chat.parent_id: chat.span_id for chat in chats}
    for chat in chats:
        a = chat.attributes
        yield ModelCall(
            model=str(a.get(Attr.GEN_AI_RESPONSE_MODEL) or a.get(Attr.GEN_AI_REQUEST_MODEL) or ""),
            input_tokens=a.get(Attr.GEN_AI_INPUT_TOKENS),
            output_tokens=a.get(Attr.GEN_AI_OUTPUT_TOKENS),
            cache_read_tokens=a.get(Attr.GEN_AI_CACHE_READ_TOKENS),
            cost_usd=costs.get(chat.parent_id) if last_of[chat.parent_id] == chat.span_id else None,
        )


def _tool(span: StoredSpan) -> Tool:
    name = span.attributes.get(Attr.GEN_AI_TOOL_NAME) or span.name.partition(" ")[2]
    return Tool(name=str(name), ms=_ms(span), status=_status(span))


def _run(root: Mapping[str, Any]) -> Run:
    return Run(
        id=str(root.get(Attr.MEMORY_RUN_ID, "")),
        worker=str(root.get(Attr.MEMORY_WORKER, "")),
        trigger=str(root.get(Attr.MEMORY_TRIGGER, "")),
        counts={word: int(root[key]) for key, word in RUN_COUNTS.items() if root.get(key)},
    )
