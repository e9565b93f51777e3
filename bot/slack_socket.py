"""Events in over Socket Mode: Bolt, with the inbox row written in its first middleware, before the acknowledgement.

What must stay true: an event is acknowledged once `take` has returned, and not before; an exception in it leaves the event
unacknowledged, so it comes again; events are taken in the order in which they came. Nothing of Bolt runs after that
middleware: its authorization asks Slack first, so events would pass each other, and one that came while Slack refused to
answer would be acknowledged and lost; an event without a listener it would not acknowledge at all. A socket that is open
and brings nothing is replaced before Slack gives up what it may have sent on it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from bot.ports import Clock
from bot.slack import LOGGER
from bot.slack_deliveries import Deliveries, Doubt
from telemetry.emit import Emit
from telemetry.events import GapReason, SlackConnection, SlackReconnected

PING_SECONDS = 5  # a socket that does not answer for half as long is given up, and replaced within another five seconds
ADDRESS_SECONDS = 20.0  # an address opens one socket, once, and soon expires
REFRESH_SECONDS = 60.0  # Slack announces a refresh and delivers again what nobody acknowledged meanwhile
# Without any event for so long the socket is replaced. What a deaf one swallowed comes once more after five minutes.
SILENT_SECONDS = 240.0


class SocketMode:
    """`take` gets each event callback and returns once it is on disk; `doubt` is told when events may have been missed.

    `connections` is how many sockets this app has, as Slack said in its last greeting: each event goes to one of them.
    """

    def __init__(
        self,
        client: AsyncWebClient,
        app_token: str,
        *,
        take: Callable[[Mapping[str, Any]], None],
        doubt: Doubt,
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._clock, self._emit = clock, emit
        self._deliveries = Deliveries(take, doubt, clock=clock, emit=emit)
        self._announced: float | None = None
        self._last_frame = self._last_news = clock.monotonic()
        self._renewing = False
        self._watching: asyncio.Task[None] | None = None
        self._closing = False
        self.connections = 0
        self.address = ""
        app = AsyncApp(client=client, logger=LOGGER, request_verification_enabled=False, before_authorize=self._store_first)
        self._client = _Client(app_token, logger=LOGGER, web_client=client, ping_interval=PING_SECONDS)
        self._client.lost = self._lost
        self._client.proxy = client.proxy  # the library reads the environment once more, and knows no loopback
        self._client.on_message_listeners.append(self._on_frame)
        self._handler = _Handler(app, self._client)

    async def _store_first(self, body: dict[str, Any], req: AsyncBoltRequest) -> BoltResponse:
        if self._closing:
            return BoltResponse(status=503)  # not acknowledged: Slack delivers it to whoever comes next
        self._last_news = self._clock.monotonic()
        self._deliveries.receive(body, attempt=req.headers.get("x-slack-retry-num", ["0"])[0])
        return BoltResponse(status=200)

    # -- connections ---------------------------------------------------------------------------------------------------
    async def _on_frame(self, frame: aiohttp.WSMessage) -> None:
        """Of frames with text; the library keeps pings and pongs to itself."""
        told, now = _told(frame), self._clock.monotonic()
        if told.get("type") == "disconnect":
            self._announced = now
        elif told.get("type") == "hello":
            self._hello(told.get("num_connections"), now)
        self._last_frame = now

    def _hello(self, connections: object, now: float) -> None:
        """A second greeting means a new socket. Nothing is missed over one that Slack announced and that came quickly."""
        planned = self._announced is not None and now - self._announced < REFRESH_SECONDS
        known, self.connections = self.connections, connections if isinstance(connections, int) and connections > 0 else 1
        self._emit(SlackConnection(up=True, connections=self.connections))
        if known:
            reason = ("silent" if self._renewing else "disconnect") if planned else self._client.lost_by
            self._emit(SlackReconnected(reason=reason, down_seconds=self._silent_seconds(now)))
            if not planned:
                self._deliveries.doubt(GapReason.SOCKET_LOST)
        self._announced, self._renewing = None, False
        if self.connections > 1 and not planned:  # while it refreshes, Slack counts the old one too
            print(
                f"insomnia: Slack counts {self.connections} connections of this app and divides the events among them. "
                "Stop the other bot that has these tokens; if this one was only restarted, it passes.",
                file=sys.stderr,
            )

    def _lost(self) -> None:
        """The library looks for a new socket. One that Slack announced is no loss: the old one serves until then."""
        if self._announced is None and not self._closing:
            self._emit(SlackConnection(up=False))

    def _silent_seconds(self, now: float) -> float:
        """Since the last sign of life of the socket before: a frame, or the answer to a ping."""
        answered = self._client.last_answered
        since_answer = float("inf") if answered is None else self._clock.now() - answered
        return max(0.0, min(now - self._last_frame, since_answer))

    async def prepare(self) -> None:
        """Nothing: that the tokens are good was tried before."""

    async def connect(self) -> None:
        await self._handler.connect_async()  # type: ignore[no-untyped-call]
        self._watching = asyncio.get_running_loop().create_task(self._watch())  # owned: `close` ends it

    async def _watch(self) -> None:
        """Nothing tells a socket on which Slack's events are lost from a quiet workspace, so both get a new one."""
        while True:
            await self._clock.sleep(max(0.05, SILENT_SECONDS - (self._clock.monotonic() - self._last_news)))
            if self._clock.monotonic() - self._last_news >= SILENT_SECONDS:
                await self._renew()

    async def _renew(self) -> None:
        """The old one serves on where Slack gives no new address; the next try comes after another silence."""
        self._last_news = self._clock.monotonic()
        if not await self._client.is_connected():
            return  # it is lost, not silent: the library looks for another one
        self._announced, self._renewing = self._clock.monotonic(), True
        with suppress(SlackClientError, aiohttp.ClientError, OSError, TimeoutError):  # told by the library's log
            await self._client.connect_to_new_endpoint(force=True)
            return
        self._announced, self._renewing = None, False

    async def close(self) -> None:
        """No event is taken from now on."""
        self._closing = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self.connections:
            self._emit(SlackConnection(up=False))
        await self._handler.close_async()  # type: ignore[no-untyped-call]


class _Client(SocketModeClient):
    """Slack's own, but for one thing: where an address does not open, it would try that same address for ever.

    `lost_by` = `closed` | `stale`; `last_answered`: seconds since the epoch. Both are of the socket before this one.
    `lost` is called each time that it goes to look for another socket.
    """

    lost_by = "closed"
    last_answered: float | None = None
    lost: Callable[[], None]

    async def connect(self) -> None:
        if self.current_session is not None:
            self.lost()
        silent = self.current_session is not None and isinstance(self.current_session.exception(), aiohttp.ServerTimeoutError)
        self.lost_by = "stale" if self.stale or silent else "closed"
        self.last_answered = self.last_ping_pong_time
        while not self.closed:
            try:
                async with asyncio.timeout(ADDRESS_SECONDS):
                    await super().connect()  # type: ignore[no-untyped-call]
                    return
            except TimeoutError:
                self.wss_uri = None  # so it asks for a new one


class _Handler(AsyncSocketModeHandler):
    """Without the client that it would make for itself."""

    def __init__(self, app: AsyncApp, client: SocketModeClient) -> None:
        self.app, self.app_token, self.client = app, client.app_token, client
        client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]


def _told(frame: aiohttp.WSMessage) -> Mapping[str, Any]:
    """What Slack says of the connection; {} for an event, which is parsed elsewhere, once."""
    if frame.type is not aiohttp.WSMsgType.TEXT or '"envelope_id"' in frame.data:
        return {}
    try:
        told = json.loads(frame.data)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
