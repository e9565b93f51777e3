"""The control side of the embedded model: its script and its record, over loopback HTTP.

Must stay true: nothing here answers without the control token, nor to a web page (a request with an `Origin` header).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web

from bot.local.model_record import ModelRequest
from bot.local.model_script import BadStep, Script
from bot.local.model_wire import error


class ModelControl:
    def __init__(self, *, token: str, script: Script, requests: list[ModelRequest]) -> None:
        self._token, self._script, self._requests = token, script, requests

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/control/script", self._add_steps)
        router.add_get("/control/requests", self._list_requests)
        router.add_post("/control/clear", self._clear)

    def refuses(self, request: web.Request) -> web.Response | None:
        if hdrs.ORIGIN in request.headers:
            return web.json_response(error("permission_error", "no web page may use this"), status=403)
        given = request.headers.get(hdrs.AUTHORIZATION, "").encode()
        if not self._token or not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return web.json_response(error("authentication_error", "the control token is missing or wrong"), status=401)
        return None

    async def _add_steps(self, request: web.Request) -> web.Response:
        """One step, or a list of them; all or none."""
        try:
            steps = _steps(json.loads(await request.text()))
            checked = Script()
            for step in steps:
                checked.add(step)
        except ValueError as wrong:  # BadStep is one
            return web.json_response(error("invalid_request_error", str(wrong)), status=400)
        for step in steps:
            self._script.add(step)
        return web.json_response({"ok": True, "pending": self._script.pending})

    async def _list_requests(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        if not after.isdecimal():
            return web.json_response(error("invalid_request_error", f"after must be a number, not {after!r}"), status=400)
        return web.json_response([one.as_json() for one in self._requests if one.n > int(after)])

    async def _clear(self, _: web.Request) -> web.Response:
        self._requests.clear()
        self._script.clear()
        return web.json_response({"ok": True})


def _steps(value: object) -> list[Mapping[str, Any]]:
    steps = value if isinstance(value, list) else [value]
    objects = [step for step in steps if isinstance(step, Mapping)]
    if len(objects) < len(steps):
        raise BadStep("a step is an object, and the body is one of them or a list")
    return objects
