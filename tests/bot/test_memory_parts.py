"""Looking after the store at a start: what a dead run committed comes first, and people's changes are told after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.memory_parts import look_after_store
from memory.disk import Disk
from memory.records import render
from memory.store import Store
from telemetry.memory_events import MemoryReason, MemoryStatus, OperationStatus, RecordOp, RecordOperation
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Bench, candidate, stage, waiting
from tests.memory.dying import Death, DyingDisk, Steps
from tests.memory.made_records import record


class DyingWithTheFirstCandidate(DyingDisk):
    """The journal stands and the records are written, when the process dies: nothing after that has an effect."""

    def mkdir(self, path: Path) -> None:
        if "_trash" in path.parts:
            self._steps.dead = True
        super().mkdir(path)


class NothingIsMoved(Disk):
    def mkdir(self, path: Path) -> None:
        if "_trash" in path.parts:
            raise PermissionError(13, "no")
        super().mkdir(path)


@pytest.fixture
async def dead(tmp_path: Path) -> Bench:
    """A run died in its commit, after it had written two records."""
    bench = Bench(tmp_path, disk=DyingWithTheFirstCandidate(Steps()))
    stage(tmp_path, candidate("Release branches are cut on Mondays."), candidate("The freeze starts on Friday.", n=3))
    with pytest.raises(Death):
        await bench.run()
    assert len(bench.records()) == 2 and len(waiting(tmp_path)) == 2
    return bench


def unaudited(emit: RecordingEmit) -> list[tuple[str, RecordOp]]:
    return [(fact.slug, fact.op) for fact in emit.of(RecordOperation) if fact.unaudited]


async def test_a_record_that_somebody_deleted_after_a_death_in_the_commit_stays_deleted_and_is_told_as_theirs(dead: Bench) -> None:
    gone, kept = sorted(dead.records())
    (dead.insomnia / "memory" / f"{gone}.md").unlink()
    emit = RecordingEmit()

    (ended,) = look_after_store(dead.insomnia, dead.restarted(emit=emit), emit)

    assert (ended.status, ended.reason, ended.recovered) == (MemoryStatus.COMPLETED, MemoryReason.RECORDS_UPDATED, True)
    assert list(dead.records()) == [kept] and waiting(dead.insomnia) == []
    assert unaudited(emit) == [(gone.partition("/")[2], RecordOp.DELETE)]
    applied = [fact for fact in emit.of(RecordOperation) if fact.status is OperationStatus.APPLIED and not fact.unaudited]
    assert len(applied) == 2


async def test_what_a_run_wrote_before_it_died_is_nobody_elses(dead: Bench) -> None:
    emit = RecordingEmit()

    look_after_store(dead.insomnia, dead.restarted(emit=emit), emit)

    assert unaudited(emit) == [] and len(dead.records()) == 2


async def test_while_a_commit_cannot_be_finished_nobody_is_said_to_have_changed_anything(
    dead: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in dead.records():
        (dead.insomnia / "memory" / f"{name}.md").unlink()
    emit = RecordingEmit()

    ended = look_after_store(dead.insomnia, dead.restarted(emit=emit, disk=NothingIsMoved()), emit)

    assert list(ended) == [] and unaudited(emit) == []
    assert "could not be finished; the next run tries again" in capsys.readouterr().err
    again = RecordingEmit()
    assert len(look_after_store(dead.insomnia, dead.restarted(emit=again), again)) == 1 and len(unaudited(again)) == 2


async def test_a_journal_that_cannot_be_read_is_no_reason_not_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "memory" / "_state").mkdir(parents=True)
    (tmp_path / "memory" / "_state" / "journal.json").write_text("{")

    assert list(look_after_store(tmp_path, bench.consolidator, bench.emit)) == []
    assert "could not be finished" in capsys.readouterr().err


async def test_what_somebody_wrote_by_hand_is_told_once(tmp_path: Path) -> None:
    bench, emit = Bench(tmp_path), RecordingEmit()
    folder = tmp_path / "memory" / "decision"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "by-hand.md").write_text(render(record("by-hand")), encoding="utf-8")

    for _ in range(2):
        look_after_store(tmp_path, bench.restarted(emit=emit), emit)

    assert unaudited(emit) == [("by-hand", RecordOp.WRITE)]
    assert [each.unaudited for each in Store(tmp_path).view().stored.values()] == [True]
