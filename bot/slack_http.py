"""Events in over HTTP: a small server of our own that believes nothing but Slack's signature.

What must stay true: an event is answered 200 once it is on disk, and not before, so Slack delivers again what could not be
stored; between the check of a signature and the row nothing waits. A request is believed for five minutes, and once: its
signature is spent when its event is stored. No word of a request is printed.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from aiohttp import web
from slack_sdk.signature import SignatureVerifier

from bot.ports import Clock
from bot.slack_deliveries import Deliveries, Doubt
from telemetry.emit import Emit
from telemetry.events import SlackConnection

EVENTS_PATH, HEALTH_PATH = "/slack/events", "/healthz"
TIME_HEADER, SIGNATURE_HEADER = "X-Slack-Request-Timestamp", "X-Slack-Signature"
WINDOW_SECONDS = 300  # how far a request's time may lie from ours, before or behind: the library's own bound
MAX_BODY_BYTES = 4 * 2**20  # an edit carries both texts of 40,000 characters, each of them twice, escaped
READ_SECONDS = 10.0  # Slack gives up after three
CLOSE_SECONDS = 5.0  # what is being stored when the bot ends is answered


class _Signed(NamedTuple):
    """What the signature covers, and the signature: each header once, whatever else a request carries."""

    raw: bytes
    time: str
    signature: str


class CannotListen(OSError):
    """Nobody can be heard at this address; the text says why."""


class EventsApi:
    """`take` gets each event callback and returns once it is on disk; `doubt` is told when events may have been missed.

    `address` = HOST:PORT, as `prepare` found it. Before `connect` and after `close` everything is answered 503: it comes again.
    """

    def __init__(
        self,
        signing_secret: str,
        *,
        host: str,
        port: int,
        take: Callable[[Mapping[str, Any]], None],
        doubt: Doubt,
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._host, self._port, self._clock, self._emit = host, port, clock, emit
        self._verifier = SignatureVerifier(signing_secret, clock=clock)  # type: ignore[arg-type]  # it asks for `now` alone
        self._deliveries = Deliveries(take, doubt, clock=clock, emit=emit)
        self._spent: dict[str, float] = {}  # signature -> until when it would be believed once more
        self._told = False
        self._taking = False
        self._runner: web.AppRunner | None = None
        self.address = ""

    async def prepare(self) -> None:
        """Raises CannotListen."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post(EVENTS_PATH, self._events)
        app.router.add_get(HEALTH_PATH, self._health)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=CLOSE_SECONDS)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as e:
            await self._runner.cleanup()
            self._runner = None
            taken = "another program uses that port" if e.errno == errno.EADDRINUSE else e.strerror or type(e).__name__
            raise CannotListen(f"slack.listen is {self._host}:{self._port}, but nothing can listen there: {taken}") from e
        host, port = self._runner.addresses[0][:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def connect(self) -> None:
        self._taking = True
        self._emit(SlackConnection(up=True))

    async def close(self) -> None:
        if self._taking:
            self._emit(SlackConnection(up=False))
        self._taking = False
        if self._runner is not None:
            await self._runner.cleanup()

    # -- requests ------------------------------------------------------------------------------------------------------
    async def _health(self, request: web.Request) -> web.Response:
        """For whoever watches the bot from outside; it says no more than whether events are taken."""
        return web.json_response({"status": "ok" if self._taking else "not taking events"}, status=200 if self._taking else 503)

    async def _events(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(READ_SECONDS):
                raw = await request.read()
        except TimeoutError:
            return web.Response(status=408)
        if not self._taking:
            return web.Response(status=503)
        signed = _Signed(raw, request.headers.get(TIME_HEADER, ""), request.headers.get(SIGNATURE_HEADER, ""))
        if (refusal := self._refusal(signed)) is not None:
            return refusal
        try:
            return self._answer(signed, attempt=request.headers.get("X-Slack-Retry-Num", "0"))
        except Exception as e:  # noqa: BLE001 - the boundary: what could not be stored comes again, whatever hindered it
            print(f"insomnia: an event could not be stored ({type(e).__name__}); Slack will deliver it again", file=sys.stderr)
            return web.Response(status=500)

    def _answer(self, signed: _Signed, *, attempt: str) -> web.Response:
        body = _object(signed.raw)
        if body is None:
            return web.Response(status=400)
        if body.get("type") == "url_verification":
            return web.json_response({"challenge": str(body.get("challenge") or "")})
        self._deliveries.receive(body, attempt=attempt)
        self._spent[signed.signature] = int(signed.time) + WINDOW_SECONDS
        return web.Response()

    # -- belief --------------------------------------------------------------------------------------------------------
    def _refusal(self, signed: _Signed) -> web.Response | None:
        """None: it is Slack's, of now, and was not stored before."""
        if not self._is_slacks(signed):
            self._tell_refused()
            return web.Response(status=401)
        now = self._clock.now()
        self._spent = {signature: until for signature, until in self._spent.items() if until >= now}
        if signed.signature in self._spent:
            return web.Response(status=403, headers={"X-Slack-No-Retry": "1"})  # what it told is on disk
        return None

    def _is_slacks(self, signed: _Signed) -> bool:
        with suppress(ValueError, TypeError, OverflowError):  # the library, over times that are none and signs that are not ASCII
            return self._verifier.is_valid(signed.raw, signed.time, signed.signature)
        return False

    def _tell_refused(self) -> None:
        if self._told:
            return
        self._told = True
        print(
            f"insomnia: a request to {EVENTS_PATH} was refused: its signature is wrong, or too old. If it came from Slack, check "
            "SLACK_SIGNING_SECRET and this machine's clock. More of them are refused without a word.",
            file=sys.stderr,
        )


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
