"""The session log: what went in and out of one Claude session, one JSON object a line, append only.

It is the source that the memory workers read, and what `build_context_summary` puts in front of a fresh session. Each
line is one write; a torn last line, left by a crash, is closed before the next append and skipped by readers.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Any

from bot.messages import Role, Said, Speaker
from bot.ports import Clock
from bot.quoting import quote_line, said_line
from telemetry.events import Thread, TraceRef

FORMAT = 1
SUMMARY_CHARS = 6_000  # a third of what a thread may take: the summary serves all threads, the next re-read serves one
SUMMARY_ENTRY_CHARS = 1_000
EXTERNAL = "external"  # the trust of text by those who may not tell the bot what to do
TAIL_BYTES = 512 * 1024  # of a log that a summary looks at; far more than SUMMARY_CHARS can hold


class EntryKind(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    INJECTED = "injected"
    SUMMARY = "summary"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`trust`: `person` for who may use the bot, `external` for other text, `own` for the bot's. Times: seconds since the epoch."""

    kind: EntryKind
    text: str
    epoch: int
    thread: Thread | None = None
    message_ts: str = ""
    speaker: Speaker | None = None
    trust: str = "own"
    trace: TraceRef | None = None


class SessionLog:
    """The log of one session id. `seq` goes on where the file ends."""

    def __init__(self, folder: Path, *, route: str, session_id: str, clock: Clock) -> None:
        self.path = folder / f"{session_id}.jsonl"
        self._route, self._session_id, self._clock = route, session_id, clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._seq = _last_seq(self.path)

    def append(self, entry: Entry) -> None:
        """One write of one line; raises OSError when the disk does."""
        seq = self._seq + 1
        line = json.dumps(self._fields(entry, seq), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            whole = b"\n" + line if torn else line
            if os.write(fd, whole) < len(whole):  # a disk that fills up takes a part without a word
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(fd)
        self._seq = seq

    def _fields(self, e: Entry, seq: int) -> dict[str, Any]:
        at = datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "v": FORMAT,
            "seq": seq,
            "ts": at,
            "kind": e.kind.value,
            "route": self._route,
            "session_id": self._session_id,
            "epoch": e.epoch,
            "thread": {"team": e.thread.team, "channel": e.thread.channel, "ts": e.thread.ts} if e.thread else None,
            **({"message_ts": e.message_ts} if e.message_ts else {}),
            "speaker": {"id": e.speaker.id, "name": e.speaker.name, "role": e.speaker.role.value} if e.speaker else None,
            "trust": e.trust,
            "text": e.text,
            "trace_id": e.trace.trace_id if e.trace else "",
            "span_id": e.trace.span_id if e.trace else "",
        }


def read_entries(path: Path, *, tail: int | None = TAIL_BYTES) -> Iterator[dict[str, Any]]:
    """The whole lines within the last `tail` bytes (None: all), oldest first. Torn or foreign lines are skipped."""
    try:
        f = path.open("rb")
    except FileNotFoundError:
        return
    with f:
        size = f.seek(0, os.SEEK_END)
        start = max(0, size - tail - 1) if tail is not None else 0  # one before: a line that begins exactly there is whole
        f.seek(start)
        lines = f.read().split(b"\n")
    for line in lines[1:] if start else lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("v") == FORMAT:
            yield entry


def _last_seq(path: Path) -> int:
    """The tail is enough, unless one line fills it."""
    return next((last for tail in (TAIL_BYTES, None) if (last := max(map(_seq, read_entries(path, tail=tail)), default=0))), 0)


def _seq(entry: Mapping[str, Any]) -> int:
    seq = entry.get("seq")
    return seq if isinstance(seq, int) else 0


@dataclass(frozen=True, slots=True)
class Recalled:
    """One turn's text in a summary. `whole`: not shortened, so the session has really been shown this message."""

    thread: Thread
    said: Said
    whole: bool


def build_context_summary(folder: Path, *, without: Thread, total: int = SUMMARY_CHARS) -> list[Recalled]:
    """The newest turns of the route, oldest first, made without a model call; as lines they take `total` characters at most.

    `without`: the thread being answered, which is read in whole beside it. Only what was said to the bot and by it: what
    was injected is read again when its thread comes up. A message that was asked in two sessions stands once.
    """
    found: dict[tuple[Thread, str], Recalled] = {}
    for entry in _newest_first(folder):
        recalled = _recall(entry)
        if recalled is None or recalled.thread == without or (recalled.thread, recalled.said.ts) in found:
            continue
        total -= len(summary_line(recalled, UTC)) + 1
        if total < 0:
            break
        found[recalled.thread, recalled.said.ts] = recalled
    return list(found.values())[::-1]


def summary_line(recalled: Recalled, tz: tzinfo) -> str:
    return f"{quote_line(str(recalled.thread))} {said_line(recalled.said, tz)}"


def _newest_first(folder: Path) -> Iterator[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    for path in files:
        yield from reversed(list(read_entries(path)))


def _recall(e: dict[str, Any]) -> Recalled | None:
    if e.get("kind") not in (EntryKind.USER, EntryKind.ASSISTANT) or not e.get("message_ts"):
        return None
    try:
        thread, speaker, text = e["thread"], e["speaker"], str(e["text"])
        by = Thread(str(thread["team"]), str(thread["channel"]), str(thread["ts"]))
        verified = e.get("trust") != EXTERNAL
        who = Speaker(id=str(speaker["id"]), name=str(speaker["name"]), role=Role(speaker["role"]), verified=verified)
    except (KeyError, TypeError, ValueError):
        return None  # a foreign line, or nobody's
    whole = len(text) <= SUMMARY_ENTRY_CHARS
    said = Said(ts=str(e["message_ts"]), speaker=who, text=text if whole else text[:SUMMARY_ENTRY_CHARS] + " …")
    return Recalled(by, said, whole)
