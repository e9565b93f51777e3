"""The Web API: one HTTP request is one method call, as Slack takes it (GET with a query, a form, JSON).

Owns what is the same for all methods: reading the arguments, the token, scripted faults, the shape of errors, the list
of calls. What a method does is in `slack_reading` and `slack_writing`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from bot.local.slack_args import Args, SlackSays
from bot.local.slack_faults import Fault, FaultKind, Faults
from bot.local.slack_reading import Reading
from bot.local.slack_records import APP_ID, Json
from bot.local.slack_socket import SocketMode
from bot.local.slack_workspace import Workspace
from bot.local.slack_writing import Writing

SCOPES = (
    "app_mentions:read,assistant:write,channels:history,channels:read,chat:write,groups:history,groups:read,im:history,im:read,im:write,"
    "mpim:history,reactions:read,reactions:write,users:read"
)
NEEDED_SCOPE = {
    "conversations.replies": "channels:history",
    "conversations.history": "channels:history",
    "conversations.info": "channels:read",
    "conversations.list": "channels:read",
    "users.conversations": "channels:read",
    "conversations.open": "im:write",
    "users.info": "users:read",
    "users.list": "users:read",
    "bots.info": "users:read",
    "reactions.add": "reactions:write",
    "reactions.remove": "reactions:write",
    "assistant.threads.setStatus": "assistant:write",
    "agents.sessions.setStatus": "assistant:write",
}
KEPT_CALLS = 2_000

Method = Callable[[Args], Json]


class Call(NamedTuple):
    method: str
    args: dict[str, Any]
    ok: bool


class WebApi:
    def __init__(self, *, workspace: Workspace, sockets: SocketMode, faults: Faults) -> None:
        self.calls: list[Call] = []
        self._sockets, self._faults = sockets, faults
        self._methods: Mapping[str, Method] = {
            **Reading(workspace, faults).methods(),
            **Writing(workspace).methods(),
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        try:
            args = await _arguments(request)
            token = _token(request, args)
        except SlackSays as said:
            return self._answer(method, {}, said.body)
        fault = self._faults.take(method, args)
        if fault and fault.kind is FaultKind.SLOW:
            await asyncio.sleep(fault.seconds)
        if fault and (refused := self._refused(method, args, fault)) is not None:
            return refused
        if fault and fault.kind is FaultKind.THREAD_GONE:
            args = {k: v for k, v in args.items() if k != "thread_ts"}
        answer = self._answer(method, args, self._carry_out(request, method, args, token))
        if fault and fault.kind is FaultKind.LOST and request.transport:
            request.transport.abort()
        return answer

    def _carry_out(self, request: web.Request, method: str, args: dict[str, Any], token: str) -> Json:
        try:
            if method == "apps.connections.open":
                return {"ok": True, **self._open_connection(request, token)}
            _check_bot_token(token)
            if not (run := self._methods.get(method)):
                raise SlackSays("unknown_method", req_method=method)
            return {"ok": True, **run(Args(args))}
        except SlackSays as said:
            return said.body

    def _open_connection(self, request: web.Request, token: str) -> Json:
        if token.startswith("xoxb-"):
            raise SlackSays("not_allowed_token_type")
        if not token.startswith("xapp-"):
            raise SlackSays("invalid_auth")
        if self._sockets.script.down:
            raise SlackSays("internal_error")
        return {"url": f"ws://{request.host}/link/?ticket={self._sockets.ticket()}&app_id={APP_ID}"}

    def _refused(self, method: str, args: dict[str, Any], fault: Fault) -> web.Response | None:
        """What a fault answers in the method's place; None: the method runs."""
        match fault.kind:
            case FaultKind.RATELIMITED:
                headers = {"Retry-After": str(fault.retry_after)}
                return self._answer(method, args, SlackSays("ratelimited").body, status=429, headers=headers)
            case FaultKind.RATELIMITED_200:
                return self._answer(method, args, SlackSays("ratelimited").body)
            case FaultKind.HTTP_500 | FaultKind.HTTP_502:
                self._note(method, args, ok=False)
                return web.Response(status=int(fault.kind[-3:]), text="<html>something went wrong</html>", content_type="text/html")
            case FaultKind.ERROR:
                more = {"needed": fault.needed, "provided": SCOPES} if fault.needed else {}
                return self._answer(method, args, SlackSays(fault.code, **more).body)
            case FaultKind.MISSING_SCOPE:
                needed = fault.needed or NEEDED_SCOPE.get(method, "chat:write")
                granted = ",".join(s for s in SCOPES.split(",") if s != needed)
                return self._answer(method, args, SlackSays("missing_scope", needed=needed, provided=granted).body)
            case FaultKind.THREAD_GONE if method == "conversations.replies":
                return self._answer(method, args, SlackSays("thread_not_found").body)
            case _:
                return None

    def _answer(
        self, method: str, args: dict[str, Any], body: Json, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        self._note(method, args, ok=bool(body["ok"]))
        # ASCII only: a lone surrogate in a text must not break the answer
        told = {"x-oauth-scopes": SCOPES, "x-accepted-oauth-scopes": NEEDED_SCOPE.get(method, ""), **(headers or {})}
        return web.json_response(body, status=status, headers=told)

    def _note(self, method: str, args: dict[str, Any], *, ok: bool) -> None:
        self.calls.append(Call(method, args, ok))
        if len(self.calls) > KEPT_CALLS + KEPT_CALLS // 10:
            del self.calls[:-KEPT_CALLS]


async def _arguments(request: web.Request) -> dict[str, Any]:
    args: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        args |= _json_object(await request.read())
    elif request.method == "POST":
        args |= {k: v for k, v in (await request.post()).items() if isinstance(v, str)}
    return args


def _json_object(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        found = json.loads(body)
    except ValueError as error:
        raise SlackSays("invalid_json") from error
    if not isinstance(found, dict):
        raise SlackSays("json_not_object")
    return found


def _token(request: web.Request, args: dict[str, Any]) -> str:
    """Taken out of the arguments, so that no token is ever kept in `calls`."""
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    in_args = str(args.pop("token", "") or "")
    token = bearer.strip() if scheme.lower() == "bearer" else in_args
    if not token:
        raise SlackSays("not_authed")
    return token


def _check_bot_token(token: str) -> None:
    if token.startswith("xapp-"):
        raise SlackSays("not_allowed_token_type")
    if not token.startswith("xoxb-"):
        raise SlackSays("invalid_auth")
