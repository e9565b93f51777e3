"""Which files there are: one a day and stream, `current.log` beside them, and how long they stay.

What must stay true: only files that bear our name to the letter are ever removed or followed; `current.log` moves only
forward, or a follower would be sent back and forth around midnight. Days are UTC days. Imports nothing slow: the command
line reads the same files.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from telemetry.names import Stream
from telemetry.retention import present_day

CURRENT = "current.log"
KEEP_DAYS = 90
DAY_NS = 86_400 * 10**9

_LOCK = f".{CURRENT}.lock"
_EPOCH = date(1970, 1, 1)


def log_folders(state: Path) -> dict[Stream, Path]:
    """Below `.insomnia`."""
    return {Stream.BOT: state / "logs", Stream.MEMORY: state / "memory" / "_logs"}


def day_of(at: int) -> date:
    """`at` in nanoseconds since the epoch."""
    return _EPOCH + timedelta(days=at // DAY_NS)


def timestamp(at: int) -> str:
    """RFC 3339 in UTC, to the millisecond; cut off, not rounded, so that it never falls on another day than `day_of`."""
    seconds, rest = divmod(at, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 10**6:03}Z"


def file_name(stream: Stream, day: date) -> str:
    return f"{stream.value}-{day.isoformat()}.log"


def day_in(name: str, stream: Stream) -> date | None:
    """None where this is not exactly a name of ours."""
    found = re.fullmatch(rf"{stream.value}-(\d{{4}}-\d\d-\d\d)\.log", name, re.ASCII)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def day_files(folder: Path, stream: Stream) -> list[tuple[date, str]]:
    """Oldest first. Raises OSError where the folder cannot be listed; one that is not there is empty."""
    try:
        with os.scandir(folder) as entries:
            regular = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted((day, name) for name in regular if (day := day_in(name, stream)))


def point_current(folder: Path, stream: Stream, day: date, *, today: date) -> bool:
    """Moves `current.log` to that day, unless it is there or further on. Raises OSError.

    False: another process is moving it at this moment, and nobody waits for that one; try again with the next line.
    A link into the future, from a day on which the clock was wrong, is no "further on": it would stand still for ever.
    """
    if day > today + timedelta(days=1) or _is_there(folder, stream, day, today):
        return True
    # Between a look and a rename of its own, a process that is late could turn back what another one had moved.
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_there(folder, stream, day, today):
            fresh = folder / f".{CURRENT}.new"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(file_name(stream, day))
            fresh.replace(folder / CURRENT)
        fcntl.flock(lock, fcntl.LOCK_UN)  # not left to `close`: a child forked at this moment would hold it on
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _is_there(folder: Path, stream: Stream, day: date, today: date) -> bool:
    linked = _linked_day(folder / CURRENT, stream)
    return linked is not None and day <= linked <= max(day, today) + timedelta(days=1)


def _linked_day(link: Path, stream: Stream) -> date | None:
    """Raises OSError where something else than a link has taken the name: it is not ours to replace."""
    try:
        if not stat.S_ISLNK(link.lstat().st_mode):
            raise FileExistsError(f"{link} is not a link")
        return day_in(os.readlink(link), stream)
    except FileNotFoundError:
        return None


def sweep(folder: Path, stream: Stream, *, today: date, current: date, keep_days: int = KEEP_DAYS) -> Iterator[str]:
    """Removes and yields the files of days longer ago than `keep_days`, but never the one being written. Raises OSError.

    `today` is the clock's word, and not believed before the files bear it out (see `retention`).
    """
    there = day_files(folder, stream)
    oldest = present_day((day for day, _ in there), today) - timedelta(days=keep_days)
    for day, name in there:
        if day < oldest and day != current:
            (folder / name).unlink(missing_ok=True)
            yield name
