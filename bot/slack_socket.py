"""Events in over Socket Mode: Bolt, with the inbox row written in a middleware, before the acknowledgement.

What must stay true: every subscribed event has a listener, or Slack delivers it again and again; a listener does nothing,
for it runs after the acknowledgement; an exception in the middleware leaves the event unacknowledged, so it comes again.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.ports import Clock
from telemetry.emit import Emit
from telemetry.events import SlackReconnected

PING_SECONDS = 5  # a dead socket is noticed after four of them
REFRESH_SECONDS = 60.0  # Slack announces a refresh and delivers again what nobody acknowledged meanwhile


class SocketMode:
    """`take` gets each event callback and returns once it is on disk; `gap` is told when events may have been missed."""

    def __init__(
        self,
        client: AsyncWebClient,
        app_token: str,
        *,
        take: Callable[[Mapping[str, Any]], None],
        gap: Callable[[], None],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._take, self._gap, self._clock, self._emit = take, gap, clock, emit
        self._announced: float | None = None
        self._last_frame = clock.monotonic()
        self._greeted = False
        self._handler = AsyncSocketModeHandler(self._app(client), app_token, ping_interval=PING_SECONDS)
        self._handler.client.on_message_listeners.append(self._on_frame)

    def _app(self, client: AsyncWebClient) -> AsyncApp:
        logger = logging.getLogger("insomnia.slack")
        logger.setLevel(logging.WARNING)  # at DEBUG the SDK prints whole messages
        app = AsyncApp(client=client, logger=logger, request_verification_enabled=False)
        app.middleware(self._store_first)
        for event in ("message", "app_mention", re.compile(".*")):  # the commonest first: each listener before it costs time
            app.event(event)(_acknowledged)
        return app

    async def _store_first(self, body: dict[str, Any], next: Callable[[], Awaitable[None]]) -> None:
        self._take(body)
        await next()

    async def _on_frame(self, frame: aiohttp.WSMessage) -> None:
        now, kind = self._clock.monotonic(), _frame_type(frame)
        if kind == "disconnect":
            self._announced = now
        elif kind == "hello":
            self._hello(now)
        self._last_frame = now

    def _hello(self, now: float) -> None:
        """A second greeting means a new socket. Nothing is missed over one that Slack announced and that came quickly."""
        if self._greeted:
            planned = self._announced is not None and now - self._announced < REFRESH_SECONDS
            self._emit(SlackReconnected(reason="disconnect" if planned else "closed", down_seconds=now - self._last_frame))
            if not planned:
                self._gap()
        self._greeted, self._announced = True, None

    async def connect(self) -> None:
        await self._handler.connect_async()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """No event is taken from now on."""
        await self._handler.close_async()  # type: ignore[no-untyped-call]


async def _acknowledged() -> None:
    """The middleware did the work; without a listener Bolt answers 404, and Slack delivers again."""


def _frame_type(frame: aiohttp.WSMessage) -> str:
    if frame.type is not aiohttp.WSMsgType.TEXT or '"envelope_id"' in frame.data:
        return ""  # an event: Bolt parses it, once is enough
    try:
        return str(json.loads(frame.data).get("type") or "")
    except ValueError:
        return ""
