"""Slack's event payloads as values: posted, edited, deleted, or ignored with a reason. Pure; nothing here ever raises.

The accept-list of subtypes stands here, and nowhere else. Ids and times are strings of the shape that Slack gives them, or
the event is malformed; of a message only the keys that its text can be made from are kept, to a bounded depth, so that what
is stored stays small and can be walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.slack_text import Me, is_stranger, plain_text
from telemetry.events import DropReason, Thread

ACCEPTED_SUBTYPES = frozenset({None, "", "file_share", "thread_broadcast", "bot_message", "me_message"})
KEPT_KEYS = frozenset(
    (
        "type",
        "subtype",
        "ts",
        "thread_ts",
        "user",
        "user_team",
        "bot_id",
        "app_id",
        "username",
        "bot_profile",
        "text",
        "blocks",
        "attachments",
    )
) | frozenset(("files", "edited", "streaming_state", "event_ts"))
MENTION_WINDOW_SECONDS = 300  # an edit may still address the bot this long after the message was written
KEPT_DEPTH = 30  # lists and objects inside each other: a shared message with rich text in a table needs half of it
TOMBSTONE = "tombstone"
WHY = frozenset({"why", "なぜ"})
QUESTION_MARKS = frozenset({"question", "grey_question"})
STOP = frozenset({"stop", "cancel", "abort"}) | frozenset(
    {"止めて", "とめて", "止まって", "やめて", "ストップ", "停止", "中止", "キャンセル", "止めてください", "やめてください"}
)
STOP_SIGNS = frozenset({"x", "negative_squared_cross_mark", "octagonal_sign"})  # ❌ ❎ 🛑
_END_MARKS = " \t\n.!。！…～~"
_MENTION = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")
_GROUP = re.compile(r"<!(?:subteam\^|here|channel|everyone)")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TS = re.compile(r"[0-9]{1,16}\.[0-9]{1,16}")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """`channel_type` is "" where the event does not tell (app_mention). `edited`: the event is about an edited text.

    `named`: Slack itself says that the message mentions the bot. `stranger`: of another organization, in a shared channel.
    """

    thread: Thread
    ts: str
    user: str
    bot_id: str
    channel_type: str
    body: Mapping[str, Any]
    edited: bool
    named: bool = False
    stranger: bool = False

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
class Wondered:
    """Somebody put a question mark on the bot's message `ts`."""

    team: str
    channel: str
    ts: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """Somebody wants no answer: to the message `ts` (a reaction), or to all that is asked in the thread `thread_ts` (Slack's button)."""

    team: str
    channel: str
    user: str
    ts: str = ""
    thread_ts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    reason: DropReason
    channel: str = ""
    ts: str = ""


SlackEvent = Posted | Edited | Deleted | Wondered | StopAsked | Ignored


# -- whom a message calls ----------------------------------------------------------------------------------------------
def mentioned(body: Mapping[str, Any]) -> frozenset[str]:
    """User ids that the message's text or blocks mention."""
    by_text = {user for text in _texts(body) for user in _MENTION.findall(text)}
    elements = (o.get("user_id") for o in _objects(body.get("blocks")) if o.get("type") == "user")
    return frozenset(by_text | {user for user in elements if isinstance(user, str)})


def calls_somebody(body: Mapping[str, Any]) -> bool:
    """It mentions a person, a group, or everyone here."""
    elements = any(o.get("type") in ("usergroup", "broadcast") for o in _objects(body.get("blocks")))
    return elements or bool(mentioned(body)) or any(_GROUP.search(text) for text in _texts(body))


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    """The texts in which `<@U1>` is a mention; in a rich text element it is only what somebody typed."""
    written = [body.get("text")] + [o.get("text") for o in _objects(body.get("blocks")) if o.get("type") in ("mrkdwn", "markdown")]
    return (text for text in written if isinstance(text, str))


def _objects(node: object) -> Iterator[Mapping[str, Any]]:
    """Every object in it, however deep."""
    waiting = [node]
    while waiting:
        match waiting.pop():
            case Mapping() as found:
                yield found
                waiting.extend(found.values())
            case list() as entries:
                waiting.extend(entries)


# -- reading -----------------------------------------------------------------------------------------------------------
def read_event(body: Mapping[str, Any], me: Me) -> SlackEvent:
    """`body` is the whole callback (`team_id`, `event`)."""
    body = _object(body)
    event = _object(body.get("event"))
    team, channel = _team(body), _id(event.get("channel"))
    if event.get("type") == "reaction_added":
        return _reacted(team, event, me)
    if event.get("type") == "agent_session_stopped":
        return _button_pressed(team, event)
    if event.get("type") not in ("message", "app_mention"):
        return Ignored(reason=DropReason.IGNORED_EVENT)
    if not team or not channel:
        return Ignored(reason=DropReason.MALFORMED, channel=channel)
    match event.get("subtype"):
        case "message_changed":
            read = _changed(team, channel, event, me)
        case "message_deleted":
            read = _deleted(team, channel, event, me)
        case _:
            read = _posted(team, channel, event, me, edited=bool(event.get("edited")))
    home = _home(body, me)
    match read:
        case Posted() if is_stranger(read.body, home):
            return replace(read, stranger=True)
        case Edited() if is_stranger(read.posted.body, home):
            return replace(read, posted=replace(read.posted, stranger=True))
    return read


def _team(body: Mapping[str, Any]) -> str:
    """The workspace in which the app is installed, so that a thread has one name: of what is said in a channel that is shared
    with others, `team_id` is whoever wrote it."""
    return _id(_installed(body).get("team_id")) or _id(body.get("context_team_id")) or _id(body.get("team_id"))


def _home(body: Mapping[str, Any], me: Me) -> frozenset[str]:
    """Of whom the bot is; nobody's where the channel is not shared with another organization."""
    if body.get("is_ext_shared_channel") is not True:
        return frozenset()
    installed = _installed(body)
    told = (installed.get("team_id"), installed.get("enterprise_id"), body.get("context_team_id"), body.get("context_enterprise_id"))
    return me.home | frozenset(_id(team) for team in told if _id(team))


def _installed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    authorizations = body.get("authorizations")
    return _object(authorizations[0]) if isinstance(authorizations, list) and authorizations else {}


def _posted(team: str, channel: str, m: Mapping[str, Any], me: Me, *, edited: bool) -> Posted | Ignored:
    ts, user, bot_id = _ts(m.get("ts")), _id(m.get("user")), _id(m.get("bot_id"))
    if not _is_accepted(m):
        return Ignored(reason=DropReason.IGNORED_EVENT, channel=channel, ts=ts)
    if not ts or not (user or bot_id):
        return Ignored(reason=DropReason.MALFORMED, channel=channel, ts=ts)
    if _is_own(m, me):
        return Ignored(reason=DropReason.OWN_MESSAGE, channel=channel, ts=ts)
    return Posted(
        thread=Thread(team, channel, _ts(m.get("thread_ts")) or ts),
        ts=ts,
        user=user or bot_id,
        bot_id=bot_id,
        channel_type=_id(m.get("channel_type")),
        body=_kept(m),
        edited=edited,
        named=m.get("type") == "app_mention",
    )


def _changed(team: str, channel: str, event: Mapping[str, Any], me: Me) -> SlackEvent:
    now, before = _object(event.get("message")), _object(event.get("previous_message"))
    if not now:
        return Ignored(reason=DropReason.MALFORMED, channel=channel)
    if now.get("subtype") == TOMBSTONE:
        return _gone(team, channel, {**now, "user": before.get("user"), "bot_id": before.get("bot_id")}, was=before, me=me)
    at = _ts(event.get("ts")) or _ts(event.get("event_ts"))
    streamed = before.get("streaming_state") == "in_progress"  # its last piece: only now is it a message
    whole = {**now, "channel_type": event.get("channel_type"), "event_ts": at}
    if not streamed and not now.get("edited"):
        whole["edited"] = {"ts": at}
    posted = _posted(team, channel, whole, me, edited=not streamed)
    if isinstance(posted, Ignored) or streamed:
        return posted
    if _words(now, me) == _words(before, me) and mentioned(now) == mentioned(before):
        return Ignored(reason=DropReason.IGNORED_EVENT, channel=channel, ts=posted.ts)  # an unfurl, a reply count
    return Edited(posted=posted, before=_kept(before), late=is_late(posted, at))


def _deleted(team: str, channel: str, event: Mapping[str, Any], me: Me) -> SlackEvent:
    before = _object(event.get("previous_message"))
    return _gone(team, channel, {**before, "ts": event.get("deleted_ts")}, was=before, me=me)


def _gone(team: str, channel: str, m: Mapping[str, Any], *, was: Mapping[str, Any], me: Me) -> Deleted | Ignored:
    ts = _ts(m.get("ts"))
    if not ts:
        return Ignored(reason=DropReason.MALFORMED, channel=channel)
    if _is_own(m, me):
        return Ignored(reason=DropReason.OWN_MESSAGE, channel=channel, ts=ts)
    if was.get("subtype") == TOMBSTONE:  # it was gone already; Slack only keeps its books
        return Ignored(reason=DropReason.IGNORED_EVENT, channel=channel, ts=ts)
    return Deleted(thread=Thread(team, channel, _ts(m.get("thread_ts")) or ts), ts=ts, user=_id(m.get("user")))


def _button_pressed(team: str, event: Mapping[str, Any]) -> StopAsked | Ignored:
    asked = StopAsked(team=team, channel=_id(event.get("channel")), user=_id(event.get("user")), thread_ts=_ts(event.get("thread_ts")))
    whole = team and asked.channel and asked.user and asked.thread_ts
    return asked if whole else Ignored(reason=DropReason.MALFORMED, channel=asked.channel)


def _reacted(team: str, event: Mapping[str, Any], me: Me) -> Wondered | StopAsked | Ignored:
    item = _object(event.get("item"))
    wondered = Wondered(team=team, channel=_id(item.get("channel")), ts=_ts(item.get("ts")), user=_id(event.get("user")))
    sign, of_ours = _id(event.get("reaction")), event.get("item_user") == me.user_id
    stops = sign in STOP_SIGNS and not of_ours
    asks = stops or (sign in QUESTION_MARKS and of_ours)
    if not asks or wondered.user == me.user_id or not (team and wondered.channel and wondered.ts and wondered.user):
        return Ignored(reason=DropReason.IGNORED_EVENT, channel=wondered.channel, ts=wondered.ts)
    return StopAsked(team=team, channel=wondered.channel, user=wondered.user, ts=wondered.ts) if stops else wondered


def asks_why(body: Mapping[str, Any], me: Me) -> bool:
    """The one word and nothing else: "why?" is a question for the model."""
    return _words(body, me).strip().lower() in WHY


def asks_stop(body: Mapping[str, Any], me: Me) -> bool:
    """The one word and nothing else, however loud."""
    return _words(body, me).strip(_END_MARKS).lower() in STOP


def is_late(posted: Posted, event_ts: str) -> bool:
    """Whether the edit came too late to address the bot; an edit that tells no time of its own is in time."""
    at = _ts(_object(posted.body.get("edited")).get("ts")) or _ts(event_ts)
    return bool(at) and float(at) - float(posted.ts) > MENTION_WINDOW_SECONDS


# -- parts of a payload ------------------------------------------------------------------------------------------------
def _is_accepted(m: Mapping[str, Any]) -> bool:
    """A kind of message that people read, and whole: one that is still being written comes again when it is done."""
    subtype = m.get("subtype")
    known = subtype is None or (isinstance(subtype, str) and subtype in ACCEPTED_SUBTYPES)
    return known and m.get("streaming_state") != "in_progress"


def _is_own(m: Mapping[str, Any], me: Me) -> bool:
    return (bool(me.user_id) and m.get("user") == me.user_id) or (bool(me.bot_id) and m.get("bot_id") == me.bot_id)


def _words(m: Mapping[str, Any], me: Me) -> str:
    return plain_text(m, bot_user_id=me.user_id, names={})


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _id(value: object) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _ts(value: object) -> str:
    return value if isinstance(value, str) and _TS.fullmatch(value) else ""


def _kept(m: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value, KEPT_DEPTH) for key, value in m.items() if key in KEPT_KEYS}


def _copy(value: object, depth: int) -> Any:
    """What of a JSON value can be stored and read back: no end of depth, no half characters."""
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case Mapping():
            return {_SURROGATE.sub("\ufffd", str(k)): _copy(v, depth - 1) for k, v in value.items()} if depth else {}
        case list():
            return [_copy(entry, depth - 1) for entry in value] if depth else []
        case _:
            return value if value is None or isinstance(value, bool | int | float) else None
