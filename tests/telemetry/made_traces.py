"""Traces as the bot makes them, with ids and times that a test knows: spans of the SDK's own class, begun at `BEGAN`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from telemetry.names import Attr

BEGAN = 1_796_040_191_000_000_000  # 2026-11-30 12:03:11 UTC
MS = 1_000_000
TEAM, CHANNEL = "T012ABC", "C012ABC"
THREAD_TS, TS, POST_TS = "1796040000.000100", "1796040190.000200", "1796040194.000300"
SESSION = "0b9d3c1e-5e55-4c1f-9a51-6a7e2f3c4d5e"
MODEL = "claude-opus-5-5"
ROOT: Mapping[str, Any] = {
    Attr.MESSAGING_SYSTEM: "slack",
    Attr.MESSAGING_DESTINATION: CHANNEL,
    Attr.MESSAGING_MESSAGE_ID: TS,
    Attr.MESSAGING_CONVERSATION_ID: THREAD_TS,
    Attr.THREAD_TEAM: TEAM,
    Attr.ROUTE: "main",
    Attr.SESSION_KEY: "main",
    Attr.GEN_AI_CONVERSATION_ID: SESSION,
}


def trace_id(number: int) -> str:
    return f"{number:08x}" + "4bf92f3577b34da6a3ce929d"


@dataclass
class Made:
    """One trace. Spans end in the order in which they are made; `began` in nanoseconds."""

    number: int = 1
    began: int = BEGAN
    spans: list[ReadableSpan] = field(default_factory=list)

    @property
    def id(self) -> str:
        return trace_id(self.number)

    def span(
        self,
        name: str,
        start: float,
        end: float | None,
        attributes: Mapping[str, Any] | None = None,
        *,
        under: ReadableSpan | None = None,
        error: str = "",
        links: Sequence[str] = (),
    ) -> ReadableSpan:
        """`start`, `end` in milliseconds from the beginning. Without `under` it is the root. `links`: ids of traces."""
        made = ReadableSpan(
            name,
            resource=Resource.get_empty(),
            context=self._context(len(self.spans) + 1),
            parent=under.context if under else None,
            attributes={str(key): value for key, value in ({**(attributes or {}), **({Attr.ERROR_TYPE: error} if error else {})}).items()},
            links=[Link(SpanContext(int(other, 16), 1, is_remote=True)) for other in links],
            status=Status(StatusCode.ERROR if error and error != "cancelled" else StatusCode.UNSET),
            start_time=self.began + int(start * MS),
            end_time=None if end is None else self.began + int(end * MS),
        )
        self.spans.append(made)
        return made

    def _context(self, span_id: int) -> SpanContext:
        return SpanContext(int(self.id, 16), span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def root(made: Made, end: float | None, *, error: str = "", links: Sequence[str] = (), **attributes: Any) -> ReadableSpan:
    more = {Attr[name]: value for name, value in attributes.items()}
    return made.span("process slack", 0, end, {**ROOT, **more}, error=error, links=links)


def gate(
    made: Made, top: ReadableSpan, start: float, end: float, decision: str, reason: str, *, epoch: int = 4, known: int = 7
) -> ReadableSpan:
    about = {Attr.GATE_DECISION: decision, Attr.GATE_REASON: reason, Attr.SESSION_EPOCH: epoch, Attr.GATE_KNOWN_THREADS: known}
    return made.span("thread.gate", start, end, about, under=top)


def chat(
    made: Made, asked: ReadableSpan, start: float, end: float, *, tokens: int = 12_400, cached: int = 11_000, out: int = 90
) -> ReadableSpan:
    about = {
        Attr.GEN_AI_REQUEST_MODEL: MODEL,
        Attr.GEN_AI_RESPONSE_MODEL: MODEL,
        Attr.GEN_AI_INPUT_TOKENS: tokens,
        Attr.GEN_AI_OUTPUT_TOKENS: out,
        Attr.GEN_AI_CACHE_READ_TOKENS: cached,
    }
    return made.span(f"chat {MODEL}", start, end, about, under=asked)


def asked(made: Made, top: ReadableSpan, start: float, end: float, *, usd: float = 0.0312, error: str = "") -> ReadableSpan:
    about = {Attr.GEN_AI_AGENT: "main", Attr.GEN_AI_CONVERSATION_ID: SESSION, Attr.COST_USD: usd}
    return made.span("invoke_agent main", start, end, about, under=top, error=error)


def refetched(number: int = 1, *, began: int = BEGAN) -> Made:
    """A compaction had emptied the set; the thread was read, tools were used, one of them was late."""
    made = Made(number, began)
    about = {"GATE_DECISION": "refetched", "GATE_REASON": "after_compaction", "REPLY_OUTCOME": "answered"}
    top = root(made, 3_400, **about)
    made.span("lane.wait", 0, 200, {Attr.LANE_POSITION: 1}, under=top)
    start = {Attr.GEN_AI_CONVERSATION_ID: SESSION, Attr.RESET_HOW: "resume", Attr.SESSION_ACCOUNT: "work"}
    made.span("session.start", 200, 520, start, under=top)
    decided = gate(made, top, 520, 1_020, "refetched", "after_compaction")
    made.span(
        "thread.refetch", 530, 1_010, {Attr.REFETCH_MESSAGES: 30, Attr.REFETCH_PAGES: 1, Attr.REFETCH_TRUNCATED: False}, under=decided
    )
    inject = {Attr.INJECT_INJECTION: "full", Attr.INJECT_MESSAGES: 28, Attr.INJECT_OMITTED: 2, Attr.INJECT_CHARS: 15_800}
    made.span("thread.inject", 1_020, 1_021, inject, under=top)
    turn = asked(made, top, 1_025, 3_200)
    chat(made, turn, 1_030, 1_900)
    made.span("execute_tool Grep", 1_900, 2_020, {Attr.GEN_AI_TOOL_NAME: "Grep"}, under=turn, error="tool_error")
    made.span("execute_tool Read", 1_905, 3_190, {Attr.GEN_AI_TOOL_NAME: "Read", Attr.TOOL_LATE: True}, under=turn)
    made.span("execute_tool mcp__insomnia__memory_query", 1_950, 1_980, {Attr.GEN_AI_TOOL_NAME: "mcp__insomnia__memory_query"}, under=turn)
    chat(made, turn, 2_030, 3_190, tokens=13_100, cached=12_400, out=310)
    made.span("slack.reply", 3_200, 3_390, {Attr.REPLY_TS: (POST_TS,), Attr.REPLY_CHUNKS: 1}, under=top)
    return made


def known(number: int = 1, *, began: int = BEGAN) -> Made:
    made = Made(number, began)
    top = root(made, 1_500, GATE_DECISION="known", GATE_REASON="held", REPLY_OUTCOME="answered")
    gate(made, top, 1, 2, "known", "held")
    turn = asked(made, top, 5, 1_400)
    chat(made, turn, 6, 1_395)
    made.span("slack.reply", 1_400, 1_500, {Attr.REPLY_TS: (POST_TS,)}, under=top)
    return made


def failed(number: int = 1, *, began: int = BEGAN) -> Made:
    """Asked twice, as the context was compacted before the first answer, and then the model's limit was reached."""
    made = Made(number, began)
    about = {"GATE_DECISION": "refetched", "GATE_REASON": "after_compaction", "REPLY_OUTCOME": "failed", "REPLY_REASON": "model_limit"}
    top = root(made, 9_000, error="model_limit", **about)
    gate(made, top, 1, 2, "known", "held", epoch=3)
    turn = asked(made, top, 5, 4_000)
    reset = {Attr.SESSION_KEY: "main", Attr.ROUTE: "main", Attr.GEN_AI_CONVERSATION_ID: SESSION, Attr.RESET_CAUSE: "compaction_auto"}
    numbers = {Attr.SESSION_EPOCH: 4, Attr.RESET_FORGOTTEN: 7, Attr.RESET_PRE_TOKENS: 190_000, Attr.RESET_POST_TOKENS: 20_000}
    made.span("session.reset", 10, 2_000, {**reset, **numbers, Attr.RESET_HOW: "resume"}, under=turn)
    chat(made, turn, 2_000, 3_990)
    again = gate(made, top, 4_010, 4_500, "refetched", "after_compaction", known=0)
    made.span("thread.refetch", 4_020, 4_490, {Attr.REFETCH_MESSAGES: 12, Attr.REFETCH_TRUNCATED: True}, under=again)
    second = asked(made, top, 4_510, 8_900, error="rate_limit", usd=0.0)
    made.span(f"chat {MODEL}", 4_520, 8_890, {Attr.GEN_AI_REQUEST_MODEL: MODEL}, under=second, error="rate_limit")
    made.span("slack.reply", 8_900, 9_000, {Attr.REPLY_TS: (POST_TS,)}, under=top)
    return made


def run(number: int = 1, *, began: int = BEGAN) -> Made:
    made = Made(number, began)
    about = {
        Attr.MEMORY_RUN_ID: "r-7",
        Attr.MEMORY_WORKER: "memory_consolidation",
        Attr.MEMORY_TRIGGER: "staging_backlog",
        Attr.MEMORY_STATUS: "completed",
        Attr.MEMORY_WRITTEN: 1,
        Attr.MEMORY_MERGED: 2,
    }
    top = made.span("memory.run memory_consolidation", 0, 61_000, about)
    turn = made.span("invoke_agent memory_consolidation", 10, 60_000, {Attr.COST_USD: 0.11}, under=top)
    chat(made, turn, 20, 59_000)
    return made


def reset(number: int, cause: str, *, began: int) -> Made:
    """One that no reply met."""
    made = Made(number, began)
    about = {Attr.SESSION_KEY: "main", Attr.ROUTE: "main", Attr.GEN_AI_CONVERSATION_ID: SESSION, Attr.RESET_CAUSE: cause}
    made.span("session.reset", 0, 0, {**about, Attr.RESET_HOW: "none", Attr.SESSION_EPOCH: 5, Attr.RESET_FORGOTTEN: 3})
    return made
