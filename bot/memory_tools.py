"""The memory's reading tools, offered to resident sessions: who asks is the message that is being answered.

What must stay true: a tool sees what the channel of the asking message may see, whatever else the same session serves; a
call outside of any message sees nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from bot.claude_mcp import PREFIX
from bot.messages import ChannelKind, Message
from bot.ports import Tool, ToolResult
from memory.reading_schemas import READINGS
from memory.reading_tools import ReadingTools
from memory.record_types import Scope
from memory.tools import Asker

SELF_TOLD = frozenset(f"{PREFIX}{name}" for name in READINGS)  # they open their span themselves, inside the turn's
NOBODY = ToolResult("there is no message that this is asked for; go on without it", failed=True)
_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)


@contextmanager
def asking(message: Message) -> Iterator[None]:
    """Around the turn that answers it: the CLI's tool calls run in copies of the context of that turn."""
    token = _asker.set(Asker(caller=message.route, scope=_read_at(message)))
    try:
        yield
    finally:
        _asker.reset(token)


def resident_tools(tools: ReadingTools) -> Sequence[Tool]:
    return [
        Tool(name=name, description=reading.spec.description, schema=reading.spec.schema, call=partial(_call, tools, name))
        for name, reading in READINGS.items()
    ]


async def _call(tools: ReadingTools, name: str, arguments: Mapping[str, Any], use_id: str) -> ToolResult:
    asker = _asker.get()
    if asker is None:
        return NOBODY
    answer = await tools.call(name, arguments, asker, call_id=use_id)
    return ToolResult(answer.text, failed=answer.failed)


def _read_at(message: Message) -> Scope:
    """Where the answer will be read."""
    return Scope.user(message.user) if message.channel.kind is ChannelKind.DIRECT else Scope.channel(message.channel.id)
