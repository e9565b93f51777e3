"""The reading tools in a resident session: who asks is the message that is answered, in its own channel."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot.memory_parts import reading_tools_for, scope
from bot.memory_tools import SELF_TOLD, asking, resident_tools
from bot.messages import Channel, ChannelKind, Message
from bot.ports import ToolResult
from telemetry.events import Thread
from tests.bot.ground import RecordingEmit

K = ChannelKind


def message(channel: str, kind: ChannelKind, user: str = "U1") -> Message:
    return Message(
        row=1,
        thread=Thread("T0", channel, "1.0"),
        ts="1.0",
        user=user,
        body={},
        channel=Channel(id=channel, name="", kind=kind),
        route="main",
        key="main",
        accepted_at=0.0,
    )


class Recording:
    def __init__(self) -> None:
        self.askers: list[Any] = []

    async def call(self, name: str, arguments: Any, asker: Any, *, call_id: str = "") -> ToolResult:
        await asyncio.sleep(0)
        self.askers.append((name, str(asker.scope), asker.caller, call_id))
        return ToolResult("found")


async def test_each_of_two_turns_at_once_asks_for_its_own_channel() -> None:
    tools = Recording()
    query = next(tool for tool in resident_tools(tools) if tool.name == "memory_query")  # type: ignore[arg-type]

    async def turn(m: Message) -> None:
        with asking(m):
            await query.call({"query": "x"}, f"use in {m.channel.id}")

    async with asyncio.TaskGroup() as group:
        for m in (message("C1", K.PUBLIC), message("G1", K.PRIVATE), message("D1", K.DIRECT, "U7")):
            group.create_task(turn(m))

    assert tools.askers == [
        ("memory_query", "channel:C1", "main", "use in C1"),
        ("memory_query", "channel:G1", "main", "use in G1"),
        ("memory_query", "user:U7", "main", "use in D1"),
    ]


async def test_outside_of_a_turn_nothing_is_told() -> None:
    tools = Recording()

    answers = [await tool.call({"query": ""}, "use") for tool in resident_tools(tools)]  # type: ignore[arg-type]

    assert all(answer.failed for answer in answers) and tools.askers == []


async def test_the_real_tools_answer_and_tell_their_own_span(tmp_path: Path) -> None:
    emit = RecordingEmit()
    query = next(tool for tool in resident_tools(reading_tools_for(tmp_path, emit=emit)) if tool.name == "memory_query")

    with asking(message("C1", K.PUBLIC)):
        answer = await query.call({"query": "金曜のデプロイは？"}, "toolu_1")

    assert not answer.failed and isinstance(json.loads(answer.text), dict)
    assert [span.label for span in emit.spans] == ["memory_query"] and "mcp__insomnia__memory_query" in SELF_TOLD


@pytest.mark.parametrize(
    ("channel", "kind", "told"),
    [
        ("C1", K.PUBLIC, "workspace"),
        ("C2", K.PRIVATE, "channel:C2"),
        ("D3", K.DIRECT, "user:U7"),
        ("C4", None, "channel:C4"),
        ("D5", None, "user:U7"),
    ],
)
def test_what_was_said_may_be_told_as_far_as_its_channel_is_open(channel: str, kind: ChannelKind | None, told: str) -> None:
    known = Channel(id=channel, name="x", kind=kind) if kind else None

    assert str(scope(lambda _: known, channel, "U7")) == told
