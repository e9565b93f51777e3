"""The session log as extract reads it: whole lines of it, as entries, from a place on.

The format is that of `design/architecture.md` 4; the log belongs to somebody else and may be torn, huge, cut short or
replaced. What must stay true: memory stays bounded whatever lies in the file; a line that is no entry is skipped and counted,
never guessed at; the last line counts only once its newline is there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telemetry.memory_events import MemoryWorker

FORMAT = 1
MAX_LINE_BYTES = 4 * 1024 * 1024  # Slack takes 40,000 characters; a line beyond this is no message
MAX_SEQ = 10**12  # what is beyond counts nothing, and is read under its place
_CHUNK = 256 * 1024
_READ_KINDS = frozenset({"user", "assistant", "tool_call", "tool_result"})
_WORKERS = frozenset(worker.value for worker in MemoryWorker)


class LogUnreadable(Exception):
    """The text is in our own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """`end`: the byte after its line; `sha256` of the line. `text` is empty where nothing of it is read."""

    seq: int
    ts: str
    kind: str
    route: str
    channel: str
    speaker: str
    speaker_name: str
    trust: str
    text: str
    trace_id: str
    end: int
    sha256: str

    @property
    def readable(self) -> bool:
        """Injected text, summaries and what workers said themselves are left out: a memory must not feed on itself."""
        return self.kind in _READ_KINDS and self.route not in _WORKERS

    @property
    def citable(self) -> bool:
        return self.readable and self.kind != "tool_result" and bool(self.text.strip())


@dataclass(slots=True)
class Skipped:
    """Lines that are no entries."""

    lines: int = 0


@contextmanager
def opened(path: Path) -> Iterator[int | None]:
    """A descriptor; None: there is no log. Raises LogUnreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise LogUnreadable(f"the session log cannot be opened ({_name(error)})") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise LogUnreadable("the session log is not a plain file")
        yield fd
    except OSError as error:
        raise LogUnreadable(f"the session log cannot be read ({_name(error)})") from error
    finally:
        os.close(fd)


def entries(fd: int, offset: int, skipped: Skipped) -> Iterator[LogEntry]:
    """From a byte on that begins a line. Raises OSError."""
    for end, line in _lines(fd, offset):
        entry = _entry(line, end) if line is not None else None
        if entry is not None:
            yield entry
        elif line is None or line.strip():
            skipped.lines += 1


def line_sha256(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _lines(fd: int, offset: int) -> Iterator[tuple[int, bytes | None]]:
    """Each whole line with the byte after it; None for one that is too long."""
    rest, too_long, at = b"", False, offset
    while chunk := os.pread(fd, _CHUNK, at):
        at += len(chunk)
        start = at - len(chunk) - len(rest)
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            start += len(line) + 1
            yield start, None if too_long or len(line) > MAX_LINE_BYTES else line
            too_long = False
        if len(rest) > MAX_LINE_BYTES:
            rest, too_long = b"", True


def _entry(line: bytes, end: int) -> LogEntry | None:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or read.get("v") != FORMAT or type(read.get("seq")) is not int or read["seq"] < 0:
        return None
    kind, route = _text(read, "kind"), _text(read, "route")
    thread, speaker = _object(read, "thread"), _object(read, "speaker")
    return LogEntry(
        seq=read["seq"] if read["seq"] < MAX_SEQ else 0,
        ts=_text(read, "ts"),
        kind=kind,
        route=route,
        channel=_text(thread, "channel"),
        speaker=_text(speaker, "id"),
        speaker_name=_text(speaker, "name"),
        trust=_text(read, "trust"),
        text=_text(read, "text") if kind in _READ_KINDS else "",
        trace_id=_text(read, "trace_id"),
        end=end,
        sha256=line_sha256(line),
    )


def _text(read: dict[str, Any], key: str) -> str:
    """Lone surrogates, which JSON can carry, would fail where they are written."""
    value = read.get(key)
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _object(read: dict[str, Any], key: str) -> dict[str, Any]:
    value = read.get(key)
    return value if isinstance(value, dict) else {}


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "OSError")
