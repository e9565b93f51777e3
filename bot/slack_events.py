"""Slack's event payloads as values: posted, edited, deleted, or ignored with a reason. Pure; nothing here ever raises.

The accept-list of subtypes stands here, and nowhere else. Of a message only the keys that its text can be made from are
kept, so that what is stored stays small.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.slack_text import Me, plain_text
from telemetry.events import DropReason, Thread

ACCEPTED_SUBTYPES = frozenset({None, "", "file_share", "thread_broadcast", "bot_message", "me_message"})
KEPT_KEYS = frozenset(
    ("type", "subtype", "ts", "thread_ts", "user", "bot_id", "app_id", "username", "bot_profile", "text", "blocks", "attachments")
) | frozenset(("files", "edited", "streaming_state"))
MENTION_WINDOW_SECONDS = 300  # an edit may still address the bot this long after the message was written
_MENTION = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """`channel_type` is "" where the event does not tell (app_mention). `edited`: the event is about an edited text."""

    thread: Thread
    ts: str
    user: str
    bot_id: str
    channel_type: str
    body: Mapping[str, Any]
    edited: bool

    def mentions(self, user: str) -> bool:
        return user in mentioned(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A message has another text now. `late`: too long after it was written to address the bot."""

    posted: Posted
    before: Mapping[str, Any]
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    thread: Thread
    ts: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    reason: DropReason
    channel: str = ""
    ts: str = ""


SlackEvent = Posted | Edited | Deleted | Ignored


def mentioned(body: Mapping[str, Any]) -> frozenset[str]:
    """User ids that the message's text or blocks mention."""
    text = body.get("text")
    found = set(_MENTION.findall(text)) if isinstance(text, str) else set()
    return frozenset(found | _users_in(body.get("blocks")))


def _users_in(node: object) -> set[str]:
    if isinstance(node, Mapping):
        here = {str(node["user_id"])} if node.get("type") == "user" and node.get("user_id") else set()
        text = node.get("text")
        if node.get("type") == "mrkdwn" and isinstance(text, str):
            here |= set(_MENTION.findall(text))
        return here.union(*(_users_in(v) for v in node.values()))
    return set().union(*(_users_in(v) for v in node)) if isinstance(node, list) else set()


def read_event(body: Mapping[str, Any], me: Me) -> SlackEvent:
    """`body` is the whole callback (`team_id`, `event`)."""
    event = body.get("event")
    if not isinstance(event, Mapping) or event.get("type") not in ("message", "app_mention"):
        return Ignored(reason=DropReason.IGNORED_EVENT)
    team, channel = str(body.get("team_id") or ""), str(event.get("channel") or "")
    if not team or not channel:
        return Ignored(reason=DropReason.MALFORMED, channel=channel)
    match event.get("subtype"):
        case "message_changed":
            return _changed(team, channel, event, me)
        case "message_deleted":
            return _deleted(team, channel, event, me)
        case subtype if subtype in ACCEPTED_SUBTYPES:
            return _posted(team, channel, event, me, edited=bool(event.get("edited")))
        case _:
            return Ignored(reason=DropReason.IGNORED_EVENT, channel=channel, ts=str(event.get("ts") or ""))


def _posted(team: str, channel: str, m: Mapping[str, Any], me: Me, *, edited: bool, channel_type: str = "") -> Posted | Ignored:
    ts, user, bot_id = str(m.get("ts") or ""), str(m.get("user") or ""), str(m.get("bot_id") or "")
    if not _is_ts(ts) or not (user or bot_id):
        return Ignored(reason=DropReason.MALFORMED, channel=channel, ts=ts)
    if _is_own(m, me):
        return Ignored(reason=DropReason.OWN_MESSAGE, channel=channel, ts=ts)
    root = str(m.get("thread_ts") or ts)
    return Posted(
        thread=Thread(team, channel, root if _is_ts(root) else ts),
        ts=ts,
        user=user or bot_id,
        bot_id=bot_id,
        channel_type=channel_type or str(m.get("channel_type") or ""),
        body={k: v for k, v in m.items() if k in KEPT_KEYS},
        edited=edited,
    )


def _changed(team: str, channel: str, event: Mapping[str, Any], me: Me) -> SlackEvent:
    now, before = event.get("message"), event.get("previous_message")
    if not isinstance(now, Mapping):
        return Ignored(reason=DropReason.MALFORMED, channel=channel)
    before = before if isinstance(before, Mapping) else {}
    if now.get("subtype") == "tombstone":
        return _gone(team, channel, {**now, "user": before.get("user")}, me)
    posted = _posted(team, channel, now, me, edited=True, channel_type=str(event.get("channel_type") or ""))
    if isinstance(posted, Ignored):
        return posted
    if _words(now, me) == _words(before, me) and mentioned(now) == mentioned(before):
        return Ignored(reason=DropReason.IGNORED_EVENT, channel=channel, ts=posted.ts)  # an unfurl, a reply count
    return Edited(posted=posted, before=before, late=is_late(posted, str(event.get("ts") or "")))


def _deleted(team: str, channel: str, event: Mapping[str, Any], me: Me) -> SlackEvent:
    before = event.get("previous_message")
    return _gone(team, channel, {**(before if isinstance(before, Mapping) else {}), "ts": event.get("deleted_ts")}, me)


def _gone(team: str, channel: str, m: Mapping[str, Any], me: Me) -> Deleted | Ignored:
    ts = str(m.get("ts") or "")
    if not _is_ts(ts):
        return Ignored(reason=DropReason.MALFORMED, channel=channel)
    if _is_own(m, me):
        return Ignored(reason=DropReason.OWN_MESSAGE, channel=channel, ts=ts)
    return Deleted(thread=Thread(team, channel, str(m.get("thread_ts") or ts)), ts=ts, user=str(m.get("user") or ""))


def is_late(posted: Posted, event_ts: str) -> bool:
    """Whether the edit came too late to address the bot; an edit that tells no time of its own is in time."""
    edited = posted.body.get("edited")
    at = str(edited.get("ts") or "") if isinstance(edited, Mapping) else ""
    at = at if _is_ts(at) else event_ts
    return _is_ts(at) and float(at) - float(posted.ts) > MENTION_WINDOW_SECONDS


def _is_own(m: Mapping[str, Any], me: Me) -> bool:
    return (bool(m.get("user")) and m.get("user") == me.user_id) or (bool(m.get("bot_id")) and m.get("bot_id") == me.bot_id)


def _words(m: Mapping[str, Any], me: Me) -> str:
    return plain_text(m, bot_user_id=me.user_id, names={})


def _is_ts(ts: str) -> bool:
    seconds, dot, micros = ts.partition(".")
    return bool(dot) and seconds.isdigit() and micros.isdigit()
