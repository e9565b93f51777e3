"""One real CLI on the embedded model for a test: what is started here is ended here, whatever the test does."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.claude_cli import CliProcess, CliStarter
from bot.claude_launch import Cli, find_cli
from bot.clock import SystemClock
from bot.local.model import EmbeddedModel
from bot.ports import Answer, Launch, StreamEvent

SECONDS = 30.0
KEY = "made-up-key"
SYSTEM_PROMPT = "You are Insomnia, the bot of these tests."


@dataclass
class Session:
    process: CliProcess
    id: str
    events: list[StreamEvent] = field(default_factory=list)
    strays: list[StreamEvent] = field(default_factory=list)
    exits: list[int | None] = field(default_factory=list)

    async def ask(self, prompt: str, *, seconds: float = SECONDS) -> Answer:
        return await self.process.send(prompt, on_event=self.events.append, seconds=seconds)

    async def compact(self) -> Answer:
        return await self.process.compact(on_event=self.events.append, seconds=SECONDS)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class Bot:
    """Starts sessions as the bot does. `folder` is its `.insomnia`."""

    def __init__(self, folder: Path, model: EmbeddedModel, stack: AsyncExitStack, *, cli: Cli | None = None) -> None:
        self.folder, self.model, self._stack = folder, model, stack
        self.own_variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "SLACK_BOT_TOKEN": "xoxb-secret", "GITHUB_TOKEN": "gh-secret"}
        self._starter = CliStarter(
            cli or find_cli(""), folder=folder, base_url=model.url, clock=SystemClock(), inherited=self.own_variables
        )

    async def start(self, *, resume: str = "", begin: str = "", **launch: Any) -> Session:
        id, strays, exits = resume or begin or str(uuid.uuid4()), list[StreamEvent](), list[int | None]()
        arguments: dict[str, Any] = dict(key="main", model="claude-opus-5-5", autocompact=100_000, system_prompt=SYSTEM_PROMPT)
        arguments |= {"credential": ("ANTHROPIC_API_KEY", KEY), "session_id": id, "resume": bool(resume), **launch}
        process = await self._starter.start(Launch(**arguments), on_exit=exits.append, on_stray=strays.append)
        self._stack.push_async_callback(process.close)
        return Session(process, id, strays=strays, exits=exits)

    @property
    def sent(self) -> str:
        """The newest request, whole, as it came to the model."""
        return json.dumps(self.model.requests[-1].body, ensure_ascii=False)


@asynccontextmanager
async def bot_on(folder: Path, **options: Any) -> AsyncIterator[Bot]:
    async with EmbeddedModel(control_token="made-up-token") as model, AsyncExitStack() as stack:
        yield Bot(folder, model, stack, **options)


async def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    """A zombie does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
