"""Reads the log files back, and goes on reading what is appended to them.

What must stay true: every line is handed out once, in the order of its file, whatever happens to the files meanwhile: a new
day, a late line of the old one, a file cut short, replaced or removed. What cannot be read is handed out as that and never
hides the lines behind it. Imports nothing slow: the command line reads with it. (`current.log` is for others' tools: the
files of the days are looked for by name.)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from telemetry.jsonl_days import day_files
from telemetry.names import Stream

LONGEST = 1_000_000  # bytes; more than this without an end is no line, and is not kept in memory
_CHUNK = 1 << 16
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """`at`: its `ts`, which sorts as text; of a line that cannot be read (`fields` None) the one of the line before."""

    stream: Stream
    at: str
    text: str
    fields: Mapping[str, Any] | None


class LogReader:
    """One stream, from the file of the day `since` on. `last_bytes`: at first only about that much of each file's end.

    `today` (UTC): files of earlier days than the one before are read once and then let go.
    """

    def __init__(self, folder: Path, stream: Stream, *, since: date, today: Callable[[], date], last_bytes: int | None = None) -> None:
        self._folder, self._stream = folder, stream
        self._since, self._today = since, today
        self._last_bytes = last_bytes
        self._files: dict[str, _DayFile] = {}

    def new_lines(self) -> Iterator[LogLine]:
        """What was not handed out yet, oldest file first. Raises OSError where something cannot be read."""
        there = {name: day for day, name in day_files(self._folder, self._stream) if day >= self._since}
        for name in [name for name, file in self._files.items() if name not in there or file.is_replaced()]:
            yield from self._let_go(name)
        followed_from = self._today() - timedelta(days=1)
        for name, day in there.items():
            if file := self._file(name, day):
                yield from file.new_lines()
                if day < followed_from:
                    yield from self._let_go(name)
        self._since, self._last_bytes = max(self._since, followed_from), None

    def close(self) -> Iterator[LogLine]:
        """Hands out lines that were begun and never ended."""
        for name in list(self._files):
            yield from self._let_go(name)

    def _file(self, name: str, day: date) -> _DayFile | None:
        if name not in self._files:
            try:
                self._files[name] = _DayFile(self._folder / name, self._stream, day, last_bytes=self._last_bytes)
            except FileNotFoundError:  # removed since the folder was listed
                return None
        return self._files[name]

    def _let_go(self, name: str) -> Iterator[LogLine]:
        file = self._files.pop(name)
        yield from file.new_lines()
        yield from file.close()


class _DayFile:
    def __init__(self, path: Path, stream: Stream, day: date, *, last_bytes: int | None) -> None:
        self._path, self._stream = path, stream
        self._fd = os.open(path, _FLAGS)
        self._at = f"{day.isoformat()}T00:00:00.000Z"
        self._position = 0
        self._begun = b""
        self._in_the_middle = False  # of a line whose beginning is not read, or was too long to be one
        if last_bytes is not None and (behind := os.fstat(self._fd).st_size - last_bytes) > 0:
            self._position, self._in_the_middle = behind, True

    def is_replaced(self) -> bool:
        ours = os.fstat(self._fd)
        try:
            there = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def new_lines(self) -> Iterator[LogLine]:
        if os.fstat(self._fd).st_size < self._position:  # cut short: what stands there now is new
            yield from self._rest()
            self._position = 0
        while chunk := os.pread(self._fd, _CHUNK, self._position):
            self._position += len(chunk)
            *ended, self._begun = (self._begun + chunk).split(b"\n")
            for line in ended:
                if self._in_the_middle:
                    self._in_the_middle = False
                elif line.strip():
                    yield self._line(line)
            if len(self._begun) > LONGEST:
                yield from self._rest()
                self._in_the_middle = True

    def close(self) -> Iterator[LogLine]:
        os.close(self._fd)
        yield from self._rest()

    def _rest(self) -> Iterator[LogLine]:
        begun, self._begun = self._begun, b""
        if begun.strip() and not self._in_the_middle:
            yield self._line(begun)
        self._in_the_middle = False

    def _line(self, raw: bytes) -> LogLine:
        text = raw.decode("utf-8", "replace")
        fields = _fields(text)
        self._at = fields["ts"] if fields else self._at
        return LogLine(stream=self._stream, at=self._at, text=text, fields=fields)


def _fields(text: str) -> Mapping[str, Any] | None:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return None
    ours = isinstance(read, dict) and isinstance(read.get("event"), str) and _TS.fullmatch(str(read.get("ts")))
    return read if ours else None
