"""The events that Slack sends for what happens in a conversation. Pure: the order of two events of one mention is the caller's.

A mention in a channel that the bot is in is two events of one ts, `message` and `app_mention`; where the bot is no member
only the `app_mention` comes; in a direct message only the `message`. Metadata does not travel with events.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from bot.local.slack_records import APP_ID, BOT_USER_ID, TEAM_ID, Conversation, Json, Message, mentions_bot
from bot.messages import ChannelKind


def posted(conversation: Conversation, message: Message) -> list[Json]:
    event = {**_bare(message), "channel": conversation.id, "channel_type": conversation.channel_type, "event_ts": message["ts"]}
    return _seen(conversation, event, mention=_mention(conversation, event))


def edited(conversation: Conversation, message: Message, previous: Message, *, ts: str) -> list[Json]:
    """`message_changed`, and a fresh `app_mention` with `edited` when the new text holds the mention."""
    whole = {**_bare(message), "channel": conversation.id, "event_ts": ts}
    return _seen(conversation, _changed(conversation, message, previous, ts=ts), mention=_mention(conversation, whole))


def changed(conversation: Conversation, message: Message, previous: Message, *, ts: str) -> list[Json]:
    """A change that nobody typed: an unfurl, a tombstone."""
    return _seen(conversation, _changed(conversation, message, previous, ts=ts), mention=None)


def deleted(conversation: Conversation, previous: Message, *, ts: str) -> list[Json]:
    event = {**_hidden(conversation, "message_deleted", ts), "deleted_ts": previous["ts"], "previous_message": _bare(previous)}
    return _seen(conversation, event, mention=None)


def reacted(conversation: Conversation, message: Message, *, user: str, name: str, added: bool, ts: str) -> Json:
    kind = "reaction_added" if added else "reaction_removed"
    item = {"type": "message", "channel": conversation.id, "ts": message["ts"]}
    return {"type": kind, "user": user, "reaction": name, "item": item, "item_user": message.get("user", ""), "event_ts": ts}


def stopped(conversation: Conversation, *, thread_ts: str, user: str, ts: str) -> Json:
    base = {"type": "agent_session_stopped", "channel": conversation.id, "thread_ts": thread_ts, "user": user}
    return {**base, "streaming_message_ts": [], "event_ts": ts}


def callback(event: Mapping[str, Any], *, shared: bool = False) -> Json:
    """The payload around an event; `event_id` stays the same however often it is delivered.

    In a channel that is `shared` with another organization, `team_id` is of whoever wrote.
    """
    who = {"enterprise_id": None, "team_id": TEAM_ID, "user_id": BOT_USER_ID, "is_bot": True, "is_enterprise_install": False}
    written = next((m for m in (event, event.get("message"), event.get("previous_message")) if m and "user_team" in m), {})
    return {
        "token": "embedded",
        "team_id": written.get("user_team", TEAM_ID),
        "context_team_id": TEAM_ID,
        "context_enterprise_id": None,
        "api_app_id": APP_ID,
        "event": dict(event),
        "type": "event_callback",
        "event_id": "Ev" + uuid.uuid4().hex[:10].upper(),
        "event_time": int(float(event.get("event_ts") or time.time())),
        "authorizations": [who],
        "is_ext_shared_channel": shared,
        "event_context": f"4-{uuid.uuid4().hex}",
    }


def events_limited(at: float) -> Json:
    """Not an event but what Slack sends in place of them, once for each minute."""
    return {
        "token": "embedded",
        "type": "app_rate_limited",
        "team_id": TEAM_ID,
        "minute_rate_limited": int(at) // 60 * 60,
        "api_app_id": APP_ID,
    }


def _seen(conversation: Conversation, event: Json, *, mention: Json | None) -> list[Json]:
    return [*([event] if conversation.has_bot else []), *([mention] if mention else [])]


def _mention(conversation: Conversation, event: Json) -> Json | None:
    if conversation.kind is ChannelKind.DIRECT or event.get("user") == BOT_USER_ID or not mentions_bot(event.get("text")):
        return None
    kept = {k: v for k, v in event.items() if k != "channel_type" and not (k == "subtype" and v != "bot_message")}
    return {**kept, "type": "app_mention"}


def _changed(conversation: Conversation, message: Message, previous: Message, *, ts: str) -> Json:
    return {**_hidden(conversation, "message_changed", ts), "message": _bare(message), "previous_message": _bare(previous)}


def _hidden(conversation: Conversation, subtype: str, ts: str) -> Json:
    where = {"channel": conversation.id, "channel_type": conversation.channel_type}
    return {"type": "message", "subtype": subtype, "hidden": True, **where, "ts": ts, "event_ts": ts}


def _bare(message: Message) -> Json:
    return {k: v for k, v in message.items() if k not in {"metadata", "reactions"}}
