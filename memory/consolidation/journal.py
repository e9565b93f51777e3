"""The journal of the run that is committing, and what is kept of each run that has: two forms of one file.

What must stay true: `_state/journal.json` is written whole, or not at all: that is the commit point. Once everything in it is done
it becomes `_trash/<run_id>/run.json`, beside what the run replaced and settled; from there it is told, listed and undone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory.consolidation.ledger import Resolution
from memory.disk import Disk, no_links, read_small, replace, temporary_of
from memory.record_types import is_slug, path_of, sha256
from memory.store_view import Key
from telemetry.memory_events import Disposition, RecordKind, RecordOp

FORMAT = 1
JOURNAL, MANIFEST = "journal.json", "run.json"
MAX_BYTES = 16 * 1024 * 1024  # twelve changes of 64 KiB, each byte escaped
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class JournalUnreadable(Exception):
    """The file is not what was written there; the text names it, and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file. `before_sha256` is empty for a new one; `after` is the text, None where it goes. `into`: the slug that took it up.
    `cited`: ids of candidates. `lost`: how many of its specifics are in no record any more. `note`: the model's words
    for why, without secrets.
    """

    op: RecordOp
    kind: RecordKind
    slug: str
    before_sha256: str
    after: str | None
    cited: tuple[str, ...] = ()
    into: str = ""
    lost: int = 0
    note: str = ""

    @property
    def key(self) -> Key:
        return self.kind, self.slug

    @property
    def path(self) -> str:
        return path_of(self.kind, self.slug)

    @property
    def after_sha256(self) -> str:
        return "" if self.after is None else sha256(self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """`at`: seconds since the epoch. `undoes`: the run that this one takes back. `resolutions`: by candidate. `counts`: what the run
    was given, and the survival figures before it.
    """

    run_id: str
    at: float
    trace_id: str
    scope: str
    changes: tuple[Change, ...]
    resolutions: Mapping[str, Resolution]
    counts: Mapping[str, int]
    undoes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One change as it came out. Not `applied`: somebody had changed the file, and theirs stays."""

    op: RecordOp
    kind: RecordKind
    slug: str
    before_sha256: str
    after_sha256: str
    applied: bool
    into: str = ""
    lost: int = 0
    note: str = ""

    @property
    def path(self) -> str:
        return path_of(self.kind, self.slug)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """As `Journal`; of a run that is done."""

    run_id: str
    at: float
    trace_id: str
    scope: str
    done: tuple[Done, ...]
    resolutions: Mapping[str, Resolution]
    counts: Mapping[str, int]
    undoes: str = ""

    @property
    def applied(self) -> Sequence[Done]:
        return [each for each in self.done if each.applied]

    @property
    def consumed(self) -> Sequence[str]:
        return [one for one, found in self.resolutions.items() if found.disposition is not Disposition.DEFERRED]


class Journals:
    """`memory`: `.insomnia/memory`. All raise OSError. Whoever writes holds the worker's lock."""

    def __init__(self, memory: Path, *, disk: Disk) -> None:
        self._memory, self._disk = memory, disk
        self._journal = memory / "_state" / JOURNAL

    def trash_of(self, run_id: str) -> Path:
        return self._memory / "_trash" / run_id

    def commit(self, journal: Journal) -> None:
        """From here on it is done, by this process or a later one. Where it raises, it is not."""
        no_links(self._memory, ("", "_staging", "_state", "_trash"))
        self._disk.mkdir(self._journal.parent)
        try:
            replace(self._disk, self._journal, _json(asdict(journal)))
        except OSError:
            if not self._journal.exists():  # else it has its name already, and whoever comes next would find it
                raise

    @property
    def stands(self) -> bool:
        """Whether or not it can be read."""
        return self._journal.exists()

    def unfinished(self) -> Journal | None:
        """Removes what a dead process left half written besides. Raises JournalUnreadable."""
        if temporary_of(self._journal).exists():
            self._disk.unlink(temporary_of(self._journal))
        return self.read()

    def read(self) -> Journal | None:
        """Raises JournalUnreadable."""
        raw = read_small(self._journal, most=MAX_BYTES)
        try:
            return None if raw is None else _journal(json.loads(raw))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            what = (
                "memory/_state/journal.json in .insomnia cannot be read; move it away, and look through the newest folder in memory/_trash"
            )
            raise JournalUnreadable(what) from error

    def close(self, manifest: Manifest) -> None:
        self.keep(manifest)
        self._disk.unlink(self._journal)

    def keep(self, manifest: Manifest) -> None:
        self._disk.mkdir(self.trash_of(manifest.run_id))
        replace(self._disk, self.trash_of(manifest.run_id) / MANIFEST, _json(asdict(manifest)))

    def manifest(self, run_id: str) -> Manifest | None:
        """None: there is none that can be read."""
        if not RUN_ID.fullmatch(run_id):
            return None
        try:
            raw = read_small(self.trash_of(run_id) / MANIFEST, most=MAX_BYTES)
            found = None if raw is None else _manifest(json.loads(raw))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None
        return found if found and found.run_id == run_id else None

    def manifests(self) -> Sequence[Manifest]:
        """Of every run that is done, oldest first."""
        folder = self._memory / "_trash"
        names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        return sorted((found for name in names if (found := self.manifest(name))), key=lambda each: (each.at, each.run_id))

    def unreadable(self) -> Sequence[str]:
        """Ids of runs of which there is a manifest that cannot be read."""
        folder = self._memory / "_trash"
        there = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}")) if folder.is_dir() else []
        return [name for name in there if self.manifest(name) is None]

    def settled_files(self, manifest: Manifest) -> Iterator[tuple[str, Path]]:
        """Id and file of each candidate that the run settled."""
        for one in manifest.consumed:
            yield one, self.trash_of(manifest.run_id) / "_staging" / f"{one}.json"


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"v": FORMAT, **fields}, ensure_ascii=False, allow_nan=False, indent=1).encode() + b"\n"


def _journal(read: Mapping[str, Any]) -> Journal:
    changes = tuple(
        Change(**{**_common(each), "after": _text_or_none(each["after"]), "cited": tuple(map(str, each["cited"]))})
        for each in read["changes"]
    )
    return Journal(changes=changes, **_head(read))


def _manifest(read: Mapping[str, Any]) -> Manifest:
    done = tuple(
        Done(**{**_common(each), "after_sha256": str(each["after_sha256"]), "applied": bool(each["applied"])}) for each in read["done"]
    )
    return Manifest(done=done, **_head(read))


def _head(read: Mapping[str, Any]) -> dict[str, Any]:
    if read["v"] != FORMAT or not RUN_ID.fullmatch(read["run_id"]):
        raise ValueError("another version, or no id")
    resolutions = {
        str(one): Resolution(disposition=Disposition(found["disposition"]), reason=str(found["reason"]), record=str(found["record"]))
        for one, found in read["resolutions"].items()
    }
    words = {name: str(read[name]) for name in ("run_id", "trace_id", "scope", "undoes")}
    counts = {str(name): int(count) for name, count in read["counts"].items()}
    return {**words, "at": float(read["at"]), "resolutions": resolutions, "counts": counts}


def _common(read: Mapping[str, Any]) -> dict[str, Any]:
    if not is_slug(read["slug"]):
        raise ValueError("no slug")
    words = {name: str(read[name]) for name in ("slug", "before_sha256", "into")} | {"note": str(read.get("note", ""))}
    return {**words, "op": RecordOp(read["op"]), "kind": RecordKind(read["kind"]), "lost": int(read["lost"])}


def _text_or_none(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("no text")
    return value
