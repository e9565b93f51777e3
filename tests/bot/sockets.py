"""Bots that only listen: the real Bolt and slack_sdk on the sockets of an embedded workspace, and what they were given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp

from bot.clock import SystemClock
from bot.local.slack import EmbeddedSlack
from bot.slack import SlackWeb
from bot.slack_socket import SocketMode
from telemetry.emit import Emit
from telemetry.events import Fact, SlackConnection, SlackReconnected


@dataclass
class Bot:
    """What the socket gave. `before` runs inside of `take`, before the event counts as stored."""

    slack: EmbeddedSlack
    socket: SocketMode
    stored: list[Mapping[str, Any]] = field(default_factory=list)
    gaps: int = 0
    facts: list[Fact] = field(default_factory=list)
    before: Callable[[Mapping[str, Any]], None] = lambda body: None

    def take(self, body: Mapping[str, Any]) -> None:
        self.before(body)
        self.stored.append(body)

    def doubt(self, *, until: float) -> None:
        self.gaps += 1

    @property
    def events(self) -> list[Mapping[str, Any]]:
        return [body["event"] for body in self.stored]

    @property
    def texts(self) -> list[str]:
        return [str(event.get("text")) for event in self.events]

    @property
    def connected(self) -> list[bool]:
        """Each time that it was told to be up, or not."""
        return [fact.up for fact in self.facts if isinstance(fact, SlackConnection)]

    @property
    def reconnects(self) -> list[SlackReconnected]:
        return [fact for fact in self.facts if isinstance(fact, SlackReconnected)]

    @property
    def deliveries(self) -> list[tuple[int, bool]]:
        return [(d.attempt, d.acked) for d in self.slack.sockets.deliveries]


Connect = Callable[[], Awaitable[Bot]]


@asynccontextmanager
async def connecting(slack: EmbeddedSlack) -> AsyncIterator[Connect]:
    """Each call is another bot on this workspace; all are closed in the end."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def connected() -> Bot:
            facts: list[Fact] = []
            emit, clock, before = cast(Emit, facts.append), SystemClock(), slack.sockets.connections
            web = SlackWeb(slack.BOT_TOKEN, api_url=slack.url, session=session, clock=clock, emit=emit)
            made: list[Bot] = []
            socket = SocketMode(
                web.client,
                slack.APP_TOKEN,
                take=lambda body: made[0].take(body),
                doubt=lambda *, until: made[0].doubt(until=until),
                clock=clock,
                emit=emit,
            )
            made.append(Bot(slack, socket, facts=facts))
            stack.push_async_callback(socket.close)
            await socket.connect()
            await until(lambda: slack.sockets.connections > before and socket.connections > 0)
            return made[0]

        yield connected


async def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
