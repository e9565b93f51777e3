"""What the embedded workspace is made of: people, conversations, messages, and the ids of the bot in it.

A message is Slack's own JSON object. It is never changed in place: every change puts a new object, so an event that
was built from the old one stays true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bot.messages import ChannelKind

Json = dict[str, Any]
Message = Json
Clock = Callable[[], float]  # seconds since the epoch, ten digits: ts are compared as strings of equal width

TEAM_ID, TEAM_NAME = "T0EMBEDDED", "Embedded"
APP_ID, BOT_ID, BOT_USER_ID = "A0INSOMNIA", "B0INSOMNIA", "U0INSOMNIA"
SLACKBOT_ID = "USLACKBOT"

_TS = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,6}))?")
_MENTION = re.compile(rf"<@{BOT_USER_ID}(?:\|[^<>]*)?>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """`name` is the handle that can be typed after an @. `bot_id` is set for bots only, `team` for people of other workspaces."""

    id: str
    name: str
    display_name: str
    real_name: str
    bot_id: str = ""
    default: bool = False
    team: str = ""

    @property
    def is_bot(self) -> bool:
        return bool(self.bot_id)

    def answers_to(self, word: str) -> bool:
        names = (self.id, self.name, self.display_name, self.real_name, self.bot_id)
        return bool(word) and word.lower() in {n.lower() for n in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A channel or a direct message; the name of a direct message is `@` and the person's handle.

    `shared`: with another organization.
    """

    id: str
    name: str
    kind: ChannelKind
    members: tuple[str, ...]
    created: int = 0
    topic: str = ""
    archived: bool = False
    default: bool = False
    shared: bool = False

    @property
    def has_bot(self) -> bool:
        return BOT_USER_ID in self.members

    @property
    def channel_type(self) -> str:
        return {ChannelKind.PUBLIC: "channel", ChannelKind.PRIVATE: "group", ChannelKind.DIRECT: "im"}[self.kind]


def person_record(person: Person) -> Json:
    return {"kind": "person", "person": asdict(person)}


def conversation_record(conversation: Conversation) -> Json:
    return {"kind": "conversation", "conversation": asdict(conversation)}


def conversation_from(stored: Mapping[str, Any]) -> Conversation:
    return Conversation(**{**stored, "kind": ChannelKind(stored["kind"]), "members": tuple(stored["members"])})


def micros(ts: str) -> int:
    """A ts as a number that can be compared. Raises ValueError for anything that is none."""
    found = _TS.fullmatch(ts)
    if not found:
        raise ValueError(f"not a ts: {ts!r}")
    return int(found[1]) * 1_000_000 + int((found[2] or "").ljust(6, "0"))


def ts_of(number: int) -> str:
    return f"{number // 1_000_000:010d}.{number % 1_000_000:06d}"


def mentions_bot(text: str | None) -> bool:
    return bool(_MENTION.search(text or ""))
