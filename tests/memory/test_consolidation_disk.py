"""A full disk before the commit of a consolidation fails the run and changes nothing; after it the next run finishes what was begun."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memory.consolidation.journal import Journal, Journals
from telemetry.memory_events import MemoryReason, MemoryRunEnded, MemoryStatus, StoreCommitted, StoreDiscarded
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Bench, Hand, candidate, stage, waiting, writes_all
from tests.memory.consolidation_history import History, NoEnd
from tests.memory.dying_store import Full, FullDisk


@pytest.mark.sweep
@pytest.mark.parametrize("late", [False, True])
def test_a_disk_that_is_full_from_any_step_on_loses_nothing_and_gives_each_run_one_end(late: bool, ram: Path) -> None:
    found, outcomes = {}, list[tuple[bool, bool]]()
    for step in range(1, 600):
        history = History(ram / f"{late} {step}", phases=2, patience=1)
        history.model.failed = True  # for once its only trouble is the disk
        steps = Full(step, late=late)
        with suppress(NoEnd):
            history.live(steps, on=FullDisk(steps))
        if not steps.full:
            break

        committed = Journals(history.insomnia / "memory", disk=FullDisk(Full())).unfinished() is not None
        failed = [end.fact.reason for end in history.ends.values() if end.fact.status is not MemoryStatus.COMPLETED]
        faults = [f"failed as {failed}"] if {*failed} - {MemoryReason.DISK_FULL} else []
        outcomes.append((committed, bool(failed)))
        history.phases, history.patience = history.staged, 20
        assert history.live()
        found |= {step: all_} if (all_ := faults + history.faults(drained=True)) else {}

    assert outcomes.count((True, False)) > 15 and outcomes.count((False, True)) > 5 and (True, True) not in outcomes
    assert found == {}


# -- a file system that is really full -----------------------------------------------------------------------------------
ROOM = 512 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError) as full:
        while True:
            file.write(bytes(4096))
    assert full.value.errno == errno.ENOSPC
    return filler


@pytest.mark.root
def test_a_disk_that_is_full_before_the_commit_fails_the_run_and_nothing_is_changed(disk: Path) -> None:
    emit, fillers = RecordingEmit(), list[Path]()
    stage(disk, candidate("The freeze starts Friday."))

    async def fills(hand: Hand) -> None:
        await writes_all(hand)
        fillers.append(fill(disk))

    bench = Bench(disk, fills, writes_all, emit=emit)
    failed = bench.ran()

    assert (failed.status, failed.reason) == (MemoryStatus.FAILED, MemoryReason.DISK_FULL)
    assert waiting(disk) == ["The freeze starts Friday."] and bench.bodies() == []
    assert not list(disk.rglob(".tmp-*")) and not list((disk / "memory" / "_state" / "runs").iterdir())
    fillers[0].unlink()
    assert bench.ran().reason is MemoryReason.RECORDS_UPDATED and bench.bodies() == ["The freeze starts Friday."]
    assert [type(fact) for fact, _ in emit.told if isinstance(fact, StoreCommitted | StoreDiscarded | MemoryRunEnded)] == [
        *(StoreDiscarded, MemoryRunEnded),
        *(StoreCommitted, MemoryRunEnded),
    ]


@pytest.mark.root
def test_a_disk_that_is_full_after_the_commit_leaves_the_run_to_the_next_and_it_has_one_end(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit, fillers, commit = RecordingEmit(), list[Path](), Journals.commit
    stage(disk, candidate("The freeze starts Friday."), candidate("It ends on Monday."))

    def fills(journals: Journals, journal: Journal) -> None:
        commit(journals, journal)
        fillers.append(fill(disk))

    monkeypatch.setattr(Journals, "commit", fills)
    bench = Bench(disk, emit=emit)
    left = bench.ran()

    assert (left.status, left.reason) == (MemoryStatus.FAILED, MemoryReason.DISK_FULL) and "finished by the next run" in left.detail
    assert emit.of(MemoryRunEnded) == [] and len(waiting(disk)) == 2
    fillers[0].unlink()
    (ended,) = bench.restarted().recover()
    assert ended.run_id == left.run_id and ended.reason is MemoryReason.RECORDS_UPDATED and ended.work.ops == {"write": 2}
    assert len(emit.of(MemoryRunEnded)) == len(emit.of(StoreCommitted)) == 1 and emit.of(StoreDiscarded) == []
    assert bench.bodies() == ["It ends on Monday.", "The freeze starts Friday."] and waiting(disk) == []
    assert bench.store.unaudited() == ()
