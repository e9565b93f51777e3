"""Everything said in the embedded workspace, in memory and in one journal on disk.

What must stay true: a ts is unique within its channel and grows strictly (in two channels the same one may occur); a
reply always has its root, if only as a tombstone; whatever was said before the process ended is there after it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.local import slack_journal
from bot.local.slack_records import (
    Clock,
    Conversation,
    Json,
    Message,
    Person,
    conversation_from,
    conversation_record,
    micros,
    person_record,
    ts_of,
)

FILE_NAME = "workspace.jsonl"


@dataclass(slots=True)
class _Room:
    messages: dict[str, Message] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # every ts, sorted
    replies: dict[str, list[str]] = field(default_factory=dict)  # root ts -> ts of its replies, sorted
    newest: int = 0  # the largest ts ever seen, deleted ones included


class Store:
    """`opening` gives the records of a workspace that does not exist yet; it is asked once in the life of the folder."""

    def __init__(self, folder: Path, *, clock: Clock, opening: Callable[[], Iterable[Json]]) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        path = folder / FILE_NAME
        if not path.exists():
            slack_journal.create(path, opening())
        self._clock = clock
        self.people: dict[str, Person] = {}
        self.conversations: dict[str, Conversation] = {}
        self._rooms: dict[str, _Room] = {}
        self._journal = slack_journal.Journal(path)
        for record in self._journal.records:
            self._apply(record)
        self._journal.records.clear()

    def close(self) -> None:
        self._journal.close()

    # -- writing ------------------------------------------------------------------------------------------------------
    def add_person(self, person: Person) -> None:
        self._write(person_record(person))

    def set_conversation(self, conversation: Conversation) -> None:
        self._write(conversation_record(conversation))

    def put(self, channel: str, message: Message) -> None:
        """Raises ValueError for a ts that the channel has already, and for a reply to a thread that is not there."""
        room, root = self._rooms[channel], message.get("thread_ts")
        micros(message["ts"])
        if message["ts"] in room.messages:
            raise ValueError(f"{channel} has a message {message['ts']} already")
        if root is not None and root != message["ts"] and root not in room.messages:
            raise ValueError(f"{channel} has no thread {root}")
        self._write({"kind": "message", "channel": channel, "message": message})

    def change(self, channel: str, message: Message) -> None:
        self._write({"kind": "change", "channel": channel, "message": message})

    def remove(self, channel: str, ts: str) -> None:
        self._write({"kind": "delete", "channel": channel, "ts": ts})

    def next_ts(self, channel: str) -> str:
        """Also for events that are no message: each one gets a ts of its own."""
        room = self._rooms[channel]
        room.newest = max(int(self._clock() * 1_000_000), room.newest + 1)
        return ts_of(room.newest)

    # -- reading ------------------------------------------------------------------------------------------------------
    def get(self, channel: str, ts: str) -> Message | None:
        return self._rooms[channel].messages.get(ts)

    def messages(self, channel: str, *, after: str = "") -> Iterator[Message]:
        """All of a channel, replies included, oldest first."""
        room = self._rooms[channel]
        for ts in room.order[bisect_left(room.order, after) :]:
            if ts != after:
                yield room.messages[ts]

    def root_ts(self, channel: str, ts: str) -> str | None:
        """The thread that a ts belongs to: the root's ts or any reply's will do. None: no such message."""
        message = self._rooms[channel].messages.get(ts)
        return None if message is None else message.get("thread_ts", ts)

    def reply_ts(self, channel: str, root: str) -> list[str]:
        return list(self._rooms[channel].replies.get(root, ()))

    def thread(self, channel: str, root: str) -> list[Message]:
        """Root first, as Slack shows them; the metadata of each is included."""
        return [self.shown(channel, ts) for ts in (root, *self.reply_ts(channel, root))]

    def timeline(self, channel: str) -> list[Message]:
        """What stands in the channel itself: roots and replies that were sent to the channel too, oldest first."""
        return [self.shown(channel, m["ts"]) for m in self.messages(channel) if _in_channel(m)]

    def shown(self, channel: str, ts: str) -> Message:
        """A message with what Slack derives: counts on a root that has replies, the root's author on a reply."""
        room = self._rooms[channel]
        message, root = room.messages[ts], room.messages[ts].get("thread_ts", ts)
        if root != ts:
            return {**message, "parent_user_id": room.messages[root].get("user", "")}
        if not (replies := room.replies.get(ts)):
            return dict(message)
        users = list(dict.fromkeys(room.messages[r].get("user") or room.messages[r].get("bot_id", "") for r in replies))
        counts = {"reply_count": len(replies), "reply_users": users[:5], "reply_users_count": len(users), "latest_reply": replies[-1]}
        return {**message, "thread_ts": ts, **counts, "is_locked": False, "subscribed": False}

    # -- journal ------------------------------------------------------------------------------------------------------
    def _write(self, record: Json) -> None:
        self._journal.append(record)
        self._apply(record)

    def _apply(self, record: Json) -> None:
        match record:
            case {"kind": "person", "person": dict(fields)}:
                self.people[fields["id"]] = Person(**fields)
            case {"kind": "conversation", "conversation": dict(fields)}:
                self.conversations[fields["id"]] = conversation_from(fields)
                self._rooms.setdefault(fields["id"], _Room())
            case {"kind": "message", "channel": str(channel), "message": dict(message)}:
                self._insert(self._rooms[channel], message)
            case {"kind": "change", "channel": str(channel), "message": dict(message)}:
                self._rooms[channel].messages[message["ts"]] = message
            case {"kind": "delete", "channel": str(channel), "ts": str(ts)}:
                self._drop(self._rooms[channel], ts)

    def _insert(self, room: _Room, message: Message) -> None:
        ts: str = message["ts"]
        root: str = message.get("thread_ts", ts)
        room.messages[ts] = message
        insort(room.order, ts)
        if root != ts:
            insort(room.replies.setdefault(root, []), ts)
        room.newest = max(room.newest, micros(ts))

    def _drop(self, room: _Room, ts: str) -> None:
        message = room.messages.pop(ts)
        room.order.remove(ts)
        root = message.get("thread_ts", ts)
        if root != ts:
            room.replies[root].remove(ts)


def _in_channel(message: dict[str, Any]) -> bool:
    return message.get("thread_ts", message["ts"]) == message["ts"] or message.get("subtype") == "thread_broadcast"
