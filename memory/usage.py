"""`_usage/events.jsonl`: which records are really read, and by whom; the tidying of the store heeds it.

What must stay true: one write a line, at the end of the file, its owner's alone; no text of a person is in it; a line that
cannot be written is counted and said on stderr, and never stops who reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memory.disk import no_links
from memory.store_view import Key
from telemetry.jsonl_file import AppendFile
from telemetry.memory_events import MemoryWorker, RecordKind, RecordUsed
from telemetry.troubles import Troubles

VERSION = 1
NAME = "events.jsonl"
MAX_FOUND = 20  # what comes later in a list is hardly looked at
USED_FOUND = 3  # of what a query showed; the rest was only listed
USED_SECONDS = 90 * 86_400.0
TAIL_BYTES = 4 * 1024 * 1024  # of the file; some 20,000 readings
_WORKERS = frozenset(worker.value for worker in MemoryWorker)


class UsageLog:
    def __init__(self, root: Path, *, now: Callable[[], float], troubles: Troubles) -> None:
        """`root` is `.insomnia`; `now` in seconds since the epoch."""
        self._folder, self._now, self._troubles = root / "memory" / "_usage", now, troubles

    def keep(self, used: RecordUsed, found: Sequence[str]) -> None:
        """`found`: `kind/slug` of what was read, or shown, best first. Never raises."""
        event = {
            "v": VERSION,
            "ts": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z",
            "op": used.op,
            "status": used.status,
            "results": used.results,
            "found": list(found[:MAX_FOUND]),
            "caller": used.caller,
            **({"run_id": used.run_id} if used.run_id else {}),
        }
        with self._troubles.caught("memory usage"):
            no_links(self._folder.parent, ("", self._folder.name))
            file = AppendFile(self._folder, NAME)
            try:
                file.append(f"{json.dumps(event)}\n".encode())
            finally:
                file.close()

    def used_lately(self) -> frozenset[Key]:
        """Records that were read, or shown among the first, by anybody but the workers in the last 90 days. What cannot be read of
        the file counts for nothing.
        """
        since = datetime.fromtimestamp(max(0.0, self._now() - USED_SECONDS), UTC).isoformat(timespec="milliseconds")
        return frozenset(key for line in self._tail().split(b"\n") for key in _used(line, since))

    def _tail(self) -> bytes:
        try:
            with open(os.open(self._folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                return file.read(TAIL_BYTES)
        except OSError:
            return b""


def _used(line: bytes, since: str) -> Iterator[Key]:
    try:
        event = json.loads(line)
        if str(event["ts"]) < since or event["caller"] in _WORKERS:
            return
        for name in event["found"][:USED_FOUND]:
            kind, _, slug = str(name).partition("/")
            yield RecordKind(kind), slug
    except (ValueError, TypeError, KeyError, RecursionError):
        return
