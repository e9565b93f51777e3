"""What a record is made of. To be imported from `memory.records`.

What must stay true: a value that can be made can be written as text and read back equal (`ValueError` at once otherwise).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from telemetry.memory_events import RecordKind

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_SLUG_CHARS = 64
MAX_ENTRY = 10**12  # entries of one session's log; a number that long is a mistake
SCOPE_ID = re.compile(r"[A-Za-z0-9]{1,64}")


class Status(StrEnum):
    """`OPEN`, `RESOLVED`: of what waits for an answer (request, question). `ACTIVE`, `STALE`: of what holds. `REPLACED`: of both."""

    OPEN = "open"
    RESOLVED = "resolved"
    ACTIVE = "active"
    STALE = "stale"
    REPLACED = "replaced"


class Trust(StrEnum):
    """Whose word a record rests on, the best first; of several sources the worst counts."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    EXTERNAL = "external"


class KnowledgeKind(StrEnum):
    TERM = "term"
    POLICY = "policy"
    RULE = "rule"
    FACT = "fact"
    HOWTO = "howto"


class ScopeKind(StrEnum):
    WORKSPACE = "workspace"
    CHANNEL = "channel"
    USER = "user"


_WAITING = frozenset({Status.OPEN, Status.RESOLVED, Status.REPLACED})
_HOLDING = frozenset({Status.ACTIVE, Status.STALE, Status.REPLACED})
STATUSES: Mapping[RecordKind, frozenset[Status]] = {
    kind: _WAITING if kind in (RecordKind.REQUEST, RecordKind.QUESTION) else _HOLDING for kind in RecordKind
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Where something was said and may be told again. A direct message is `user`: what a person says there stays there."""

    kind: ScopeKind
    id: str = ""

    def __post_init__(self) -> None:
        if (self.id and not SCOPE_ID.fullmatch(self.id)) or (self.kind is ScopeKind.WORKSPACE) != (not self.id):
            raise ValueError(f"a scope {self.kind} with the id {self.id!r}")

    @classmethod
    def workspace(cls) -> Scope:
        return cls(ScopeKind.WORKSPACE)

    @classmethod
    def channel(cls, channel_id: str) -> Scope:
        return cls(ScopeKind.CHANNEL, channel_id)

    @classmethod
    def user(cls, user_id: str) -> Scope:
        return cls(ScopeKind.USER, user_id)

    def admits(self, asking: Scope) -> bool:
        """Whether what has this scope may be shown at `asking`: a channel, a person's direct messages, or anywhere at all."""
        return self.kind is ScopeKind.WORKSPACE or self == asking

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" if self.id else str(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where it was said: entries `range` (first and last, both included) of a session's log, staged as `candidate`, said at `ts`."""

    session: str
    range: tuple[int, int]
    candidate: str
    ts: datetime

    def __post_init__(self) -> None:
        first, last = self.range
        if not (self.session and self.candidate and 0 <= first <= last < MAX_ENTRY):
            raise ValueError(f"a source without session or candidate, or with the range {self.range}")
        _check_text(self.session, self.candidate)
        _check_time(self.ts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`description` says when to read it. Times are aware and in whole seconds (ValueError otherwise); see `moment`.
    `run_id` is the run that wrote it last, empty when a person did. `knowledge_kind` is there exactly for knowledge.
    """

    kind: RecordKind
    slug: str
    title: str
    description: str
    status: Status
    scope: Scope
    trust: Trust
    body: str
    created_at: datetime
    updated_at: datetime
    pinned: bool = False
    sources: tuple[Source, ...] = ()
    replaced_by: str = ""
    run_id: str = ""
    knowledge_kind: KnowledgeKind | None = None

    def __post_init__(self) -> None:
        _check_time(self.created_at)
        _check_time(self.updated_at)
        _check_text(self.title, self.description, self.body, self.replaced_by, self.run_id)
        if self.updated_at < self.created_at:
            raise ValueError("a record that was changed before it was made")
        if (self.kind is RecordKind.KNOWLEDGE) != (self.knowledge_kind is not None):
            raise ValueError(f"a record of the kind {self.kind} with the knowledge_kind {self.knowledge_kind}")
        if self.status not in STATUSES[self.kind]:
            raise ValueError(f"a record of the kind {self.kind} with the status {self.status}")
        object.__setattr__(self, "body", self.body.strip("\n"))  # the file's own layout is not part of the text


def moment(epoch_seconds: float) -> datetime:
    """A time as records keep it: UTC, in whole seconds."""
    return datetime.fromtimestamp(int(epoch_seconds), UTC)


def is_slug(text: str) -> bool:
    return len(text) <= MAX_SLUG_CHARS and SLUG.fullmatch(text) is not None


def path_of(kind: RecordKind, slug: str) -> str:
    """Below `.insomnia`."""
    return f"knowledge/{slug}.md" if kind is RecordKind.KNOWLEDGE else f"memory/{kind}/{slug}.md"


def sha256(text: str | bytes) -> str:
    """Of a file's content, in hex."""
    return hashlib.sha256(text.encode("utf-8") if isinstance(text, str) else text).hexdigest()


def _check_time(time: datetime) -> None:
    if time.utcoffset() is None or time.microsecond:
        raise ValueError(f"{time.isoformat()} is not a whole second with a time zone")


def _check_text(*texts: str) -> None:
    for text in texts:
        text.encode("utf-8")  # UnicodeEncodeError, a ValueError, where half of a pair of surrogates stands
