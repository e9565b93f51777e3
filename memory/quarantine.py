"""Ranges that were put aside: where they stand, and why. Their text stays in the session log, and only there.

What must stay true: a range is put aside before the cursor passes it, under a name that a second try overwrites.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.disk import TEMPORARY, Disk, read_small, replace
from memory.ranges import Piece
from telemetry.memory_events import MemoryReason

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAside:
    """`first` and `last` entry, both included."""

    session_id: str
    first: int
    last: int


class Quarantine:
    """`state`: `.insomnia/memory/_state`. Raises OSError. Whoever writes holds the session's lock."""

    def __init__(self, state: Path, *, disk: Disk) -> None:
        self._folder, self._disk = state / "quarantined", disk

    def put(self, session_id: str, *, route: str, piece: Piece, why: MemoryReason, run_id: str, at: str) -> None:
        self._disk.mkdir(self._folder)
        about = {"session_id": session_id, "route": route, "range": piece.range, "why": why, "run_id": run_id, "at": at}
        path = self._folder / f"{session_id}.{piece.generation}.{piece.start:08d}.json"
        replace(self._disk, path, json.dumps({"v": FORMAT, **about}).encode() + b"\n")

    def all(self) -> Sequence[PutAside]:
        """Oldest session first; what cannot be read is left out."""
        found = []
        for path in sorted(self._folder.glob("[!.]*.json")):
            try:
                read = json.loads(read_small(path) or b"")
                first, last = read["range"]
                found.append(PutAside(session_id=str(read["session_id"]), first=int(first), last=int(last)))
            except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
                continue
        return found

    def sweep(self, session_id: str) -> None:
        """What a dead process left half written."""
        for left in self._folder.glob(f"{TEMPORARY}{session_id}.*"):
            self._disk.unlink(left)
