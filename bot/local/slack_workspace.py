"""What people and the bot do in the embedded workspace: each act is stored first, then told to the bot as events.

`say`, `edit`, `delete` are what a person does in a client; `post` and `update` are the bot's. With `deliver=False` an act
is stored and no event is sent: what the bot misses while it is away.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bot.local import slack_events, slack_richtext
from bot.local.slack_faults import SocketScript
from bot.local.slack_files import file_object
from bot.local.slack_records import (
    APP_ID,
    BOT_ID,
    BOT_USER_ID,
    SLACKBOT_ID,
    TEAM_ID,
    Clock,
    Conversation,
    Json,
    Message,
    Person,
    mentions_bot,
)
from bot.local.slack_store import Store
from bot.local.slack_tasks import Beat
from bot.messages import ChannelKind

STATUS_SECONDS = 120.0  # Slack clears an assistant status by itself after two minutes
KEPT_EPHEMERALS = 200


class ChangeEvents(Protocol):
    def __call__(self, conversation: Conversation, message: Message, previous: Message, *, ts: str) -> list[Json]: ...


class Unknown(LookupError):
    """No such channel, person, message or thread; the text is a sentence that names what there is."""


@dataclass(frozen=True, slots=True)
class Status:
    text: str
    until: float


class Workspace:
    """`send` takes the payload of an event; `script` says which event of a mention goes first."""

    def __init__(self, store: Store, *, clock: Clock, send: Callable[[Json], None], script: SocketScript) -> None:
        self.store, self.clock = store, clock
        self.changed = Beat()
        self.ephemerals: list[Json] = []
        self.session_statuses: dict[tuple[str, str], str] = {}
        self._statuses: dict[tuple[str, str], Status] = {}
        self._send, self._script = send, script
        self._chance = random.Random()

    # -- names --------------------------------------------------------------------------------------------------------
    def conversation(self, word: str) -> Conversation:
        """By id or name, with or without `#`; `@handle` is the direct message with that person."""
        wanted = word.removeprefix("#")
        for conversation in self.store.conversations.values():
            if wanted in {conversation.id, conversation.name}:
                return conversation
        names = ", ".join(_listed(c) for c in self.store.conversations.values())
        raise Unknown(f"There is no channel {word!r} here. There are: {names}.")

    def person(self, word: str) -> Person:
        for person in self.store.people.values():
            if person.answers_to(word.removeprefix("@")):
                return person
        names = ", ".join(p.name for p in self.store.people.values() if not p.is_bot)
        raise Unknown(f"There is nobody called {word!r} here. There are: {names}.")

    def message(self, channel: str, ts: str) -> tuple[Conversation, Message]:
        conversation = self.conversation(channel)
        if message := self.store.get(conversation.id, ts):
            return conversation, message
        raise Unknown(f"{_listed(conversation)} has no message {ts}. {self._threads_of(conversation)}")

    def thread_root(self, conversation: Conversation, ts: str) -> str:
        if root := self.store.root_ts(conversation.id, ts):
            return root
        raise Unknown(f"{_listed(conversation)} has no thread {ts}. {self._threads_of(conversation)}")

    def words(self, text: str) -> str:
        return slack_richtext.words(text, self.store.people, {c.id: c.name for c in self.store.conversations.values()})

    # -- people -------------------------------------------------------------------------------------------------------
    def say(
        self,
        channel: str,
        user: str,
        text: str | None,
        *,
        thread_ts: str | None = None,
        mention: bool = False,
        deliver: bool = True,
        files: Sequence[str | Json] = (),
        subtype: str | None = None,
        ts: str | None = None,
        **extra: Any,
    ) -> Message:
        """`text` is as Slack stores it (escaped); None leaves the field out. `files` are names or Slack file objects.
        A field in `extra` that is None is left out (`blocks=None`)."""
        conversation, person = self.conversation(channel), self.person(user)
        if mention and not mentions_bot(text):
            text = f"<@{BOT_USER_ID}> {text or ''}".rstrip()
        fields: Json = _author(person, subtype)
        if text is not None:
            fields["text"] = text
            fields |= {} if person.is_bot or not text else {"blocks": slack_richtext.blocks(text)}
        if files:
            fields["files"] = [file_object(f, user=person.id, created=int(self.clock())) for f in files]
            fields["subtype"] = "file_share"
        fields |= {"subtype": subtype} if subtype else {}
        if thread_ts:
            fields["thread_ts"] = self.thread_root(conversation, thread_ts)
        if subtype == "thread_broadcast":
            fields["root"] = self.store.shown(conversation.id, fields["thread_ts"])
        fields |= extra
        return self._add(conversation, {k: v for k, v in fields.items() if v is not None}, ts=ts, deliver=deliver)

    def edit(self, channel: str, ts: str, text: str, *, deliver: bool = True) -> Message:
        conversation, old = self.message(channel, ts)
        edited = {"user": old.get("user", BOT_USER_ID), "ts": self.store.next_ts(conversation.id)}
        human = {"blocks": slack_richtext.blocks(text)} if "client_msg_id" in old else {}
        return self._put_change(conversation, {**old, "text": text, **human, "edited": edited}, deliver=deliver)

    def unfurl(self, channel: str, ts: str, attachment: Json) -> Message:
        """A link preview: the text stays as it is, nobody edited."""
        conversation, old = self.message(channel, ts)
        new = {**old, "attachments": [*old.get("attachments", []), attachment]}
        return self._put_change(conversation, new, events=slack_events.changed)

    def delete(self, channel: str, ts: str, *, deliver: bool = True) -> None:
        """A root that has replies leaves a tombstone; the tombstone goes with its last reply."""
        conversation, old = self.message(channel, ts)
        if self.store.reply_ts(conversation.id, ts):
            self._put_change(conversation, _tombstone(old), events=slack_events.changed, deliver=deliver)
            return
        shown, told = self.store.shown(conversation.id, ts), self.store.next_ts(conversation.id)
        self.store.remove(conversation.id, ts)
        self._bury(conversation, old)
        self._tell(slack_events.deleted(conversation, shown, ts=told) if deliver else [])

    def react(self, channel: str, ts: str, user: str, name: str, *, added: bool = True) -> bool:
        """False when there was nothing to do."""
        conversation, old = self.message(channel, ts)
        who = self.person(user).id
        users: dict[str, list[str]] = {r["name"]: list(r["users"]) for r in old.get("reactions", [])}
        if (who in users.get(name, [])) == added:
            return False
        users[name] = [*users.get(name, []), who] if added else [u for u in users[name] if u != who]
        reactions = [{"name": n, "users": u, "count": len(u)} for n, u in users.items() if u]
        self.store.change(conversation.id, {**old, "reactions": reactions})
        told = self.store.next_ts(conversation.id)
        self._tell([slack_events.reacted(conversation, old, user=who, name=name, added=added, ts=told)] if conversation.has_bot else [])
        return True

    def press_stop(self, channel: str, thread_ts: str, user: str) -> None:
        conversation = self.conversation(channel)
        told = self.store.next_ts(conversation.id)
        self._tell([slack_events.stopped(conversation, thread_ts=thread_ts, user=self.person(user).id, ts=told)])

    # -- the bot ------------------------------------------------------------------------------------------------------
    def post(self, conversation: Conversation, fields: Json) -> Message:
        """A thread whose root is gone does not stop a post: it stands in the channel, as it does in Slack."""
        root = self.store.root_ts(conversation.id, fields["thread_ts"]) if fields.get("thread_ts") else None
        placed = {k: v for k, v in fields.items() if k != "thread_ts"} | ({"thread_ts": root} if root else {})
        author = _author(self.store.people[BOT_USER_ID], None) | {"app_id": APP_ID, "bot_profile": _profile()}
        self._statuses.pop((conversation.id, root or ""), None)
        return self._add(conversation, {**author, **placed}, ts=None, deliver=True)

    def update(self, conversation: Conversation, old: Message, fields: Json) -> Message:
        edited = {"user": BOT_USER_ID, "ts": self.store.next_ts(conversation.id)}
        kept = {k: v for k, v in old.items() if k not in {"blocks", "attachments"}}
        return self._put_change(conversation, {**kept, **fields, "edited": edited})

    def whisper(self, conversation: Conversation, user: str, fields: Json) -> str:
        """A message that one person sees and nothing keeps."""
        ts = self.store.next_ts(conversation.id)
        self.ephemerals.append({"channel": conversation.id, "user": user, "ts": ts, **fields})
        del self.ephemerals[:-KEPT_EPHEMERALS]
        self.changed.strike()
        return ts

    def set_status(self, channel: str, thread_ts: str, text: str) -> None:
        if text:
            self._statuses[channel, thread_ts] = Status(text, self.clock() + STATUS_SECONDS)
        else:
            self._statuses.pop((channel, thread_ts), None)
        self.changed.strike()

    def status(self, channel: str, thread_ts: str) -> str:
        status = self._statuses.get((channel, thread_ts))
        return status.text if status and status.until > self.clock() else ""

    def direct(self, person: Person) -> tuple[Conversation, bool]:
        """The direct message of the bot with a person, and whether it was there already."""
        name = f"@{person.name}"
        for conversation in self.store.conversations.values():
            if conversation.kind is ChannelKind.DIRECT and conversation.name == name:
                return conversation, True
        suffix = person.id.removeprefix("U0")
        new = Conversation(
            id=f"D0{suffix}", name=name, kind=ChannelKind.DIRECT, members=(person.id, BOT_USER_ID), created=int(self.clock())
        )
        self.store.set_conversation(new)
        return new, False

    def set_member(self, channel: str, user: str, *, member: bool) -> None:
        conversation, who = self.conversation(channel), self.person(user).id
        others = tuple(m for m in conversation.members if m != who)
        self.store.set_conversation(replace(conversation, members=(*others, who) if member else others))

    # -- parts --------------------------------------------------------------------------------------------------------
    def _add(self, conversation: Conversation, fields: Json, *, ts: str | None, deliver: bool) -> Message:
        message = {"type": "message", **fields, "ts": ts or self.store.next_ts(conversation.id)}
        message["team"] = message.get("user_team", TEAM_ID)
        self.store.put(conversation.id, message)
        shown = self.store.shown(conversation.id, message["ts"])
        self._tell(slack_events.posted(conversation, shown) if deliver else [])
        return message

    def _put_change(
        self, conversation: Conversation, new: Message, *, events: ChangeEvents = slack_events.edited, deliver: bool = True
    ) -> Message:
        before = self.store.shown(conversation.id, new["ts"])
        self.store.change(conversation.id, new)
        after = self.store.shown(conversation.id, new["ts"])
        told = self.store.next_ts(conversation.id)
        self._tell(events(conversation, after, before, ts=told) if deliver else [])
        return new

    def _bury(self, conversation: Conversation, deleted: Mapping[str, Any]) -> None:
        root = deleted.get("thread_ts", deleted["ts"])
        stone = self.store.get(conversation.id, root)
        if stone and stone.get("subtype") == "tombstone" and not self.store.reply_ts(conversation.id, root):
            self.store.remove(conversation.id, root)

    def _tell(self, events: list[Json]) -> None:
        if len(events) == 2:
            first = self._script.mention_first or self._chance.choice(("message", "app_mention"))
            events = sorted(events, key=lambda e: e["type"] != first)
        for event in events:
            channel = event["channel"] if "channel" in event else event["item"]["channel"]
            self._send(slack_events.callback(event, shared=self.store.conversations[channel].shared))
        self.changed.strike()

    def _threads_of(self, conversation: Conversation) -> str:
        roots = [m["ts"] for m in self.store.timeline(conversation.id)][-5:]
        return f"Its newest threads: {', '.join(roots)}." if roots else "Nothing was said there yet."


def _author(person: Person, subtype: str | None) -> Json:
    if subtype == "bot_message":
        return {"bot_id": person.bot_id or "B0UNKNOWN", "username": person.display_name}
    of = {"user_team": person.team, "source_team": person.team} if person.team else {}
    return {"user": person.id, **of} | ({"bot_id": person.bot_id} if person.is_bot else {"client_msg_id": str(uuid.uuid4())})


def _profile() -> Json:
    return {"id": BOT_ID, "app_id": APP_ID, "name": "insomnia", "team_id": TEAM_ID, "deleted": False}


def _tombstone(old: Message) -> Message:
    kept: Json = {k: old[k] for k in ("type", "ts", "thread_ts", "team") if k in old}
    return {**kept, "subtype": "tombstone", "user": SLACKBOT_ID, "text": "This message was deleted.", "hidden": True}


def _listed(conversation: Conversation) -> str:
    return conversation.name if conversation.kind is ChannelKind.DIRECT else f"#{conversation.name}"
