"""The embedded model: an Anthropic Messages endpoint on loopback, for first runs, the demo and tests.

It is no language model and says so (`model_answers`). Must stay true: it binds loopback only, it keeps nothing between requests but a
bounded record, and it does only what its script tells it or its rules say.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Self, assert_never

from aiohttp import hdrs, web

from bot.local.model_answers import by_rules
from bot.local.model_control import ModelControl
from bot.local.model_record import ModelRequest, RequestRecord
from bot.local.model_script import Script
from bot.local.model_steps import BreakStream, Drop, Hang, Refuse, Respond, Step
from bot.local.model_wire import Json, Reply, Usage, error, models, new_id, sse, tokens_of_body, tokens_of_text

MAX_BODY_BYTES = 64 * 2**20  # ten times the longest context of a million tokens
PING_SECONDS = 1.0
DROP_SECONDS = 0.05  # an aborted connection loses what is still in its buffers; the beginning of the stream is to arrive
SHUTDOWN_SECONDS = 1.0  # for an answer on its way; hanging ones end at once
STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EmbeddedModel:
    """An async context manager; `url` is "" outside of it."""

    def __init__(self, *, control_token: str, port: int = 0) -> None:
        self.url = ""
        self.script = Script()
        self._record = RequestRecord()
        self._port = port
        self._control = ModelControl(token=control_token, script=self.script, requests=self._record.requests)
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def control_url(self) -> str:
        return f"{self.url}/control/" if self.url else ""

    @property
    def requests(self) -> list[ModelRequest]:
        """The newest ones, oldest first."""
        return self._record.requests

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/", self._alive)
        self._control.add_routes(app.router)
        self._closing.clear()
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.url = ""
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every error in the API's form; the control side behind its token."""
        if request.path.startswith("/control"):
            refused = self._control.refuses(request)
            if refused is not None:
                return refused
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge as large:
            return web.json_response(error("request_too_large", "the request is too large"), status=large.status)
        except web.HTTPClientError as wrong:
            return web.json_response(error("not_found_error", f"no such endpoint: {request.method} {request.path}"), status=wrong.status)

    async def _alive(self, _: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response(models())

    async def _count_tokens(self, request: web.Request) -> web.Response:
        body = _object(await request.read())
        if body is None:
            return _not_json()
        return web.json_response({"input_tokens": tokens_of_body(body)[0]})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = _object(raw)
        if body is None or not isinstance(body.get("messages"), list):
            return _not_json()
        asked = self._record.add(body, key=_key(request), size=len(raw))
        scripted = self.script.take(asked)
        step = scripted or Step(effect=Respond())
        if isinstance(step.effect, Refuse):
            failure = error(step.effect.type, step.effect.message)
            return web.json_response(failure, status=step.effect.status, headers=step.effect.headers)
        reply = _reply(asked, step, looks_up=scripted is None)
        try:
            return await (self._stream(request, reply, step.effect) if asked.stream else self._whole(request, reply, step.effect))
        except ConnectionResetError:  # the client left, or is made to: aiohttp wants a response all the same, and nobody reads it
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _whole(self, request: web.Request, reply: Reply, effect: Respond | Hang | Drop | BreakStream) -> web.StreamResponse:
        match effect:
            case Respond(seconds=seconds):
                await self._pause(seconds)
            case Hang():
                while not _gone(request):
                    await self._pause(PING_SECONDS)
            case Drop():
                raise ConnectionResetError("dropped by the script")
            case BreakStream():
                pass
            case _:
                assert_never(effect)
        return web.json_response(reply.as_json())

    async def _stream(self, request: web.Request, reply: Reply, effect: Respond | Hang | Drop | BreakStream) -> web.StreamResponse:
        more = effect.headers if isinstance(effect, Respond) else {}
        response = web.StreamResponse(headers={**STREAM_HEADERS, "request-id": new_id("req"), **more})
        await response.prepare(request)
        for event in reply.opening():
            await response.write(sse(event))
        match effect:
            case Respond(seconds=seconds):
                await self._write_all(response, list(reply.events()), seconds=seconds)
            case Hang():
                while not _gone(request):
                    await self._pause(PING_SECONDS)
                    await response.write(sse({"type": "ping"}))
            case Drop():
                for event in _first_half(reply):
                    await response.write(sse(event))
                await self._pause(DROP_SECONDS)
                raise ConnectionResetError("dropped by the script")
            case BreakStream(type=kind):
                await response.write(sse(error(kind, "scripted error in the stream")))
            case _:
                assert_never(effect)
        await response.write_eof()
        return response

    async def _write_all(self, response: web.StreamResponse, events: list[Json], *, seconds: float) -> None:
        for event in events:
            if seconds:
                await self._pause(seconds / len(events))
            await response.write(sse(event))

    async def _pause(self, seconds: float) -> None:
        """Sleep; a model that is closing ends every answer that waits."""
        if seconds <= 0:
            return
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return
        raise ConnectionResetError("the embedded model is closing")


def _reply(asked: ModelRequest, step: Step, *, looks_up: bool) -> Reply:
    """`looks_up`: else this very request is the one that gets the answer, as a script means it that says how the answer is."""
    effect = step.effect if isinstance(step.effect, Respond) else Respond()
    text, tool = by_rules(asked, looks_up=looks_up) if effect.text is None else (effect.text, effect.tool)
    prompt, added = tokens_of_body(asked.body)
    written = tokens_of_text(text) + (tokens_of_text(json.dumps(tool.input, ensure_ascii=False)) if tool else 0)
    return Reply(
        id=new_id("msg"),
        model=str(asked.body.get("model", "")),
        text=text,
        tool=tool,
        stop_reason=effect.stop_reason or ("tool_use" if tool else "end_turn"),
        usage=Usage(prompt=prompt if step.usage is None else step.usage, added=added, output=max(1, written)),
    )


def _object(raw: bytes) -> Json | None:
    try:
        body: Any = json.loads(raw)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _not_json() -> web.Response:
    return web.json_response(error("invalid_request_error", "the body must be a JSON object with a list of messages"), status=400)


def _key(request: web.Request) -> str:
    bearer = request.headers.get(hdrs.AUTHORIZATION, "").removeprefix("Bearer ")
    return request.headers.get("x-api-key") or bearer


def _first_half(reply: Reply) -> Iterator[Json]:
    events = list(reply.events())
    return iter(events[: len(events) // 2])


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
