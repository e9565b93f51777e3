"""Socket Mode: who is connected, and the delivery of every event to exactly one socket until it is acknowledged.

Where the bot has given a request URL, events are posted there instead.

What must stay true: the first attempts leave in the order of the events; each delivery has its own `envelope_id`, all
deliveries of one event the same `event_id`; a ticket opens one socket, once. Events wait for a socket
(`WAIT_SECONDS` each), then they are dropped and counted.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aiohttp import WSMessage, WSMsgType, web

from bot.local.slack_events import events_limited
from bot.local.slack_faults import SocketScript
from bot.local.slack_http import RequestUrl
from bot.local.slack_outbox import Outbox
from bot.local.slack_records import APP_ID, Json
from bot.local.slack_tasks import Beat, OwnTasks

WAIT_SECONDS = 15.0  # a restart of the bot takes a few seconds; longer than this it is away
FIRST_WAIT_SECONDS = 60.0  # before anybody has connected: the first start of a bot on a slow machine
CONNECTION_SECONDS = 18_060  # what Slack says it gives a connection
KEPT_TICKETS, KEPT_DELIVERIES = 100, 2_000
HOST = "applink-embedded"


class Delivery(NamedTuple):
    event_id: str
    type: str
    subtype: str
    attempt: int
    acked: bool


@dataclass(eq=False, slots=True)
class _Socket:
    ws: web.WebSocketResponse
    request: web.Request
    leaving: bool = False  # was told to reconnect; serves on until it goes
    gone: bool = False
    deaf: bool = False  # open, answers pings, and whatever is sent on it is lost
    unacked: dict[str, asyncio.Future[bool]] = field(default_factory=dict)

    def cut(self) -> None:
        self.gone = True
        if self.request.transport:
            self.request.transport.abort()


class SocketMode:
    def __init__(self, outbox: Outbox, *, ack_seconds: float, retry_delays: Sequence[float]) -> None:
        self.script = SocketScript()
        self.dropped = 0
        self.deliveries: list[Delivery] = []
        self.request_url: RequestUrl | None = None
        self._outbox, self._ack_seconds, self._retry_delays = outbox, ack_seconds, tuple(retry_delays)
        self._sockets: list[_Socket] = []
        self._tickets: dict[str, None] = {}
        self._turn = self._elsewhere = 0
        self._ever_connected = self._stopped = False
        self._order = asyncio.Lock()
        self._tasks, self._beat = OwnTasks(), Beat()

    @property
    def connections(self) -> int:
        return len(self._sockets)

    def start(self) -> None:
        """Takes up what an earlier process did not get rid of."""
        for payload in self._outbox.pending:
            self._tasks.start(self._deliver(payload))

    async def stop(self) -> None:
        """What is not acknowledged stays in the outbox."""
        self._stopped = True
        await self._tasks.end()
        for socket in list(self._sockets):
            await socket.ws.close(code=1001, message=b"the workspace stops")

    def send(self, payload: Json) -> None:
        if self.script.events_limited:
            self.dropped += 1
            return
        self._outbox.put(payload)
        if not self._stopped:
            self._tasks.start(self._deliver(payload))

    def tell_limited(self, at: float) -> None:
        """`app_rate_limited`, which is no event and is not kept."""
        self._tasks.start(self._deliver(events_limited(at)))

    async def deliver_to(self, url: RequestUrl) -> bool:
        verified = await url.verify()
        self.request_url = url if verified else None
        return verified

    async def connected(self, seconds: float) -> bool:
        """Waits for a socket."""
        deadline = _now() + seconds
        while not self._sockets:
            if not await self._beat.next(deadline - _now()):
                return False
        return True

    # -- connections --------------------------------------------------------------------------------------------------
    def ticket(self) -> str:
        ticket = str(uuid.uuid4())
        self._tickets[ticket] = None
        while len(self._tickets) > KEPT_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        return ticket

    async def link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if self.script.down or ticket not in self._tickets:
            return web.Response(status=403, text="this ticket is unknown or used")
        del self._tickets[ticket]
        ws = web.WebSocketResponse(autoping=False, timeout=1.0)  # how long a goodbye waits for the other side's
        await ws.prepare(request)
        socket = _Socket(ws, request)
        self._sockets.append(socket)
        try:
            await ws.send_json(self._hello())
            self._ever_connected = True
            self.wake()
            await self._listen(socket)
        except ConnectionError:
            pass  # it went while we wrote to it: the same as any other goodbye
        finally:
            self._sockets.remove(socket)
            for ack in socket.unacked.values():
                _settle(ack, acked=False)
        return ws

    def cut(self) -> None:
        for socket in self._sockets:
            socket.cut()

    def deafen(self) -> None:
        for socket in self._sockets:
            socket.deaf = True

    def goodbye(self, reason: str) -> None:
        for socket in self._sockets:
            socket.leaving = True
            self._tasks.start(_ask_to_leave(socket, reason))

    def wake(self) -> None:
        self._beat.strike()

    def _hello(self) -> Json:
        told = self.script.num_connections
        debug = {"host": HOST, "build_number": 1, "approximate_connection_time": CONNECTION_SECONDS}
        count = self.connections + self.script.other_connections if told is None else told
        return {"type": "hello", "num_connections": count, "debug_info": debug, "connection_info": {"app_id": APP_ID}}

    async def _listen(self, socket: _Socket) -> None:
        async for frame in socket.ws:
            if frame.type is WSMsgType.PING and self.script.answers_pings:
                await socket.ws.pong(frame.data)
            elif frame.type is WSMsgType.TEXT:
                self._acknowledge(socket, frame)

    def _acknowledge(self, socket: _Socket, frame: WSMessage) -> None:
        try:
            said = json.loads(frame.data)
        except ValueError:
            return
        ack = socket.unacked.get(said.get("envelope_id", "")) if isinstance(said, dict) else None
        if ack:
            _settle(ack, acked=True)

    # -- delivery -----------------------------------------------------------------------------------------------------
    async def _deliver(self, payload: Json) -> None:
        if not await (self._attempts(payload) if self.request_url is None else self._posts(payload, self.request_url)):
            self.dropped += 1
        self._outbox.done(payload)

    async def _posts(self, payload: Json, url: RequestUrl) -> bool:
        why = ""
        for attempt in range(len(self._retry_delays) + 1):
            tried = await url.post(payload, attempt=attempt, why=why)
            self._note(payload, attempt=attempt, acked=not tried.why)
            if not tried.why or tried.final:
                return not tried.why
            why = tried.why
            if attempt < len(self._retry_delays):
                await asyncio.sleep(self._retry_delays[attempt])
        return False

    async def _attempts(self, payload: Json) -> bool:
        deadline, attempt = self._deadline(), 0
        async with self._order:
            if self._goes_elsewhere():
                return True
            sent = await self._send(payload, attempt=attempt, deadline=deadline)
        while sent:
            if await self._acked(payload, *sent, attempt=attempt):
                return True
            if attempt == len(self._retry_delays):
                break
            await asyncio.sleep(self._retry_delays[attempt])
            attempt += 1
            sent = await self._send(payload, attempt=attempt, deadline=self._deadline())
        return False

    async def _send(self, payload: Json, *, attempt: int, deadline: float) -> tuple[_Socket, str] | None:
        """The socket and the envelope; None when no socket came in time."""
        while True:
            while not (socket := self._next_socket()):
                if not await self._beat.next(deadline - _now()):
                    return None
            envelope = _envelope(payload, attempt)
            socket.unacked[envelope["envelope_id"]] = asyncio.get_running_loop().create_future()
            if socket.deaf or await _say(socket, envelope):
                return socket, envelope["envelope_id"]
            socket.cut()

    async def _acked(self, payload: Json, socket: _Socket, envelope_id: str, *, attempt: int) -> bool:
        ack = socket.unacked[envelope_id]
        try:
            async with asyncio.timeout(self._ack_seconds):
                acked = await ack
        except TimeoutError:
            acked = False
        del socket.unacked[envelope_id]
        self._note(payload, attempt=attempt, acked=acked)
        return acked

    def _note(self, payload: Json, *, attempt: int, acked: bool) -> None:
        event = payload.get("event", payload)
        self.deliveries.append(Delivery(payload.get("event_id", ""), event["type"], event.get("subtype", ""), attempt, acked))
        del self.deliveries[:-KEPT_DELIVERIES]

    def _goes_elsewhere(self) -> bool:
        """To another bot with the same token, which acknowledges it: every other one, where there is one other connection."""
        if not (others := self.script.other_connections):
            return False
        self._elsewhere += 1
        return self._elsewhere % (self.connections + others) >= max(1, self.connections)

    def _deadline(self) -> float:
        return _now() + (WAIT_SECONDS if self._ever_connected else FIRST_WAIT_SECONDS)

    def _next_socket(self) -> _Socket | None:
        """In turn, as Slack does with several connections; one that was told to leave only when there is no other."""
        if self.script.down or self.script.withheld:
            return None
        open_ones = [s for s in self._sockets if not s.gone and not s.ws.closed]
        if not (choice := [s for s in open_ones if not s.leaving] or open_ones):
            return None
        self._turn += 1
        return choice[self._turn % len(choice)]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _envelope(payload: Json, attempt: int) -> Json:
    retry = {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
    return {"envelope_id": str(uuid.uuid4()), "payload": payload, "type": "events_api", "accepts_response_payload": False, **retry}


async def _ask_to_leave(socket: _Socket, reason: str) -> None:
    await _say(socket, {"type": "disconnect", "reason": reason, "debug_info": {"host": HOST}})


async def _say(socket: _Socket, body: Json) -> bool:
    try:
        await socket.ws.send_json(body)
    except (ConnectionError, RuntimeError):  # aiohttp raises RuntimeError on a socket that is closing
        return False
    return True


def _settle(ack: asyncio.Future[bool], *, acked: bool) -> None:
    if not ack.done():
        ack.set_result(acked)
