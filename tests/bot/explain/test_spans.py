"""From the spans that the bot really makes, through the store, to the explanation's tree, compared whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.explain.explanation import Explanation, Gate, History
from bot.explain.spans import explain
from bot.intake import root_attributes
from bot.ports import ApiRetry, CallEnded, CallStarted, ToolEnded, ToolStarted, Usage
from bot.turn_spans import TurnSpans
from telemetry import events
from telemetry.emit import Emit, Span
from telemetry.events import Thread
from telemetry.names import Attr, SpanName
from telemetry.setup import TelemetrySettings, telemetry
from telemetry.trace_reading import reading
from telemetry.trace_store import TraceStore
from tests.telemetry.made_traces import Made, gate, root
from tests.telemetry.stores import store
from tests.telemetry.stores import stored as read_back

HERE = Thread("T012ABC", "C012ABC", "1796040000.000100")
TS = "1796040190.000200"


@contextmanager
def stored(path: Path) -> Iterator[tuple[Emit, list[Explanation]]]:
    """The emit, and after the block what is stored of every reply."""
    sink, found = TraceStore(path / "traces.db", delay_seconds=0.0), list[Explanation]()
    with telemetry(TelemetrySettings(span_processors=[sink], routes=("main",))) as emit:
        yield emit, found
    with reading(path / "traces.db") as traces:
        for about in traces.by_message(TS):
            trace = traces.trace(about.trace_id)
            assert trace is not None
            found.append(explain(trace))


def begin(emit: Emit) -> Span:
    span = emit.begin(SpanName.PROCESS, root_attributes(HERE, TS), root=True)
    span.set({Attr.ROUTE: "main", Attr.SESSION_KEY: "main"})
    return span


def tree(explanation: Explanation) -> list[str]:
    """A line a part, indented; how it ended where that was not well."""
    return [f"{'  ' * p.depth}{p.name}{'' if p.status == 'ok' else f' [{p.status}]'}" for p in explanation.parts]


def test_a_reply_with_everything_in_it(tmp_path: Path) -> None:
    usage = Usage(input=100, output=20, cache_read=800, cache_write=0)
    with stored(tmp_path) as (emit, found):
        top = begin(emit)
        with emit.within(top):
            wait = emit.begin(SpanName.LANE_WAIT)
            wait.end()
            with emit.span(SpanName.THREAD_GATE) as decision:
                with emit.span(SpanName.THREAD_REFETCH):
                    complete = events.RefetchOutcome.COMPLETE
                    emit(events.ThreadRefetched(route="main", thread=HERE, outcome=complete, seconds=0.1, pages=1, messages=30))
                decision.set({Attr.GATE_DECISION: "refetched", Attr.GATE_REASON: "after_rotate", Attr.SESSION_EPOCH: 3})
            with emit.span(SpanName.THREAD_INJECT):
                of = {"route": "main", "thread": HERE, "reason": events.Reason.AFTER_ROTATE, "injection": events.Injection.FULL}
                emit(events.ThreadInjected(**of, messages=28, omitted=2, chars=900))  # type: ignore[arg-type]
            with emit.span(SpanName.INVOKE_AGENT, {Attr.GEN_AI_AGENT: "main"}, label="main") as turn:
                spans = TurnSpans(emit, route="main", model="m")
                spans.on_event(CallStarted(at=0.0))
                spans.on_event(ApiRetry(at=0.1, attempt=1, error="overloaded"))
                spans.on_event(CallStarted(at=0.2))
                spans.on_event(ToolStarted(at=0.3, id="t1", name="Read"))
                spans.on_event(ToolStarted(at=0.3, id="t2", name="Bash"))
                spans.on_event(ToolStarted(at=0.3, id="t3", name="mcp__insomnia__memory_read"))
                spans.on_event(CallEnded(at=0.4, id="c", model="m-1", usage=usage, stop_reason="end_turn", first_token_at=None))
                spans.on_event(ToolEnded(at=0.5, id="t2", failed=True))
                spans.on_event(ToolEnded(at=0.5, id="t3", failed=False))
                emit(
                    events.SessionReset(
                        route="main",
                        key="main",
                        session_id="s",
                        cause=events.ResetCause.COMPACTION_AUTO,
                        how=events.ResetHow.RESUME,
                        epoch=4,
                        forgotten=2,
                    )
                )
                spans.finish(None)
                turn.set({Attr.COST_USD: 0.5})
            with emit.span(SpanName.SLACK_REPLY):
                pass
            decided = {"route": "main", "thread": HERE, "decision": events.Decision.REFETCHED, "reason": events.Reason.AFTER_ROTATE}
            emit(events.GateDecided(**decided, epoch=3, known_threads=0))  # type: ignore[arg-type]
        top.set({Attr.REPLY_OUTCOME: "answered"})
        top.end()

    (reply,) = found
    assert tree(reply) == [
        "process slack",
        "  lane.wait",
        "  thread.gate",
        "    thread.refetch",
        "  thread.inject",
        "  invoke_agent main",
        "    chat m [overloaded]",
        "    chat m",
        "    execute_tool Read [late]",
        "    execute_tool Bash [tool_error]",
        "    execute_tool memory_read",
        "    session.reset",
        "  slack.reply",
    ]
    assert (reply.outcome, reply.gate.decision, reply.gate.reason, reply.gate.injection) == (
        "answered",
        "refetched",
        "after_rotate",
        "full",
    )
    assert (reply.history.read, reply.history.injected, reply.history.omitted) == (30, 28, 2)
    assert [(call.model, call.input_tokens, call.cost_usd) for call in reply.model] == [("m", None, None), ("m-1", 900, 0.5)]
    assert [tool.name for tool in reply.memory] == ["memory_read"]
    assert [reset.cause for reset in reply.session.resets] == ["compaction_auto"]
    assert reply.session.key == "main"


def test_what_was_read_for_a_prompt_that_was_lost_is_not_told_of_the_one_that_was_answered(tmp_path: Path) -> None:
    made = Made(1)
    top = root(made, 900, GATE_DECISION="known", GATE_REASON="held", REPLY_OUTCOME="answered")
    first = gate(made, top, 0, 100, "refetched", "not_known", epoch=1)
    made.span("thread.refetch", 10, 90, {Attr.REFETCH_MESSAGES: 30, Attr.REFETCH_TRUNCATED: True}, under=first)
    made.span("thread.inject", 100, 101, {Attr.INJECT_INJECTION: "full", Attr.INJECT_MESSAGES: 28, Attr.INJECT_OMITTED: 2}, under=top)
    gate(made, top, 400, 401, "known", "held", epoch=2)
    store(tmp_path / "traces.db", made)

    reply = explain(read_back(tmp_path / "traces.db", made.id))

    assert reply.gate == Gate(decision="known", reason="held", epoch=2, known_threads=7, tries=2)
    assert reply.history == History()


def test_a_reply_that_was_cancelled_says_so_in_every_part_that_was(tmp_path: Path) -> None:
    with stored(tmp_path) as (emit, found):
        top = begin(emit)
        with pytest.raises(asyncio.CancelledError), emit.within(top), emit.span(SpanName.INVOKE_AGENT, label="main"):
            raise asyncio.CancelledError
        top.set({Attr.REPLY_OUTCOME: "cancelled"})
        top.end()

    assert tree(found[0]) == ["process slack [cancelled]", "  invoke_agent main [cancelled]"]
    assert found[0].outcome == "cancelled"


def test_a_reply_that_failed_names_the_failure_at_its_root_and_where_it_was(tmp_path: Path) -> None:
    with stored(tmp_path) as (emit, found):
        top = begin(emit)
        with pytest.raises(TimeoutError), emit.within(top), emit.span(SpanName.SLACK_REPLY):
            raise TimeoutError("with a text that nobody may see")
        top.set({Attr.REPLY_OUTCOME: "failed", Attr.REPLY_REASON: "slack_error"})
        top.fail("slack_error")
        top.end()

    assert tree(found[0]) == ["process slack [slack_error]", "  slack.reply [TimeoutError]"]
    assert "nobody" not in repr(found[0])


def test_a_part_whose_parent_was_lost_stands_under_the_root(tmp_path: Path) -> None:
    with stored(tmp_path) as (emit, found):
        top = begin(emit)
        with emit.within(top):
            never_ended = emit.begin(SpanName.INVOKE_AGENT, label="main")
            with emit.within(never_ended), emit.span(SpanName.CHAT, label="m"):
                pass
        top.end()

    assert tree(found[0]) == ["process slack [cancelled]", "  chat m"]


def test_a_reply_in_which_a_root_never_ended_runs(tmp_path: Path) -> None:
    with stored(tmp_path) as (emit, found):
        top = begin(emit)
        with emit.within(top), emit.span(SpanName.LANE_WAIT):
            pass

    assert tree(found[0]) == ["process slack [running]", "  lane.wait"]
    assert (found[0].outcome, found[0].seconds) == ("running", None)
