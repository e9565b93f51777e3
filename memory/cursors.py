"""How far each session log was read, and how often its next range has failed: two small files a session.

What must stay true: a cursor only moves forward, and only after what was read before it is staged. A cursor that cannot be
read is never guessed: from the start everything would be extracted twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory.disk import Disk, read_small, replace, temporary_of

FORMAT = 1
BACK_OFF_SECONDS = (60.0, 300.0, 1_800.0, 10_800.0)
MAX_SEEN, SEEN_CHARS = 4_096, 8  # lines, and hexadecimal digits of each


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """`next`: the first entry not read. `generation` grows when the log was replaced by another one under its name.
    `offset`, in bytes, `anchor`, a sha256, and `said_at` are of the last line read: they find the place again. `seen`: the
    beginnings of the sha256 of the last `MAX_SEEN` entries read, for a log in which that line is gone.
    """

    generation: int = 0
    next: int = 1
    offset: int = 0
    anchor: str = ""
    said_at: str = ""
    run_id: str = ""
    seen: str = ""

    @property
    def place(self) -> tuple[int, int]:
        return self.generation, self.next

    @property
    def forgot(self) -> bool:
        """More was read than `seen` holds."""
        return len(self.seen) >= MAX_SEEN * SEEN_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Failures at one place. `failures` decides how long to wait, `blamed` counts those that lie in the range itself.
    `at`: seconds since the epoch. `tokens`: how much the next try may read; 0: as much as any.
    """

    generation: int
    start: int
    failures: int = 0
    blamed: int = 0
    tokens: int = 0
    at: float = 0.0

    def waits(self, now: float) -> bool:
        """A clock that was put back ends the wait: one try too many does no harm, years of waiting would."""
        if not self.failures:
            return False
        pause = BACK_OFF_SECONDS[min(self.failures, len(BACK_OFF_SECONDS)) - 1]
        return 0 <= now - self.at < pause


class StateUnreadable(Exception):
    """A file of ours cannot be read; the text names it, and what to do."""


class Cursors:
    """`state`: `.insomnia/memory/_state`. All raise OSError. Whoever writes holds the session's lock."""

    def __init__(self, state: Path, *, disk: Disk) -> None:
        self._cursors, self._attempts, self._disk = state / "cursors", state / "attempts", disk

    def read(self, session_id: str) -> Cursor:
        """Raises StateUnreadable."""
        path = self._cursors / f"{session_id}.json"
        raw = read_small(path)
        if raw is None:
            return Cursor()
        try:
            return cursor_from(json.loads(raw))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StateUnreadable(f"{path.name} in _state/cursors cannot be read; remove it to have the session read again") from error

    def advance(self, session_id: str, cursor: Cursor) -> None:
        if cursor.place > self.read(session_id).place:
            self._disk.mkdir(self._cursors)
            replace(self._disk, self._cursors / f"{session_id}.json", _json({"session_id": session_id, **asdict(cursor)}))

    def attempts(self, session_id: str, at: Cursor) -> Attempts:
        """Those at this very place. A file that cannot be read means none: it only spares a model call."""
        none = Attempts(generation=at.generation, start=at.next)
        try:
            fields = _fields(read_small(self._attempts / f"{session_id}.json") or b"{}")
            found = Attempts(**{name: fields[name] for name in Attempts.__dataclass_fields__})
            whole = all(type(value) in (int, float) for value in asdict(found).values())
        except (ValueError, TypeError, KeyError, RecursionError):
            return none
        return found if whole and (found.generation, found.start) == at.place else none

    def note_attempts(self, session_id: str, attempts: Attempts) -> None:
        self._disk.mkdir(self._attempts)
        replace(self._disk, self._attempts / f"{session_id}.json", _json({"session_id": session_id, **asdict(attempts)}))

    def sweep(self, session_id: str) -> None:
        """What a dead process left half written. The caller holds the session's lock."""
        for folder in (self._cursors, self._attempts):
            temporary = temporary_of(folder / f"{session_id}.json")
            if temporary.exists():
                self._disk.unlink(temporary)

    def forget_attempts(self, session_id: str) -> None:
        if (self._attempts / f"{session_id}.json").exists():
            self._disk.unlink(self._attempts / f"{session_id}.json")


def remembering(seen: str, sha256: Iterable[str]) -> str:
    """`Cursor.seen` with these read as well."""
    return (seen + "".join(one[:SEEN_CHARS] for one in sha256))[-MAX_SEEN * SEEN_CHARS :]


def known_again(cursor: Cursor) -> Callable[[str, str], bool]:
    """Whether an entry, by sha256 and time, was read. Of a cursor that remembers none, an older one, time alone decides."""
    seen = {cursor.seen[at : at + SEEN_CHARS] for at in range(0, len(cursor.seen), SEEN_CHARS)}
    return lambda sha256, ts: sha256[:SEEN_CHARS] in seen if seen else ts <= cursor.said_at


def cursor_from(read: Any) -> Cursor:
    """Raises ValueError, TypeError, KeyError."""
    fields = {"seen": read.get("seen", ""), **{name: read[name] for name in Cursor.__dataclass_fields__ if name != "seen"}}
    cursor = Cursor(**fields)
    numbers, words = (cursor.generation, cursor.next, cursor.offset), (cursor.anchor, cursor.said_at, cursor.run_id, cursor.seen)
    if read.get("v") != FORMAT or any(type(n) is not int or n < 0 for n in numbers) or not all(isinstance(w, str) for w in words):
        raise ValueError("not a cursor of this version")
    return cursor


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps({"v": FORMAT, **fields}).encode() + b"\n"


def _fields(raw: bytes) -> dict[str, Any]:
    read = json.loads(raw)
    if not isinstance(read, dict) or read.get("v") != FORMAT:
        raise ValueError("another version")
    return read
