"""A process that dies at every step of a consolidation, and again while it recovers, with people at work in between; and protocols
that are wrong on purpose.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory import runs
from memory.consolidation import commit, consolidator, journal, outcome, pending
from memory.consolidation.undo import Undoer
from memory.run_ends import end_fields
from memory.run_files import FINISHING
from memory.store import Store, StoreConflict, StoreRefused
from memory.store_audit import tell_unaudited
from telemetry.memory_events import Disposition, OperationStatus, RecordOp, RecordOperation
from tests.bot.recording import RecordingEmit
from tests.memory import consolidation_history
from tests.memory.consolidating import Clock
from tests.memory.consolidation_history import History, Moment, moments, records
from tests.memory.dying import Steps
from tests.memory.dying_store import SteppedDisk, Watched, stepped_store
from tests.memory.people import ACTS, Act, Deed

pytestmark = pytest.mark.sweep

RANDOM_HISTORIES = 60


@pytest.fixture(scope="module")
def life(ram: Path) -> Sequence[Moment]:
    return moments(ram / "whole")


@contextmanager
def revived(moment: Moment, folder: Path) -> Iterator[History]:
    try:
        yield moment.again(folder)
    finally:
        shutil.rmtree(folder)


def test_a_death_at_any_step_loses_nothing_and_applies_nothing_twice(life: Sequence[Moment], ram: Path) -> None:
    found = {}
    for step, moment in enumerate(life):
        with revived(moment, ram / "dead") as history:
            assert history.recover()
            faults, history.phases = history.faults(), max(1, history.staged)
            assert history.live()
            found |= {step: both} if (both := faults + history.faults(drained=True)) else {}

    assert len(life) > 400
    assert found == {}


def test_a_second_death_anywhere_in_the_recovery_changes_nothing_either(life: Sequence[Moment], ram: Path) -> None:
    """After every sixth of them."""
    found, scenarios = {}, 0
    for step, moment in list(enumerate(life))[::6]:
        inner = list[Moment]()
        with revived(moment, ram / "dead") as history:
            assert history.recover(Watched(lambda _, history=history, inner=inner: inner.append(history.moment())))  # type: ignore[misc]
        for second, again in enumerate(inner):
            scenarios += 1
            with revived(again, ram / "twice dead") as history:
                assert history.recover()
                found |= {(step, second): faults} if (faults := history.faults()) else {}

    assert scenarios > 800
    assert found == {}


def test_deaths_one_after_the_other_change_nothing_either(life: Sequence[Moment], ram: Path) -> None:
    chance, found = random.Random(5), {}
    for number in range(RANDOM_HISTORIES):
        moment, *deaths = chance.choice(life), *(chance.randint(1, 120) for _ in range(chance.randint(1, 3)))
        with revived(moment, ram / str(number)) as history:
            for death in deaths:
                history.live(Steps(death))
            assert history.live()
            found |= {number: faults} if (faults := history.faults(drained=True)) else {}

    assert found == {}


def test_a_death_at_any_step_of_taking_a_run_back_leaves_all_of_it_or_nothing(ram: Path) -> None:
    history, found = History(ram / "undone", phases=2), list[Moment]()
    assert history.live()
    (run_id,) = (run_id for run_id, end in history.ends.items() if RecordOp.EDIT in end.fact.consolidation.ops)
    done, steps = records(history.insomnia), Watched(lambda _: found.append(history.moment()))
    with stepped_store(steps):
        Undoer(history.insomnia, emit=RecordingEmit(), clock=Clock(), disk=SteppedDisk(steps)).undo(run_id)
    undone = records(history.insomnia)

    outcomes = []
    for moment in found:
        with revived(moment, ram / "dead") as dead:
            assert dead.recover()
            outcomes.append((records(dead.insomnia) == undone, records(dead.insomnia) == done, dead.remains()))
            assert Store(dead.insomnia).unaudited() == ()

    assert history.ends[run_id].before == undone != done
    assert [left for *_, left in outcomes if left] == []
    assert [both for *both, _ in outcomes if sum(both) != 1] == [] and len({tuple(both) for *both, _ in outcomes}) == 2


def test_taking_a_run_back_tells_what_was_taken_back_by_one_that_died(ram: Path) -> None:
    history, found, emit = History(ram / "untold", phases=1), list[Moment](), RecordingEmit()
    assert history.live()
    *_, run_id = history.ends
    steps = Watched(lambda _: found.append(history.moment()))
    with stepped_store(steps):
        Undoer(history.insomnia, emit=RecordingEmit(), clock=Clock(), disk=SteppedDisk(steps)).undo(run_id)
    dead = next(moment for moment in found if [names for names, _ in moment.image.files if names[0].name == "journal.json"])

    with revived(dead, ram / "dead") as left:
        again = Undoer(left.insomnia, emit=emit, clock=Clock()).undo(run_id)

    assert again.of == run_id and again.manifest is not None and again.manifest.undoes == run_id
    assert [fact.status for fact in emit.of(RecordOperation)] == [OperationStatus.APPLIED] * 4


# -- people who do something to the files while nothing runs -------------------------------------------------------------
def faults_after(moment: Moment, act: Act | None, folder: Path) -> list[str] | None:
    """None: there was nothing to be done."""
    with revived(moment, folder) as history:
        deed = act(history) if act else None
        if act and not deed:
            return None
        assert history.recover()
        return [*(taken(history, deed) if deed else []), *history.faults()]


def taken(history: History, deed: Deed) -> list[str]:
    now = records(history.insomnia).get(deed.path)
    if now == deed.content:
        return []
    return [f"came back: {deed.path}" if deed.content is None else f"overwritten: {deed.path}" if now else f"removed: {deed.path}"]


@pytest.mark.parametrize("act", ACTS)
def test_what_somebody_does_between_a_death_and_the_recovery_is_theirs(act: Act, life: Sequence[Moment], ram: Path) -> None:
    outcomes = {step: faults for step, moment in enumerate(life) if (faults := faults_after(moment, act, ram / "dead")) is not None}

    assert len(outcomes) > 10
    assert {step: faults for step, faults in outcomes.items() if faults} == {}


# -- orders that are wrong, each plausible: the same sweep has to find them ----------------------------------------------
def no_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal.Journals, "commit", lambda *_: None)


def candidates_settled_first(patch: pytest.MonkeyPatch) -> None:
    commit = journal.Journals.commit

    def wrong(self: Any, about: Any) -> None:
        settled = [one for one, found in about.resolutions.items() if found.disposition is not Disposition.DEFERRED]
        pending.Pending(self._memory, disk=self._disk).settle(settled, self.trash_of(about.run_id) / "_staging")
        commit(self, about)

    patch.setattr(journal.Journals, "commit", wrong)


def journal_gone_before_the_end_of_the_roll_forward(patch: pytest.MonkeyPatch) -> None:
    roll_forward = commit.Commit._roll_forward

    def wrong(self: Any, about: Any) -> Any:
        self.journals._disk.unlink(self.journals._journal)
        return roll_forward(self, about)

    patch.setattr(commit.Commit, "_roll_forward", wrong)


def journal_gone_before_the_manifest_is_kept(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, manifest: Any) -> None:
        self._disk.unlink(self._journal)
        self.keep(manifest)

    patch.setattr(journal.Journals, "close", wrong)


def merged_records_removed_first(patch: pytest.MonkeyPatch) -> None:
    roll_forward = commit.Commit._roll_forward

    def wrong(self: Any, about: Any) -> Any:
        there = {(change.kind, change.slug) for change in about.changes if change.after is not None}
        for change in about.changes:
            if change.after is None and change.into and (change.kind, change.into) in there:
                with suppress(StoreConflict, StoreRefused):
                    self._store.remove(change.kind, change.slug, change.before_sha256, about.run_id)
        return roll_forward(self, about)

    patch.setattr(commit.Commit, "_roll_forward", wrong)


def end_told_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, file: Any, end: Any, **_: Any) -> None:
        self._emit(end)
        self._files.save(replace(file, state=FINISHING, told=end_fields(end)))
        self._files.remove(file)

    patch.setattr(runs.Runs, "_tell", wrong)


def run_file_gone_before_the_end_is_told(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, file: Any, end: Any, **_: Any) -> None:
        self._files.remove(file)
        self._emit(end)

    patch.setattr(runs.Runs, "_tell", wrong)


def manifest_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal.Journals, "manifest", lambda *_: None)


def what_somebody_changed_written_over(patch: pytest.MonkeyPatch) -> None:
    write = commit.Commit._write

    def wrong(self: Any, about: Any, change: Any) -> Any:
        found = self._store.find(change.kind, change.slug)
        return write(self, about, replace(change, before_sha256=found.sha256 if found else ""))

    patch.setattr(commit.Commit, "_write", wrong)


def what_is_known_to_be_written_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "last_known", lambda _: {})


def recovery_after_people_were_looked_for(patch: pytest.MonkeyPatch) -> None:
    def wrong(consolidator: Any, store: Store, emit: Any) -> None:
        store.sweep()
        tell_unaudited(store, emit)
        consolidator.recover()

    patch.setattr(consolidation_history, "start_up", wrong)


def half_written_files_not_swept_before_the_recovery(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any) -> Any:
        found = self.journals.unfinished()
        return found and self.finish(found)

    patch.setattr(commit.Commit, "finish_dead", wrong)


def store_told_after_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consolidator.Consolidator, "_of", lambda _, manifest: (*outcome.verdict(manifest), outcome.work_of(manifest)))


def no_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consolidator.Consolidator, "_recover", lambda _: [])


WRONG: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    no_journal: "twice",
    candidates_settled_first: "lost",
    journal_gone_before_the_end_of_the_roll_forward: "twice",
    journal_gone_before_the_manifest_is_kept: "counted",
    merged_records_removed_first: "lost",
    end_told_before_it_is_stored: "another end",
    run_file_gone_before_the_end_is_told: "no end",
    manifest_not_looked_for: "counted",
    what_somebody_changed_written_over: "overwritten",
    what_is_known_to_be_written_not_looked_for: "came back",
    recovery_after_people_were_looked_for: "came back",
    half_written_files_not_swept_before_the_recovery: "twice",
    store_told_after_the_end: "nothing on the store before",
    no_recovery: "no end",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_sweep_finds_a_wrong_order(wrong: Callable[[pytest.MonkeyPatch], None], ram: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch)
    life = moments(ram / wrong.__name__)

    chance = random.Random(7)  # the first that shows it is enough, wherever it is
    deaths = [(moment, act) for moment in life for act in (None, *ACTS)]
    symptoms = (fault for moment, act in chance.sample(deaths, len(deaths)) for fault in faults_after(moment, act, ram / "dead") or ())

    assert any(fault.startswith(WRONG[wrong]) for fault in symptoms)
