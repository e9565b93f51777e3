"""Which files there are: one a day and stream, `current.log` beside them, and how long they stay.

What must stay true: only files that bear our name to the letter are ever removed or followed; `current.log` moves only
forward, or a follower would be sent back and forth around midnight. Days are UTC days. Imports nothing slow: the command
line reads the same files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from telemetry.names import Stream

CURRENT = "current.log"
KEEP_DAYS = 90
DAY_NS = 86_400 * 10**9

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


def point_current(folder: Path, stream: Stream, day: date, *, today: date) -> None:
    """Moves `current.log` to that day, unless it is there or further on. Raises OSError.

    A link into the future, from a day on which the clock was wrong, is no "further on": it would stand still for ever.
    """
    link = folder / CURRENT
    now_at = _linked_day(link, stream)
    if now_at is not None and day <= now_at <= max(day, today) + timedelta(days=1):
        return
    # Another process may do the same: each makes a link of its own, and the last rename wins with the same content.
    fresh = folder / f".{CURRENT}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(file_name(stream, day))
    fresh.replace(link)


def _linked_day(link: Path, stream: Stream) -> date | None:
    """Raises OSError where something else than a link has taken the name: it is not ours to replace."""
    try:
        if not stat.S_ISLNK(link.lstat().st_mode):
            raise FileExistsError(f"{link} is not a link")
        return day_in(os.readlink(link), stream)
    except FileNotFoundError:
        return None


def sweep(folder: Path, stream: Stream, *, today: date, keep_days: int = KEEP_DAYS) -> Iterator[str]:
    """Removes and yields the files of days longer ago than `keep_days`. Raises OSError."""
    for day, name in day_files(folder, stream):
        if day < today - timedelta(days=keep_days):
            (folder / name).unlink(missing_ok=True)
            yield name
