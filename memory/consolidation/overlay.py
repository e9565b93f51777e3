"""What a run has made of the store so far, in memory: the store as it was, and the accepted steps over it.

What must stay true: nothing here touches a file; `files` is what the store would become, one change a file whatever the number of
steps, so that what is counted is what happens on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memory.records import Record, path_of, render, sha256
from memory.store_view import Key, Stored, StoreView
from telemetry.memory_events import RecordOp


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a tool, read and complete. `records`: what each becomes, None: it goes; the one that the call names first.
    `cited`: ids of candidates. `dropped`: specifics that are declared to go. `note`: the model's own words for why.
    """

    op: RecordOp
    records: Mapping[Key, Record | None]
    cited: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    note: str = ""

    @property
    def key(self) -> Key:
        return next(iter(self.records))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """`op`: what it is counted as. `before_sha256` is empty for a new file, `after` None for one that goes. `into`: the slug of the
    record that took it up. `cited`: the candidates that it holds. `note`: the model's words for why.
    """

    op: RecordOp
    key: Key
    before_sha256: str
    after: Record | None
    cited: tuple[str, ...]
    into: str = ""
    note: str = ""

    @property
    def path(self) -> str:
        return path_of(*self.key)


class Overlay:
    """`base`: the store at the beginning of the run."""

    def __init__(self, base: StoreView) -> None:
        self.base = base
        self._steps: list[Step] = []
        self._now: dict[Key, Stored] = dict(base.stored)

    @property
    def steps(self) -> Sequence[Step]:
        return tuple(self._steps)

    def view(self) -> StoreView:
        return StoreView(stored=dict(self._now), strays=self.base.strays)

    def touched(self, key: Key) -> bool:
        return any(key in step.records for step in self._steps)

    def accept(self, step: Step) -> None:
        self._steps.append(step)
        for key, record in step.records.items():
            if record is None:
                del self._now[key]
            else:
                self._now[key] = _stored(record)

    def files(self) -> Sequence[FileChange]:
        """What is new or changed first, then what goes."""
        changes = list(self._changes())
        return [*(each for each in changes if each.after), *(each for each in changes if each.after is None)]

    def _changes(self) -> Iterator[FileChange]:
        for key in dict.fromkeys(key for step in self._steps for key in step.records):
            steps = [step for step in self._steps if key in step.records]
            base, now = self.base.get(*key), self._now.get(key)
            cited = tuple(dict.fromkeys(one for step in steps for one in step.cited))
            note = "; ".join(dict.fromkeys(step.note for step in steps if step.note))
            if now is None and base is not None:
                last = steps[-1]
                merged = last.op is RecordOp.MERGE
                op = RecordOp.DELETE if merged else RecordOp.DROP
                into = last.key[1] if merged else ""
                yield FileChange(op=op, key=key, before_sha256=base.sha256, after=None, cited=(), into=into, note="" if merged else note)
            elif (
                now is not None
                and isinstance(now.record, Record)
                and (_takes_up(steps, key) or base is None or not same_text(base, now.record))
            ):
                before = base.sha256 if base else ""
                op = _op(steps, new=base is None)
                yield FileChange(op=op, key=key, before_sha256=before, after=now.record, cited=cited, note=note)


def _takes_up(steps: Sequence[Step], key: Key) -> bool:
    """What was merged into it goes only if it is written, also where its text stays what it was."""
    return any(step.op is RecordOp.MERGE and step.key == key for step in steps)


def same_text(stored: Stored, record: Record) -> bool:
    """Apart from what code writes of it."""
    if not isinstance(stored.record, Record):
        return False
    before = stored.record
    return replace(record, updated_at=before.updated_at, run_id=before.run_id, sources=before.sources, trust=before.trust) == before


def _op(steps: Sequence[Step], *, new: bool) -> RecordOp:
    ops = {step.op for step in steps}
    if RecordOp.MERGE in ops:
        return RecordOp.MERGE
    if new:
        return RecordOp.WRITE
    return RecordOp.TRIM if ops == {RecordOp.TRIM} else RecordOp.EDIT


def _stored(record: Record) -> Stored:
    text = render(record)
    path = path_of(record.kind, record.slug)
    return Stored(kind=record.kind, slug=record.slug, path=path, record=record, sha256=sha256(text), text=text)
