"""The control API: how `insomnia say`, the console and the demonstration act as people in the embedded workspace.

Every request needs the control token, which only who can read the workspace's folder knows. Names are accepted wherever
an id is; what is not there is answered 404 with a sentence that names what there is.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from bot.local import slack_richtext
from bot.local.slack_faults import Faults
from bot.local.slack_records import BOT_USER_ID, TEAM_ID, Conversation, Json, Message, Person
from bot.local.slack_threads import answer_parts, complete, thread_row
from bot.local.slack_workspace import Unknown, Workspace
from bot.messages import ChannelKind

MAX_WAIT_SECONDS = 600.0
DEFAULT_WAIT_SECONDS = 60.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BadRequest(ValueError):
    """The text is a sentence for the person who typed the command."""


class Control:
    def __init__(self, *, workspace: Workspace, faults: Faults, token: str) -> None:
        if not token:
            raise ValueError("the control token is empty: anybody on this machine could speak for everybody")
        self._workspace, self._store, self._faults, self._token = workspace, workspace.store, faults, token
        self._closing = False

    def routes(self) -> list[web.RouteDef]:
        read: dict[str, Callable[[web.Request], Any]] = {
            "threads": self._threads,
            "channels": self._channels,
            "people": self._people,
            "replies": self._replies,
        }
        act: dict[str, Callable[[Json], Json]] = {
            "say": self._say,
            "edit": self._edit,
            "delete": self._delete,
            "react": self._react,
            "stop": self._stop,
            "fault": self._fault,
            "clear_faults": self._clear_faults,
            "socket": self._socket,
        }
        gets = [web.get(f"/control/{name}", self._guarded(_reading(run))) for name, run in read.items()]
        posts = [web.post(f"/control/{name}", self._guarded(_acting(run))) for name, run in act.items()]
        return [*gets, web.get("/control/wait", self._guarded(self._wait)), *posts]

    def close(self) -> None:
        """Those who wait are answered now with what there is."""
        self._closing = True
        self._workspace.changed.strike()

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if scheme != "Bearer" or not hmac.compare_digest(token.encode(), self._token.encode()):
                return _error(401, "The control token is missing or wrong.")
            try:
                return await handler(request)
            except Unknown as error:
                return _error(404, str(error))
            except BadRequest as error:
                return _error(400, str(error))

        return guarded

    # -- reading ------------------------------------------------------------------------------------------------------
    def _threads(self, request: web.Request) -> list[Json]:
        """Newest last, by what was said last in them. Without `channel`: of all channels."""
        word = request.query.get("channel")
        chosen = [self._workspace.conversation(word)] if word else list(self._store.conversations.values())
        rows = [
            thread_row(c, self._store.thread(c.id, m["ts"]), words=self._workspace.words, now=self._workspace.clock())
            for c in chosen
            for m in self._store.timeline(c.id)
            if m.get("thread_ts", m["ts"]) == m["ts"]
        ]
        return sorted(rows, key=lambda row: str(row["last_ts"]))

    def _channels(self, request: web.Request) -> list[Json]:
        return [
            {
                "id": c.id,
                "name": c.name,
                "kind": c.kind.value,
                "topic": c.topic,
                "bot_is_member": c.has_bot,
                "members": [self._name(m) for m in c.members],
                "default": c.default,
            }
            for c in self._store.conversations.values()
        ]

    def _people(self, request: web.Request) -> list[Json]:
        return [
            {"id": p.id, "name": p.name, "display_name": p.display_name, "real_name": p.real_name, "is_bot": p.is_bot, "default": p.default}
            for p in self._store.people.values()
        ]

    def _replies(self, request: web.Request) -> Json:
        """The thread, or what came in it after `after`; the status that the bot shows there; what it whispered."""
        conversation = self._conversation(dict(request.query))
        root = self._workspace.thread_root(conversation, _needed(request.query, "thread_ts"))
        after = request.query.get("after", "")
        messages = [self._shown(m) for m in self._store.thread(conversation.id, root) if m["ts"] > after]
        whispers = [self._shown(e) for e in self._whispers(conversation.id, root, after=after)]
        status = self._workspace.status(conversation.id, root)
        where = {"channel": conversation.id, "thread_ts": root, "status": status}
        return {**where, "messages": messages, "ephemerals": whispers}

    async def _wait(self, request: web.Request) -> web.StreamResponse:
        """The bot's answer to one message: `done` once its last part is there, or it whispered to whoever wrote; else what there
        is when the time is over."""
        conversation = self._conversation(dict(request.query))
        ts = _needed(request.query, "ts")
        root = self._workspace.thread_root(conversation, ts)
        now = asyncio.get_running_loop().time
        deadline = now() + _seconds(request.query.get("timeout"))
        writer = (self._store.get(conversation.id, ts) or {}).get("user")
        while True:
            whispers = [e for e in self._whispers(conversation.id, root, after=ts) if e["user"] == writer]
            parts = answer_parts(self._store.messages(conversation.id, after=ts), message=f"{TEAM_ID}/{conversation.id}/{ts}")
            if whispers or complete(parts) or self._closing or not await self._workspace.changed.next(deadline - now()):
                break
        shown = [self._shown(self._store.shown(conversation.id, m["ts"])) for m in parts if self._store.get(conversation.id, m["ts"])]
        status = self._workspace.status(conversation.id, root)
        done = complete(parts) or bool(whispers)
        whispered = [self._shown(e) for e in whispers]
        return _answer({"done": done, "messages": shown, "ephemerals": whispered, "status": status, "thread_ts": root})

    def _whispers(self, channel: str, root: str, *, after: str) -> list[Json]:
        there = (e for e in self._workspace.ephemerals if e["channel"] == channel and e["ts"] > after)
        return [e for e in there if e.get("thread_ts", root) == root]

    # -- acting -------------------------------------------------------------------------------------------------------
    def _say(self, body: Json) -> Json:
        conversation = self._conversation(body)
        text = slack_richtext.typed(_text(body, "text"), self._store.people)
        message = self._workspace.say(
            conversation.id,
            self._speaker(body, conversation).id,
            text,
            thread_ts=_optional(body, "thread_ts"),
            mention=bool(body.get("mention", False)),
        )
        return {"channel": conversation.id, "ts": message["ts"], "thread_ts": message.get("thread_ts", message["ts"])}

    def _edit(self, body: Json) -> Json:
        text = slack_richtext.typed(_text(body, "text"), self._store.people)
        message = self._workspace.edit(self._conversation(body).id, _text(body, "ts"), text)
        return {"ts": message["ts"]}

    def _delete(self, body: Json) -> Json:
        self._workspace.delete(self._conversation(body).id, _text(body, "ts"))
        return {"ts": body["ts"]}

    def _react(self, body: Json) -> Json:
        conversation = self._conversation(body)
        user, name = self._speaker(body, conversation).id, _text(body, "name").strip(":")
        return {"changed": self._workspace.react(conversation.id, _text(body, "ts"), user, name, added=not body.get("remove", False))}

    def _stop(self, body: Json) -> Json:
        """The stop button of a reply that is being made."""
        conversation = self._conversation(body)
        root = self._workspace.thread_root(conversation, _text(body, "thread_ts"))
        self._workspace.press_stop(conversation.id, root, self._speaker(body, conversation).id)
        return {"thread_ts": root}

    def _fault(self, body: Json) -> Json:
        options = {k: v for k, v in body.items() if k not in {"method", "kind"}}
        try:
            fault = self._faults.add(_text(body, "method"), _text(body, "kind"), **options)
        except (TypeError, ValueError) as error:
            raise BadRequest(f"This fault cannot be set: {error}") from error
        return {"method": fault.method, "kind": fault.kind.value, "times": fault.times}

    def _clear_faults(self, body: Json) -> Json:
        self._faults.clear()
        return {}

    def _socket(self, body: Json) -> Json:
        acts: dict[str, Callable[[], None]] = {
            "down": self._faults.socket_down,
            "up": self._faults.socket_up,
            "drop": self._faults.drop_sockets,
            "withhold": self._faults.withhold,
            "release": self._faults.release,
            "deafen": self._faults.deafen,
            "connect_another": self._faults.connect_another,
            "limit_events": self._faults.limit_events,
            "free_events": self._faults.free_events,
            "disconnect": lambda: self._faults.disconnect(_optional(body, "reason") or "refresh_requested"),
        }
        if (action := _text(body, "action")) not in acts:
            raise BadRequest(f"There is no socket action {action!r}. There are: {', '.join(acts)}.")
        acts[action]()
        return {"action": action}

    # -- parts --------------------------------------------------------------------------------------------------------
    def _conversation(self, given: Json) -> Conversation:
        if word := _optional(given, "channel"):
            return self._workspace.conversation(word)
        return next(c for c in self._store.conversations.values() if c.default)

    def _speaker(self, body: Json, conversation: Conversation) -> Person:
        if word := _optional(body, "user"):
            return self._workspace.person(word)
        if conversation.kind is ChannelKind.DIRECT:
            return next(p for m in conversation.members if (p := self._store.people[m]).id != BOT_USER_ID)
        return next(p for p in self._store.people.values() if p.default)

    def _name(self, user: str) -> str:
        return self._store.people[user].name if user in self._store.people else user

    def _shown(self, message: Message) -> Json:
        """As stored, with `user_name` and `shown`: the words that a person would see."""
        user = message.get("user", "")
        name = self._store.people[user].display_name if user in self._store.people else message.get("username", user)
        return {**message, "user_name": name, "shown": _unescaped(self._workspace.words(message.get("text") or ""))}


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _reading(run: Callable[[web.Request], Any]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return _answer(run(request))

    return handle


def _acting(run: Callable[[Json], Json]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            body = json.loads(await request.read() or b"{}")
        except ValueError as error:
            raise BadRequest("The body is not JSON.") from error
        if not isinstance(body, dict):
            raise BadRequest("The body is not a JSON object.")
        return _answer(run(body))

    return handle


def _answer(found: Any) -> web.Response:
    return web.json_response(found)


def _error(status: int, sentence: str) -> web.Response:
    return web.json_response({"error": sentence}, status=status)


def _optional(given: Json, name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{name} must be a string, not {value!r}.")
    return value or None


def _text(body: Json, name: str) -> str:
    if not (value := _optional(body, name)):
        raise BadRequest(f"{name} is missing.")
    return value


def _needed(query: Any, name: str) -> str:
    return _text(dict(query), name)


def _seconds(given: str | None) -> float:
    try:
        return min(max(float(given), 0.0), MAX_WAIT_SECONDS) if given else DEFAULT_WAIT_SECONDS
    except ValueError as error:
        raise BadRequest(f"timeout must be a number of seconds, not {given!r}.") from error
