"""One stream of lines: its file of the day, its numbers, and the lines it writes about itself.

Not for several threads: `jsonl` holds the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from telemetry.jsonl_days import CURRENT, day_of, file_name, point_current, sweep, timestamp
from telemetry.jsonl_file import AppendFile, Replaced
from telemetry.jsonl_line import VERSION, LineFormatter
from telemetry.names import Event, Stream


@dataclass(slots=True)
class Counts:
    lines: int = 0
    dropped: int = 0
    repaired: int = 0


@dataclass(slots=True)
class _Gap:
    """Lines lost since the last line that was written; `since` and `until`: when the first and the last of them were."""

    dropped: int
    since: int
    until: int
    error: str


class LineStream:
    def __init__(
        self, stream: Stream, folder: Path, *, keep_days: int, now: Callable[[], int], complain: Callable[[str, str], None]
    ) -> None:
        self.counts = Counts()
        self._stream = stream
        self._folder, self._current = folder, folder / CURRENT
        self._keep_days = keep_days
        self._now = now
        self._complain = complain
        self._format = LineFormatter()
        self._file: AppendFile | None = None
        self._day = date.min
        self._linked = False
        self._swept = date.min
        self._pid = os.getpid()
        self._seq = 0
        self._gap: _Gap | None = None
        self._untold_repairs = 0

    def write(self, fields: Mapping[str, object], *, at: int) -> None:
        """`at` in nanoseconds, the event's own time. Raises OSError where it cannot; the line is then not in the file."""
        self._tell_gap(at)
        self._put(fields, at)
        self._tell_repairs(at)

    def drop(self, error: Exception) -> None:
        """Counts a line that could not be written; its own time may be what was wrong with it, so the clock's is told."""
        self.counts.dropped += 1
        at = self._now()
        what = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else type(error).__name__
        if self._gap is None:
            self._gap = _Gap(dropped=0, since=at, until=at, error=what)
        self._gap.dropped += 1
        self._gap.until = max(self._gap.until, at)
        self._complain(
            f"{self._stream} log {what}",
            f"lines of the {self._stream} log are lost ({type(error).__name__}: {error}); "
            "they are counted, and the log will tell how many once it can be written again",
        )

    def sync(self) -> bool:
        try:
            if self._file:
                self._file.sync()
        except OSError as error:
            self._complain(f"{self._stream} log sync", f"the {self._stream} log cannot be brought onto the disk: {error}")
            return False
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it was said when they were lost
            self._tell_gap(self._now())
        self._close()

    def after_fork(self) -> None:
        """The parent tells of its own losses; the file is opened anew, since a shared one would share its position."""
        self.counts = Counts()
        self._pid, self._seq, self._gap, self._untold_repairs = os.getpid(), 0, None, 0
        self._close()

    def _put(self, fields: Mapping[str, object], at: int) -> None:
        self._seq += 1  # a number is spent on a line that is lost, too: readers see that one is missing
        line = self._format.line({**fields, "pid": self._pid, "seq": self._seq, "v": VERSION})
        try:
            closed_another = self._file_of(day_of(at)).append(line)
        except Replaced:
            self._close()
            closed_another = self._file_of(day_of(at)).append(line)
        self.counts.lines += 1
        if closed_another:
            self.counts.repaired += 1
            self._untold_repairs += 1

    def _file_of(self, day: date) -> AppendFile:
        if self._file is None or day != self._day:
            self._close()
            self._file = AppendFile(self._folder, file_name(self._stream, day))
            self._day, self._linked = day, False
        if not (self._linked and os.path.lexists(self._current)):
            self._keep_house(day)
        return self._file

    def _keep_house(self, day: date) -> None:
        """Nothing that a line should be lost for; what could not be done is tried again with the next one."""
        today = day_of(self._now())
        try:
            self._linked = point_current(self._folder, self._stream, day, today=today)
            if today != self._swept:  # a clock that was set back has to be swept by as well
                self._swept = today
                list(sweep(self._folder, self._stream, today=today, current=day, keep_days=self._keep_days))
        except OSError as error:
            self._complain(f"{self._stream} log folder", f"{self._folder} could not be kept in order: {error}")

    def _tell_gap(self, at: int) -> None:
        if self._gap is None:
            return
        gap, told = self._gap, {"dropped": self._gap.dropped, "since": timestamp(self._gap.since), "until": timestamp(self._gap.until)}
        words = "1 line was lost" if gap.dropped == 1 else f"{gap.dropped} lines were lost"
        self._put({**_head(Event.LOG_GAP, f"{words} ({gap.error})", at), **told, "error": gap.error}, at)
        self._gap = None

    def _tell_repairs(self, at: int) -> None:
        if self._untold_repairs == 0:
            return
        told, words = self._untold_repairs, "a line that had broken off was closed; what it told is lost"
        with contextlib.suppress(OSError):  # told with the next line instead
            self._put({**_head(Event.LOG_REPAIRED, words, at), "repaired": told}, at)
            self._untold_repairs -= told

    def _close(self) -> None:
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None


def _head(event: Event, summary: str, at: int) -> dict[str, object]:
    return {"ts": timestamp(at), "event": event.value, "level": "warn", "summary": summary}
