"""What the bot knows of Slack, as plain values: a message of a thread, and a message that it has to answer.

`Said` is any message of a thread as it is shown to the model. Its text is plain: entities resolved, own mention tag
removed, text of blocks, attachments and files merged in. `digest` decides whether a session was shown this very text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from telemetry.events import Decision, Injection, Reason, Thread

MOST_DEATHS = 3  # of the bot over one message: a third one by chance is rare, and a bot that dies for ever helps nobody


class Role(StrEnum):
    PERSON = "person"
    BOT = "bot"
    OWN = "you"


class ChannelKind(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"
    DIRECT = "dm"


class Change(StrEnum):
    """What happened to a message since the session could have seen it."""

    POSTED = "posted"
    EDITED = "edited"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """`name` is what people see; it is neutralised only when it is put into a prompt."""

    id: str
    name: str
    role: Role = Role.PERSON
    verified: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a thread. `ts` is Slack's, a string; compare as strings."""

    ts: str
    speaker: Speaker
    text: str
    change: Change = Change.POSTED

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    id: str
    name: str
    kind: ChannelKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One accepted message, to be answered once. `row` is its place in the inbox; `body` is Slack's own message object as
    it stood when its turn came; `attempt` counts from 1; `deaths`: of the bot, while it was answering this one."""

    row: int
    thread: Thread
    ts: str
    user: str
    body: Mapping[str, Any]
    channel: Channel
    route: str
    key: str
    accepted_at: float
    attempt: int = 1
    deaths: int = 0

    @property
    def opens_thread(self) -> bool:
        return self.ts == self.thread.ts


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSummary:
    """What the reply's metadata tells of the gate: `{decision, reason, injection, messages, omitted}`."""

    decision: Decision
    reason: Reason
    injection: Injection | None = None
    messages: int = 0
    omitted: int = 0
