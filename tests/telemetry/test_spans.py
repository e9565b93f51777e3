"""The span verbs: who is whose child, and how each span ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from telemetry.events import TraceRef
from telemetry.names import Attr, SpanName
from tests.telemetry.conftest import Recorded, recording


async def test_c087_a_reply_is_one_trace_across_the_queue_of_its_lane(recorded: Recorded) -> None:
    emit = recorded.emit
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def lane() -> None:
        root, wait = await queue.get()
        wait.end()
        with emit.within(root):
            with emit.span(SpanName.THREAD_GATE), emit.span(SpanName.THREAD_REFETCH):
                pass
            with emit.span(SpanName.INVOKE_AGENT, label="main"), emit.span(SpanName.CHAT, label="claude-x"):
                pass
            with emit.span(SpanName.SLACK_REPLY):
                pass
        root.end()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(lane())
        root = emit.begin(SpanName.PROCESS, root=True)
        with emit.within(root):
            wait = emit.begin(SpanName.LANE_WAIT)
        queue.put_nowait((root, wait))

    assert recorded.tree() == [
        {
            "process slack": [
                "lane.wait",
                {"thread.gate": ["thread.refetch"]},
                {"invoke_agent main": ["chat claude-x"]},
                "slack.reply",
            ]
        }
    ]
    assert len({span["trace_id"] for span in recorded.spans()}) == 1


def test_kinds_follow_the_conventions(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS):
        for name in (SpanName.CHAT, SpanName.SLACK_REPLY, SpanName.THREAD_GATE):
            recorded.emit.begin(name).end()

    kinds = {span["name"]: span["kind"] for span in recorded.spans()}
    assert kinds == {"process slack": "CONSUMER", "chat": "CLIENT", "slack.reply": "CLIENT", "thread.gate": "INTERNAL"}


def test_a_root_leaves_the_current_trace_and_links_to_it(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS) as outer:
        again = recorded.emit.begin(SpanName.SESSION, root=True, links=[outer.ref])
        again.end()

    assert again.ref.trace_id != outer.ref.trace_id
    assert recorded.span("session")["parent_id"] == ""
    assert recorded.span("session")["links"] == [outer.ref.span_id]


def test_a_ref_is_lower_case_hex(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS) as span:
        ref = recorded.emit.current()

    assert ref == span.ref
    assert (len(span.ref.trace_id), len(span.ref.span_id)) == (32, 16)
    assert span.ref.trace_id == span.ref.trace_id.lower()
    assert recorded.emit.current() is None


def test_an_exception_fails_the_span_with_its_class_and_none_of_its_text(recorded: Recorded) -> None:
    with pytest.raises(ValueError), recorded.emit.span(SpanName.INVOKE_AGENT):
        raise ValueError("Ann wrote: my password is hunter2")

    span = recorded.span("invoke_agent")
    assert span["status"] == "ERROR"
    assert [kept.status.description for kept in recorded.kept.ended] == [span["attributes"]["error.type"]], "viewers show that"
    assert span["attributes"] == {"error.type": "ValueError"}
    assert span["events"] == []
    assert "hunter2" not in repr(recorded.kept.ended[0].to_json())


async def test_a_cancellation_is_recorded_and_goes_on(recorded: Recorded) -> None:
    async def turn() -> None:
        with recorded.emit.span(SpanName.INVOKE_AGENT):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(turn())
        await asyncio.sleep(0)
        task.cancel()

    assert task.cancelled()
    assert recorded.span("invoke_agent")["status"] == "UNSET"
    assert recorded.span("invoke_agent")["attributes"] == {"error.type": "cancelled"}


def test_a_span_ends_once_and_takes_nothing_afterwards(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    span = recorded.emit.begin(SpanName.PROCESS)
    span.end()

    span.end()
    span.set({Attr.REPLY_OUTCOME: "answered"})
    span.fail("late")

    assert recorded.span("process slack")["attributes"] == {}
    assert recorded.span("process slack")["status"] == "UNSET"
    assert capsys.readouterr().err == "", "nor does the SDK complain"


def test_a_late_child_keeps_the_trace(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.INVOKE_AGENT) as turn:
        tool = recorded.emit.begin(SpanName.EXECUTE_TOOL, label="Bash")
    tool.set({Attr.TOOL_LATE: True})
    tool.end()

    assert tool.ref.trace_id == turn.ref.trace_id
    assert recorded.tree() == [{"invoke_agent": ["execute_tool Bash"]}]
    assert recorded.span("execute_tool Bash")["attributes"] == {"insomnia.tool.late": True}


def test_a_mangled_link_costs_the_span_and_not_the_reply(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    with recorded.emit.span(SpanName.PROCESS, links=[TraceRef("not hex", "")]) as span:
        span.set({Attr.ROUTE: "main"})

    assert recorded.spans() == []
    assert "span failed: ValueError" in capsys.readouterr().err


class Broken(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("end")


def test_a_broken_local_sink_is_said_once_and_reaches_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    with recording(span_processors=[Broken()]) as recorded:
        for _ in range(3):
            with recorded.emit.span(SpanName.PROCESS):
                pass
        failures = recorded.value("insomnia.telemetry.failures")

    assert failures == 6
    assert capsys.readouterr().err.count("span processor Broken failed") == 1
