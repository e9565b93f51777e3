"""`_usage/events.jsonl`: which records are really read, and by whom; it may feed the tidying of the store.

What must stay true: one write a line, at the end of the file, its owner's alone; no text of a person is in it; a line that
cannot be written is counted and said on stderr, and never stops who reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from telemetry.jsonl_file import AppendFile
from telemetry.memory_events import RecordUsed
from telemetry.troubles import Troubles

VERSION = 1
NAME = "events.jsonl"
MAX_FOUND = 20  # what comes later in a list is hardly looked at


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
            file = AppendFile(self._folder, NAME)
            try:
                file.append(f"{json.dumps(event)}\n".encode())
            finally:
                file.close()
