"""`_staging`: candidates on their way to consolidation, one directory for each range that had any.

What must stay true: a directory is published by one rename, whole: that is the commit point of an extraction. A range is
published once: what is there already is adopted, whoever wrote it. Whoever empties a directory may remove it only once the
cursor is past its range, or a recovery would not see that it was published.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory.cursors import FORMAT as CURSOR_FORMAT
from memory.cursors import Cursor, cursor_from
from memory.disk import TEMPORARY, Disk, no_links, read_small, remove_folder

FORMAT = 1
BATCH = "batch.json"
NAME_CHARS = 8  # of a session id, as people abbreviate it


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one range gave. `cursor`: where reading goes on after it. `path` below `.insomnia`."""

    session_id: str
    route: str
    start: int
    cursor: Cursor
    run_id: str
    entries: int
    staged_at: str
    ids: tuple[str, ...] = ()
    path: str = ""

    @property
    def range(self) -> tuple[int, int]:
        return self.start, self.cursor.next - 1


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates that can be read, oldest first, each as its file's object; and the files that cannot, with the reason."""

    candidates: Sequence[Mapping[str, Any]]
    invalid: Sequence[tuple[Path, str]]


class Staging:
    """`memory`: `.insomnia/memory`. All raise OSError, NotOurs where it is a link. Whoever publishes holds the session's lock."""

    def __init__(self, memory: Path, *, disk: Disk) -> None:
        self._memory, self._folder, self._disk = memory, memory / "_staging", disk

    def published(self, session_id: str, generation: int, start: int) -> Batch | None:
        """What is staged of the range that starts here."""
        self._check()
        for name in self._names(session_id, generation, start):
            batch = batch_of(self._folder / name)
            # one whose cursor does not move would be adopted for ever
            if (
                batch
                and batch.cursor.next > start
                and (batch.session_id, batch.cursor.generation, batch.start) == (session_id, generation, start)
            ):
                return batch
        return None

    def publish(self, batch: Batch, candidates: Sequence[Mapping[str, Any]]) -> Batch:
        """Returns what is staged: this, or what was there."""
        for name in self._names(batch.session_id, batch.cursor.generation, batch.start):
            there = self.published(batch.session_id, batch.cursor.generation, batch.start)
            if there:
                return there
            if not self._is_taken(name):
                return self._publish(name, batch, candidates)
        raise FileExistsError(errno.EEXIST, "every name for this range is taken in _staging")

    def sweep(self, run_ids: Sequence[str]) -> None:
        """What dead runs wrote and did not publish."""
        self._check()
        for run_id in run_ids:
            left = self._folder / f"{TEMPORARY}{run_id}"
            if left.is_dir() and not left.is_symlink():
                remove_folder(self._disk, left)

    def pending(self) -> Found:
        """All that waits, what cannot be read told apart from nothing."""
        self._check()
        candidates: list[Mapping[str, Any]] = []
        invalid: list[tuple[Path, str]] = []
        for folder in sorted(self._folder.iterdir()) if self._folder.is_dir() else []:
            if folder.name.startswith((".", "_")):
                continue
            if folder.is_symlink() or not folder.is_dir():
                invalid.append((folder, "it is no directory"))
                continue
            for path in sorted(folder.glob("*.json")):
                if path.name != BATCH and not path.name.startswith("."):
                    read = staged_file(path)
                    candidates.append(read) if not isinstance(read, str) else invalid.append((path, read))
        return Found(candidates, invalid)

    def _publish(self, name: str, batch: Batch, candidates: Sequence[Mapping[str, Any]]) -> Batch:
        ids = tuple(f"{name}.{number:03d}" for number in range(len(candidates)))
        temporary = self._folder / f"{TEMPORARY}{batch.run_id}"
        self.sweep([batch.run_id])
        self._disk.mkdir(temporary)
        try:
            for candidate_id, candidate in zip(ids, candidates, strict=True):
                self._disk.create(temporary / f"{candidate_id}.json", _json({"id": candidate_id, **candidate}))
            self._disk.create(temporary / BATCH, _json({**asdict(batch), "ids": ids, "path": f"memory/_staging/{name}"}))
            self._disk.sync(temporary)
            self._disk.rename(temporary, self._folder / name)
        except OSError:
            with suppress(OSError):
                self.sweep([batch.run_id])
            raise
        return Batch(**{**_shallow(batch), "ids": ids, "path": f"memory/_staging/{name}"})

    def _check(self) -> None:
        no_links(self._memory, ("", "_staging"))

    def _is_taken(self, name: str) -> bool:
        """By something that is not this range: of another session with the same beginning, or nothing we can read."""
        path = self._folder / name
        return path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))

    def _names(self, session_id: str, generation: int, start: int) -> list[str]:
        life = f".{generation}" if generation else ""
        return [f"{session}.{start:08d}{life}{again}" for session in (session_id[:NAME_CHARS], session_id) for again in ("", "-2", "-3")]


def batch_of(folder: Path) -> Batch | None:
    """None: there is none that can be read."""
    try:
        read = json.loads(read_small(folder / BATCH) or b"")
        if read["v"] != FORMAT:
            return None
        fields = {name: read[name] for name in Batch.__dataclass_fields__}
        return Batch(**{**fields, "cursor": cursor_from({"v": CURSOR_FORMAT, **read["cursor"]}), "ids": tuple(read["ids"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def staged_file(path: Path) -> Mapping[str, Any] | str:
    """The file's object, or why it is no candidate."""
    try:
        read = json.loads(read_small(path) or b"")
    except (OSError, ValueError, RecursionError):
        return "it cannot be read as JSON"
    if not isinstance(read, dict) or read.get("v") != FORMAT:
        return "it was written by another version"
    if read.get("id") != path.stem:
        return "its id is not its file's name"
    return read if path.stem.rpartition(".")[0] == path.parent.name else "it lies in another batch's folder"


def _shallow(batch: Batch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in Batch.__dataclass_fields__}


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"v": FORMAT, **fields}, ensure_ascii=False, allow_nan=False, indent=1).encode("utf-8", "replace") + b"\n"
