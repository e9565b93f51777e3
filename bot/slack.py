"""Slack's Web API behind `SlackPort`: every call counted, every failure a `SlackError` with Slack's own word.

This, `slack_socket` and `slack_http` are the only files that import slack_sdk. Nothing of a response but its error code is ever
printed: bodies hold what people wrote.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.messages import Channel, ChannelKind
from bot.ports import Clock, Page, Posted, SlackError
from bot.slack_text import Me
from bot.slack_time import SlackTime
from telemetry.emit import Emit
from telemetry.events import SlackCalled, SlackOutcome

PUBLIC_API = "https://slack.com/api/"
CALL_SECONDS = 20.0
SOON_SECONDS = 0.05  # a clock that wakes a little early is no reason to wait anew
RATE_LIMITED = frozenset({"ratelimited", "rate_limited"})
CHANNEL_SECONDS = 600.0
# What an app without the scope, or a workspace without the feature, is told for ever.
NOT_GRANTED = frozenset({"missing_scope", "unknown_method", "no_permission", "not_allowed_token_type", "feature_not_enabled"})
NOTHING_TO_DO = frozenset({"already_reacted", "no_reaction", "message_not_found", "thread_not_found"})
UNKNOWN_USER = frozenset({"user_not_found", "user_not_visible"})  # and it stays so
NAMES_KEPT = 10_000
LOGGER = logging.getLogger("insomnia.slack")  # Slack's libraries print whole bodies at DEBUG
LOGGER.setLevel(logging.WARNING)
_TYPES = {ChannelKind.PUBLIC: "channel", ChannelKind.PRIVATE: "group", ChannelKind.DIRECT: "im"}
LEARNED_PAGES = 20  # of 200 channels: at one page a second or so, more would hold up the start


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class SlackWeb:
    """One bot token. `start` proves it; afterwards `me` and `team` are known."""

    def __init__(
        self, token: str, *, api_url: str, session: aiohttp.ClientSession, clock: Clock, emit: Emit, time: SlackTime | None = None
    ) -> None:
        self.time, self.team = time or SlackTime(clock), ""
        # No retries by the library: its own repeats a post whose answer was lost, and then the post stands there twice.
        self.client = AsyncWebClient(token=token, base_url=api_url or PUBLIC_API, session=session, retry_handlers=[], logger=LOGGER)
        if is_loopback(self.client.base_url):
            self.client.proxy = None  # the library took it from the environment, and knows no NO_PROXY
        self._clock, self._emit = clock, emit
        self._names: dict[str, str] = {}
        self._channels: dict[str, Channel] = {}
        self._learnt: dict[str, float] = {}  # when, by the monotonic clock
        self._not_granted: set[str] = set()  # methods that are a courtesy, and that this app may not use
        self._put_off: dict[tuple[str, str], float] = {}  # kind of call -> until when Slack wants no more of it

    async def start(self) -> Me:
        """Raises SlackError: `invalid_auth` and the like, before Bolt would lose a first event over it."""
        told = await self._call("auth.test")
        if not told.get("bot_id"):  # a person's token: what the bot posts would be that person's
            raise SlackError("auth.test", "not_allowed_token_type")
        self.team = str(told.get("team_id") or "")
        home = frozenset(str(told[name]) for name in ("team_id", "enterprise_id") if told.get(name))
        return Me(user_id=str(told.get("user_id") or ""), bot_id=str(told.get("bot_id") or ""), home=home)

    async def check_app_token(self, token: str) -> None:
        """Bolt retries a bad one for ever without a word; this says so at once."""
        await self._call("apps.connections.open", app_token=token)

    async def learn_channels(self) -> None:
        """All that the bot is a member of, so that a first message need not wait to learn where it goes.

        Only a head start: what is not learned here is asked for when it is needed.
        """
        cursor = ""
        for _ in range(LEARNED_PAGES):
            args = {"types": "public_channel,private_channel,mpim,im", "limit": 200, "cursor": cursor}
            try:
                told = await self._call("users.conversations", **_given(args))
            except SlackError:
                return
            for channel in told.get("channels") or []:
                self._learn(_channel(channel))
            cursor = str((told.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return

    # -- SlackPort -----------------------------------------------------------------------------------------------------
    async def replies(
        self, channel: str, thread_ts: str, *, cursor: str = "", limit: int = 1000, oldest: str = "", metadata: bool = False
    ) -> Page:
        args: dict[str, Any] = {"channel": channel, "ts": thread_ts, "limit": limit, "cursor": cursor, "oldest": oldest}
        args["include_all_metadata"] = "true" if metadata else ""
        told = await self._call("conversations.replies", **_given(args))
        messages = told.get("messages")
        next_cursor = (told.get("response_metadata") or {}).get("next_cursor") or ""
        return Page(messages if isinstance(messages, list) else [], str(next_cursor))

    async def history(self, channel: str, *, limit: int) -> Page:
        messages = (await self._call("conversations.history", channel=channel, limit=limit)).get("messages")
        return Page(messages if isinstance(messages, list) else [])

    async def post(self, channel: str, text: str, *, thread_ts: str, metadata: Mapping[str, Any] | None = None) -> Posted:
        args: dict[str, Any] = {"channel": channel, "text": text, "thread_ts": thread_ts, "unfurl_links": "false", "unfurl_media": "false"}
        if metadata is not None:
            args["metadata"] = json.dumps(metadata, ensure_ascii=False)
        told = await self._call("chat.postMessage", **args)
        return Posted(ts=str(told.get("ts") or ""), thread_ts=(told.get("message") or {}).get("thread_ts"))

    async def whisper(self, channel: str, user: str, text: str, *, thread_ts: str) -> None:
        await self._call("chat.postEphemeral", channel=channel, user=user, text=text, thread_ts=thread_ts)

    async def delete(self, channel: str, ts: str) -> None:
        await self._call("chat.delete", channel=channel, ts=ts)

    async def react(self, channel: str, ts: str, name: str, *, on: bool) -> None:
        await self._courtesy("reactions.add" if on else "reactions.remove", channel=channel, timestamp=ts, name=name)

    async def set_working(self, channel: str, thread_ts: str, *, on: bool) -> None:
        status = "processing" if on else "active"
        await self._courtesy("agents.sessions.setStatus", channel_id=channel, thread_ts=thread_ts, status=status)

    async def _courtesy(self, method: str, **args: str) -> None:
        """Nobody misses what the app was not given: it is counted once, and not tried again."""
        if method in self._not_granted:
            return
        try:
            await self._call(method, **args)
        except SlackError as e:
            if e.code in NOT_GRANTED:
                self._not_granted.add(method)
            elif e.code not in NOTHING_TO_DO:
                raise

    async def set_status(self, channel: str, thread_ts: str, status: str) -> None:
        await self._call("assistant.threads.setStatus", channel_id=channel, thread_ts=thread_ts, status=status)

    async def user_name(self, user: str) -> str:
        if user not in self._names:
            try:
                told = (await self._call("users.info", user=user)).get("user") or {}
            except SlackError as e:
                if e.code not in UNKNOWN_USER:
                    return user  # not kept: the next one asks again
                told = {}
            profile = told.get("profile") or {}
            names = (profile.get("display_name"), profile.get("real_name"), told.get("real_name"), told.get("name"), user)
            if len(self._names) >= NAMES_KEPT:
                self._names.clear()
            self._names[user] = str(next(name for name in names if name))
        return self._names[user]

    def member_of(self) -> dict[str, str]:
        """The channels that were learnt at the start, with the type that events give them."""
        return {c.id: _TYPES[c.kind] for c in self._channels.values()}

    def known_channel(self, channel: str) -> Channel | None:
        """What was learnt of it before; never asks."""
        return self._channels.get(channel)

    async def channel(self, channel: str) -> Channel:
        """Asked again after a while: a public channel may have been made private. While Slack does not tell, the old word counts."""
        if self._clock.monotonic() - self._learnt.get(channel, float("-inf")) > CHANNEL_SECONDS:
            try:
                told = (await self._call("conversations.info", channel=channel)).get("channel") or {}
            except SlackError:
                if channel not in self._channels:
                    raise
            else:
                self._learn(_channel({**told, "id": channel}))
        return self._channels[channel]

    def _learn(self, channel: Channel) -> None:
        self._channels[channel.id], self._learnt[channel.id] = channel, self._clock.monotonic()

    # -- one call ------------------------------------------------------------------------------------------------------
    async def _call(self, method: str, *, app_token: str = "", **args: Any) -> Mapping[str, Any]:
        began, outcome = self._clock.monotonic(), SlackOutcome.ERROR
        if (left := self._put_off.get(_kind_of_call(method, args), began) - began) > SOON_SECONDS:
            raise SlackError(method, "ratelimited", retry_after=left)  # asked or not, that is what Slack would say
        try:
            headers = {"Authorization": f"Bearer {app_token}"} if app_token else None
            async with asyncio.timeout(CALL_SECONDS):  # the library's own does not hold for a session that it is given
                response = await self.client.api_call(method, data=args, headers=headers)
            outcome = SlackOutcome.OK
            self.time.told(_header(response, "date"))
            return response.data if isinstance(response.data, dict) else {}
        except SlackApiError as e:
            error = _error(method, e)
            if error.code in RATE_LIMITED:
                outcome = SlackOutcome.RATE_LIMITED
                self._hold(_kind_of_call(method, args), error.retry_after)
            raise error from None  # the cause would print the whole response
        except TimeoutError:
            outcome = SlackOutcome.TIMEOUT
            raise SlackError(method, "timeout") from None
        except aiohttp.ClientConnectorError as e:
            raise SlackError(method, "connection_refused") from e  # never sent: safe to repeat
        except (aiohttp.ClientError, OSError) as e:
            raise SlackError(method, "connection") from e
        except (SlackClientError, ValueError, AttributeError):  # the last one: the library, over an answer that is plain text
            raise SlackError(method, "invalid_response") from None
        finally:
            self._emit(SlackCalled(method=method, outcome=outcome, seconds=self._clock.monotonic() - began))

    def _hold(self, kind: tuple[str, str], seconds: float) -> None:
        now = self._clock.monotonic()
        self._put_off = {other: until for other, until in self._put_off.items() if until > now}
        if seconds:
            self._put_off[kind] = now + seconds


def _kind_of_call(method: str, args: Mapping[str, Any]) -> tuple[str, str]:
    """What Slack counts together: a method, in one workspace; posts by their channel."""
    return method, str(args.get("channel", "")) if method == "chat.postMessage" else ""


def _error(method: str, e: SlackApiError) -> SlackError:
    response: Any = e.response
    status = int(getattr(response, "status_code", None) or getattr(response, "status", None) or 0)
    body = response.data if isinstance(getattr(response, "data", None), dict) else {}
    code = str(body.get("error") or ("invalid_response" if status in (0, 200) else f"http_{status}"))
    if status == 429:
        code = "ratelimited"
    elif status >= 500:
        code = f"http_{status}"
    return SlackError(method, code, retry_after=_seconds(_header(response, "retry-after")), needed=str(body.get("needed") or ""))


def _header(response: Any, name: str) -> str:
    headers = {str(k).lower(): v for k, v in dict(getattr(response, "headers", None) or {}).items()}
    value = headers.get(name)
    return str(value[0] if isinstance(value, list) and value else value or "")


def _given(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value}


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


def _channel(channel: Mapping[str, Any]) -> Channel:
    return Channel(id=str(channel.get("id")), name=str(channel.get("name") or ""), kind=_kind(channel))


def _kind(channel: Mapping[str, Any]) -> ChannelKind:
    if channel.get("is_im"):
        return ChannelKind.DIRECT
    # One that is shared with another organization is public to neither.
    private = channel.get("is_private") or channel.get("is_group") or channel.get("is_mpim") or channel.get("is_ext_shared")
    return ChannelKind.PRIVATE if private else ChannelKind.PUBLIC
