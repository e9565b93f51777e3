"""How a command asks the running bot for a memory run: one address on loopback, named in bot.json with its token.

What must stay true: nothing here answers without the token, nor to a web page; whoever hangs up cancels what he asked for.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from aiohttp import hdrs, web

from bot.memory_workers import MemoryWorkers
from memory.consolidation.outcome import Result
from memory.extract import RunResult

SHUTDOWN_SECONDS = 1.0


class MemoryControl:
    """An async context manager; `url` ends in `/`."""

    def __init__(self, workers: MemoryWorkers, *, token: str) -> None:
        self._workers, self._token, self.url = workers, token, ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/memory/extract", self._extract)
        app.router.add_post("/memory/consolidation", self._consolidate)
        runner = self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/memory/"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._workers.leave()  # so that who is sent away here is not taken for one who hung up
        if self._runner is not None:
            await self._runner.cleanup()

    async def _extract(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response([as_json(result) for result in await self._workers.extract_now()])

    async def _consolidate(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response([as_json(result) for result in await self._workers.consolidate_now()])

    def _check(self, request: web.Request) -> None:
        given = request.headers.get(hdrs.AUTHORIZATION, "").encode()
        if hdrs.ORIGIN in request.headers or not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            refused = json.dumps({"error": "the bot's token is missing or wrong"})
            raise web.HTTPUnauthorized(text=refused, content_type="application/json")


def as_json(result: RunResult | Result) -> dict[str, Any]:
    return asdict(result)
