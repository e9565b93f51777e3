"""A run's changes reach the disk: one journal write, then a roll-forward that may be begun again as often as it is cut off.

What must stay true: before the journal stands nothing is changed, after it everything is, by whoever comes next. A file that a
person changed meanwhile stays theirs, and what a change of it was to hold waits on: its candidates are not settled. What was to be
merged away stays where the merge did not happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from memory.consolidation.journal import Change, Done, Journal, Journals, Manifest
from memory.consolidation.ledger import Resolution
from memory.consolidation.pending import Pending
from memory.disk import Disk, NotOurs
from memory.records import Record
from memory.store import Store, StoreConflict, StoreRefused
from memory.store_view import Key, StoreView
from telemetry.memory_events import Disposition

STAGING = "_staging"  # below the trash of a run: the candidates that it settled
THEIRS = "somebody changed the record meanwhile"


class Commit:
    """`insomnia`: `.insomnia`. All raise OSError and StoreBusy; what is committed is then finished by the next that tries."""

    def __init__(self, insomnia: Path, *, store: Store, disk: Disk) -> None:
        memory = insomnia / "memory"
        self.journals, self.pending = Journals(memory, disk=disk), Pending(memory, disk=disk)
        self._store = store

    def conflicts(self, changes: Sequence[Change], view: StoreView) -> Sequence[Change]:
        """Those whose files are not what the run took them for. `view`: the store as it is now. Raises NotOurs where a folder of theirs
        cannot be read.
        """
        strays = {stray.path: stray for stray in view.strays}
        for folder in {change.path.rpartition("/")[0] for change in changes} & strays.keys():
            raise NotOurs(f"{folder} in .insomnia: {strays[folder].message}; {strays[folder].mend}")
        now = {change.path: (found.sha256 if (found := view.get(*change.key)) else "") for change in changes}
        return [change for change in changes if change.path in strays or now[change.path] != change.before_sha256]

    def finish(self, journal: Journal) -> Manifest:
        """The caller wrote the journal, or found it."""
        manifest = self.journals.manifest(journal.run_id)
        if manifest is None:
            manifest = self._roll_forward(journal)
        self.journals.close(manifest)
        return manifest

    def finish_dead(self) -> Manifest | None:
        """What a dead run committed and could not finish. Raises JournalUnreadable too."""
        journal = self.journals.unfinished()
        if journal is None:
            return None
        self._store.sweep()  # a new record with a second name is one that its writer died over
        return self.finish(journal)

    def _roll_forward(self, journal: Journal) -> Manifest:
        done = [self._write(journal, change) for change in journal.changes if change.after is not None]
        there = {(each.kind, each.slug) for each in done if each.applied}
        done += [self._remove(journal, change, there) for change in journal.changes if change.after is None]
        resolutions = _resolutions(journal, done)
        manifest = Manifest(
            run_id=journal.run_id,
            at=journal.at,
            trace_id=journal.trace_id,
            scope=journal.scope,
            done=tuple(done),
            resolutions=resolutions,
            counts=journal.counts,
            undoes=journal.undoes,
        )
        trash = self.journals.trash_of(journal.run_id) / STAGING
        self.pending.settle(manifest.consumed, trash)
        self.pending.retire_emptied(trash)
        self._store.sweep_trash(journal.run_id)
        return manifest

    def _write(self, journal: Journal, change: Change) -> Done:
        assert change.after is not None
        if self._store.last_known().get(change.path) == change.after_sha256:
            return _done(change, applied=True)  # and whatever somebody made of it since is theirs
        try:
            self._store.write_file(change.kind, change.slug, change.after.encode(), change.before_sha256 or None, run_id=journal.run_id)
        except StoreConflict as conflict:
            return _done(change, applied=conflict.found == change.after_sha256 or self._bears(journal.run_id, change))
        except StoreRefused:
            return _done(change, applied=False)
        return _done(change, applied=True)

    def _bears(self, run_id: str, change: Change) -> bool:
        """Somebody has edited what this run had written already."""
        found = self._store.find(change.kind, change.slug)
        return found is not None and isinstance(found.record, Record) and found.record.run_id == run_id

    def _remove(self, journal: Journal, change: Change, there: set[Key]) -> Done:
        """What was to be merged goes only while what took it up is there."""
        if not change.into or ((change.kind, change.into) in there and self._store.find(change.kind, change.into)):
            with suppress(StoreConflict, StoreRefused):
                self._store.remove(change.kind, change.slug, change.before_sha256, journal.run_id)
        gone = self._store.trashed(change.kind, journal.run_id, change.before_sha256, slug=change.slug)
        return _done(change, applied=gone is not None)


def _done(change: Change, *, applied: bool) -> Done:
    return Done(
        op=change.op,
        kind=change.kind,
        slug=change.slug,
        before_sha256=change.before_sha256,
        after_sha256=change.after_sha256,
        applied=applied,
        into=change.into,
        lost=change.lost if applied else 0,
        note=change.note,
    )


def _resolutions(journal: Journal, done: Sequence[Done]) -> Mapping[str, Resolution]:
    """Those that were to be held by a record that stayed somebody's wait on."""
    theirs = {f"{each.kind}/{each.slug}" for each in done if not each.applied and each.after_sha256}
    return {
        one: replace(found, disposition=Disposition.DEFERRED, reason=THEIRS, record="") if found.record in theirs else found
        for one, found in journal.resolutions.items()
    }
