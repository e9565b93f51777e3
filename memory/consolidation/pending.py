"""Candidates that wait: read, checked, taken out of `_staging` when they are settled.

What must stay true: a file that is no candidate is put aside and counted, never taken for none; a candidate leaves `_staging` by
one rename into the trash of the run that settled it; a batch's directory leaves only once the session's cursor is past it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory.cursors import Cursors, StateUnreadable
from memory.disk import Disk, no_links
from memory.extract_model import MAX_CLAIM, MAX_WHY
from memory.provenance import TRUST_ORDER
from memory.records import Scope, ScopeKind, Source, Trust, moment
from memory.redact import redact
from memory.staging import BATCH, Staging, batch_of
from telemetry.memory_events import RecordKind

INVALID = "_invalid"  # below `_staging`


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`said_at`: of the latest passage that shows it. `entries`: first and last of them. `evidence`: as extract wrote it."""

    id: str
    kind: RecordKind
    claim: str
    why_useful: str
    confidence: float
    scope: Scope
    trust: Trust
    session_id: str
    route: str
    entries: tuple[int, int]
    said_at: datetime
    staged_at: datetime
    evidence: tuple[Mapping[str, Any], ...]

    @property
    def batch(self) -> str:
        return self.id.rpartition(".")[0]

    @property
    def source(self) -> Source:
        return Source(session=self.session_id, range=self.entries, candidate=self.id, ts=self.said_at)

    @property
    def size(self) -> int:
        """In bytes, roughly."""
        return len(f"{self.claim}{self.why_useful}".encode()) + sum(len(str(one.get("excerpt", "")).encode()) for one in self.evidence)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Oldest first; and the files that are no candidates, with the reason."""

    candidates: Sequence[Candidate]
    invalid: Sequence[tuple[Path, str]]


def lowest(trusts: Sequence[Trust]) -> Trust:
    return max(trusts, key=TRUST_ORDER.index)


class Pending:
    """`memory`: `.insomnia/memory`. All raise OSError. Whoever changes something holds the worker's lock."""

    def __init__(self, memory: Path, *, disk: Disk) -> None:
        self._memory, self._folder, self._disk = memory, memory / "_staging", disk
        self._staging, self._cursors = Staging(memory, disk=disk), Cursors(memory / "_state", disk=disk)

    def look(self) -> Waiting:
        found = self._staging.pending()
        candidates, invalid = list[Candidate](), list(found.invalid)
        for fields in found.candidates:
            try:
                candidates.append(candidate_from(fields))
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                invalid.append((self._path(str(fields["id"])), "it is no whole candidate"))
        return Waiting(sorted(candidates, key=lambda one: (one.staged_at, one.id)), invalid)

    def put_aside(self, invalid: Sequence[tuple[Path, str]]) -> None:
        """Into a folder that nothing reads, under names that a second file of the name does not overwrite."""
        for path, _ in invalid:
            folder = self._folder / INVALID / (path.parent.name if path.parent != self._folder else "")
            self._disk.mkdir(folder)
            self._disk.rename(path, _free(folder / path.name))

    def settle(self, ids: Sequence[str], trash: Path) -> None:
        """Into `trash`, the folder of the run. One that is there already was moved by the same run before it died."""
        no_links(self._memory, ("", "_staging"))
        for candidate_id in ids:
            path = self._path(candidate_id)
            if path.exists():
                self._disk.mkdir(trash)
                self._disk.rename(path, trash / path.name)
        for batch in sorted({candidate_id.rpartition(".")[0] for candidate_id in ids}):
            self._retire(self._folder / batch, trash)

    def _retire(self, folder: Path, trash: Path) -> None:
        """An emptied batch. Where the cursor is not past it yet, extract still has to find it, and a later run retires it."""
        if not folder.is_dir() or {path.name for path in folder.iterdir()} - {BATCH}:
            return
        batch = batch_of(folder)
        with suppress(StateUnreadable):
            if batch and self._cursors.read(batch.session_id).place >= batch.cursor.place:
                self._disk.mkdir(trash)
                if not (trash / folder.name).exists():
                    self._disk.rename(folder, trash / folder.name)

    def retire_emptied(self, trash: Path) -> None:
        """Those that an earlier run had to leave."""
        for folder in sorted(self._folder.iterdir()) if self._folder.is_dir() else []:
            if not folder.name.startswith((".", "_")) and not folder.is_symlink():
                self._retire(folder, trash)

    def _path(self, candidate_id: str) -> Path:
        return self._folder / candidate_id.rpartition(".")[0] / f"{candidate_id}.json"


def candidate_from(fields: Mapping[str, Any], *, clean: Callable[[str], str] = redact) -> Candidate:
    """`clean`: what is shown of its texts. Raises ValueError, TypeError, KeyError, AttributeError, OverflowError where something is
    missing or of another form.
    """
    evidence = tuple(dict(one) for one in fields["evidence"])
    numbers = [_whole(one["n"]) for one in evidence]
    claim, why = _text(fields, "claim", MAX_CLAIM), _text(fields, "why_useful", MAX_WHY)
    kind, colon, place = fields["scope"].partition(":")
    if (colon and not place) or not numbers or not all(_names_a_reply(one) for one in evidence):
        raise ValueError("half of a scope, or no evidence")
    candidate = Candidate(
        id=fields["id"],
        kind=RecordKind(fields["kind"]),
        claim=clean(claim),
        why_useful=clean(why),
        confidence=float(fields["confidence"]),
        scope=Scope(ScopeKind(kind), place),
        trust=Trust(fields["trust"]),
        session_id=_text(fields, "session_id", 64),
        route=str(fields["route"]),
        entries=(min(numbers), max(numbers)),
        said_at=_time(fields["said_at"]),
        staged_at=_time(fields["staged_at"]),
        evidence=evidence,
    )
    _ = candidate.source  # ValueError where it could not be written down
    if not 0 <= candidate.confidence <= 1:  # NaN is no number that a line could hold
        raise ValueError("no confidence")
    return candidate


def _names_a_reply(evidence: Mapping[str, Any]) -> bool:
    values = (*map(evidence.get, ("ts", "by", "trace_id", "excerpt")), evidence.get("trust", ""))
    return all(isinstance(value, str) and _is_writable(value) for value in values)


def _is_writable(text: str) -> bool:
    """Half of a pair of surrogates is not."""
    return text.encode("utf-8", "replace").decode() == text


def _text(fields: Mapping[str, Any], name: str, most: int) -> str:
    value = fields[name]
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise ValueError(f"{name} is no text of 1 to {most} characters")
    value.encode()
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError("no whole number")
    return value


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment(time.astimezone(UTC).timestamp())


def _free(path: Path) -> Path:
    taken = {other.name for other in path.parent.iterdir()}
    return next(path.with_name(name) for name in (path.name, *(f"{path.name}.{n}" for n in range(2, len(taken) + 3))) if name not in taken)
