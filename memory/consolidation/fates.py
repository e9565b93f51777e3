"""What became of each candidate, as the files say: it waits, a run settled it, or it was put aside. Only reads.

What must stay true: nothing here takes a lock or changes a file, so that it may look on while a run is under way; a candidate whose
file is gone or broken is told as that, and hides no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from memory.consolidation.journal import Journals, Manifest
from memory.consolidation.ledger import Resolution
from memory.consolidation.past import PastFile
from memory.consolidation.pending import INVALID, Candidate, candidate_from
from memory.consolidation.undo import undone_by
from memory.disk import Disk, read_small
from memory.staging import FORMAT, Staging, staged_file
from telemetry.memory_events import Disposition

GONE = "its file is gone from the trash"
NOT_WHOLE = "it is no whole candidate"
MOVED = "it cannot be read any more as it was when it was settled"


class State(StrEnum):
    WAITING = "waiting"
    SETTLED = "settled"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """`path` below `.insomnia`. `candidate` None: there is none to be read, `problem` says why. `resolution`: what the run `run_id`
    said, at `at` (seconds since the epoch); of one that waits: why it was put off last. `deferrals`, `failed`: runs that put it off, or
    that it was in when they failed. `undone_by`: who took that run back. `staged_by`: the extract run. Its claim is empty, but for
    what `with_texts` gives: to take secrets out of thousands that nobody is shown takes seconds.
    """

    id: str
    state: State
    path: str
    candidate: Candidate | None = None
    problem: str = ""
    resolution: Resolution | None = None
    run_id: str = ""
    at: float = 0.0
    undone_by: str = ""
    deferrals: int = 0
    failed: int = 0
    staged_by: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_put_aside(self) -> bool:
        """Not only broken, but moved out of the way by a run."""
        return self.state is State.INVALID and f"/{INVALID}/" in self.path


class Fates:
    """`insomnia`: `.insomnia`."""

    def __init__(self, insomnia: Path) -> None:
        disk, memory = Disk(), insomnia / "memory"
        self._insomnia, self._folder = insomnia, memory / "_staging"
        self._staging, self._journals = Staging(memory, disk=disk), Journals(memory, disk=disk)
        self._past = PastFile(memory / "_state", disk=disk)

    def all(self) -> Sequence[Fate]:
        """Broken ones first, then those that wait, the oldest first, then the settled ones, the newest first. Raises OSError."""
        manifests = self._journals.manifests()
        open_, broken = list[Fate](), list[Fate]()
        for each in self._staged(manifests):
            (open_ if each.state is State.WAITING else broken).append(each)
        waiting = {each.id for each in open_}
        settled = (each for manifest in reversed(manifests) for each in self._settled(manifest, manifests))
        return [
            *broken,
            *self._put_aside(),
            *sorted(open_, key=_age),
            *(each for each in settled if each.id not in waiting),
        ]

    def _staged(self, manifests: Sequence[Manifest]) -> Iterator[Fate]:
        found, past, put_off = self._staging.pending(), self._past.read(), _put_off(manifests)
        for stray, why in found.invalid:
            yield Fate(id=stray.stem, state=State.INVALID, path=self._below(stray), problem=why)
        for fields in found.candidates:
            one = str(fields["id"])
            path = self._below(self._folder / one.rpartition(".")[0] / f"{one}.json")
            if (candidate := _read(fields)) is None:
                yield Fate(id=one, state=State.INVALID, path=path, problem=NOT_WHOLE)
                continue
            resolution, manifest = put_off.get(one, (None, None))
            yield Fate(
                id=one,
                state=State.WAITING,
                path=path,
                candidate=candidate,
                resolution=resolution,
                run_id=manifest.run_id if manifest else "",
                at=manifest.at if manifest else 0.0,
                deferrals=past.deferrals.get(one, 0),
                failed=past.failed.get(one, 0),
                staged_by=_staged_by(fields),
                fields=fields,
            )

    def _put_aside(self) -> Iterator[Fate]:
        for path in sorted(self._folder.glob(f"{INVALID}/**/*")):
            if not path.is_dir() or path.is_symlink():
                read = staged_file(path)
                yield Fate(
                    id=path.name.partition(".json")[0],
                    state=State.INVALID,
                    path=self._below(path),
                    problem=read if isinstance(read, str) else NOT_WHOLE,
                )

    def _settled(self, manifest: Manifest, manifests: Sequence[Manifest]) -> Iterator[Fate]:
        later = undone_by(manifest, manifests)
        for one, path in self._journals.settled_files(manifest):
            fields, problem = _object(path)
            candidate = _read(fields) if fields.get("id") == one else None
            yield Fate(
                id=one,
                state=State.SETTLED,
                path=self._below(path) if problem != GONE else "",
                candidate=candidate,
                problem="" if candidate else problem or MOVED,
                resolution=manifest.resolutions[one],
                run_id=manifest.run_id,
                at=manifest.at,
                undone_by=later.run_id if later else "",
                staged_by=_staged_by(fields),
                fields=fields,
            )

    def _below(self, path: Path) -> str:
        return str(path.relative_to(self._insomnia))


def with_texts(fate: Fate) -> Fate:
    return replace(fate, candidate=candidate_from(fate.fields)) if fate.candidate else fate


def _put_off(manifests: Sequence[Manifest]) -> Mapping[str, tuple[Resolution, Manifest]]:
    """By candidate, the last time."""
    return {
        one: (found, manifest)
        for manifest in manifests
        for one, found in manifest.resolutions.items()
        if found.disposition is Disposition.DEFERRED
    }


def _read(fields: Mapping[str, Any]) -> Candidate | None:
    try:
        return candidate_from(fields, clean=lambda _: "")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def _object(path: Path) -> tuple[Mapping[str, Any], str]:
    """What lies in the trash, and why nothing does."""
    try:
        raw = read_small(path)
        if raw is None:
            return {}, GONE
        read = json.loads(raw)
    except (OSError, ValueError, RecursionError):
        return {}, MOVED
    return (read, "") if isinstance(read, dict) and read.get("v") == FORMAT else ({}, MOVED)


def _age(waiting: Fate) -> tuple[float, str]:
    return (waiting.candidate.staged_at.timestamp() if waiting.candidate else 0.0, waiting.id)


def _staged_by(fields: Mapping[str, Any]) -> str:
    return str(fields.get("run_id", ""))
