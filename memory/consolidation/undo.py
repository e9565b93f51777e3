"""Taking back what a run did, when a person asks for it: every file as it was, byte for byte, or nothing at all.

What must stay true: what somebody changed after the run is never overwritten: it is named, and nothing is taken back; taking back is
committed by the same journal as the run itself, and can be taken back too. The candidates that the run settled stay settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from memory.clock import Clock
from memory.consolidation.commit import Commit
from memory.consolidation.journal import Change, Done, Journal, Manifest
from memory.consolidation.outcome import tell
from memory.consolidation.run import KEY
from memory.disk import Disk, OwnDisk
from memory.runs import Runs
from memory.store import Store
from telemetry.emit import Emit
from telemetry.memory_events import RecordOp


class CannotUndo(Exception):
    """The text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What taking a run back does: `changes`, unless there are `conflicts` (paths below `.insomnia`, of files that were changed
    since). `manifest` is None for a plan that was not carried out.
    """

    of: str
    changes: tuple[Change, ...]
    conflicts: tuple[str, ...] = ()
    manifest: Manifest | None = None


class Undoer:
    """`insomnia`: the directory `.insomnia`. All raise CannotUndo, OSError, StoreBusy and JournalUnreadable."""

    def __init__(self, insomnia: Path, *, emit: Emit, clock: Clock, disk: Disk | None = None) -> None:
        disk = OwnDisk(disk or Disk(), insomnia / "memory")
        self._store, self._emit, self._clock = Store(insomnia), emit, clock
        self._runs = Runs(insomnia / "memory", emit=emit, clock=clock, disk=disk)
        self._commit = Commit(insomnia, store=self._store, disk=disk)

    def plan(self, run_id: str) -> Undo:
        """Changes nothing."""
        manifests = self._commit.journals.manifests()
        found = [each for each in manifests if each.run_id.startswith(run_id)] if run_id else []
        if len(found) != 1:
            what = f"{len(found)} runs begin with {run_id!r:.40}" if found else f"no run {run_id!r:.40} has changed anything"
            raise CannotUndo(f"{what}; see what each did: insomnia memory runs")
        manifest = found[0]
        if later := next((each for each in manifests if each.undoes == manifest.run_id and not _is_undone(each, manifests)), None):
            raise CannotUndo(f"it was taken back already, by {later.run_id}; to have it again: insomnia memory undo {later.run_id}")
        if not manifest.applied:
            raise CannotUndo("this run has changed no record, so there is nothing to take back")
        back = {each.path: self._back(manifest, each) for each in reversed(manifest.applied)}
        changes = tuple(sorted(back.values(), key=lambda change: change.after is None))
        conflicts = tuple(change.path for change in self._commit.conflicts(changes))
        return Undo(of=manifest.run_id, changes=changes, conflicts=conflicts)

    def undo(self, run_id: str) -> Undo:
        """Nothing is done where there are conflicts."""
        with self._runs.locked(KEY) as mine:
            if not mine:
                raise CannotUndo("a consolidation run is under way; try again when it has ended: insomnia status")
            finished = self._commit.finish_dead()
            if finished and finished.run_id not in self._runs.dead(KEY):  # one that took a run back, and died
                tell(self._emit, finished.run_id, finished.done)
            plan = self.plan(run_id)
            if plan.conflicts:
                refused = [change for change in plan.changes if change.path in plan.conflicts]
                tell(self._emit, "", (), refused=refused)
                return plan
            ref = self._emit.current()
            journal = Journal(
                run_id=uuid4().hex[:16],
                at=self._clock.now(),
                trace_id=ref.trace_id if ref else "",
                scope="",
                changes=plan.changes,
                resolutions={},
                counts={},
                undoes=plan.of,
            )
            self._commit.journals.commit(journal)
            manifest = self._commit.finish(journal)
            tell(self._emit, manifest.run_id, manifest.done)
        return Undo(of=plan.of, changes=plan.changes, manifest=manifest)

    def _back(self, manifest: Manifest, done: Done) -> Change:
        if not done.before_sha256:
            return Change(op=RecordOp.DELETE, kind=done.kind, slug=done.slug, before_sha256=done.after_sha256, after=None)
        content = self._store.trashed(done.kind, manifest.run_id, done.before_sha256)
        if content is None:
            raise CannotUndo(f"the old text of {done.path} is not in memory/_trash/{manifest.run_id} any more; nothing was changed")
        op = RecordOp.EDIT if done.after_sha256 else RecordOp.WRITE
        return Change(op=op, kind=done.kind, slug=done.slug, before_sha256=done.after_sha256, after=content.decode())


def _is_undone(manifest: Manifest, manifests: Sequence[Manifest]) -> bool:
    return any(each.undoes == manifest.run_id and not _is_undone(each, manifests) for each in manifests)
