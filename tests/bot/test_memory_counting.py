"""The counts behind the gauges: when they are told, what is in them, and that a log is not read again for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory.consolidation.past import Past
from memory.extract import Session
from memory.records import RecordKind
from memory.store import Store, StoreBusy
from memory.store_view import StoreView
from memory.triggers import Backlog
from telemetry.memory_events import MemoryCounted, MemoryTrigger, MemoryWorker
from tests.bot.memory_ground import FEW, FULL, LINK, Ground
from tests.memory.made_records import record

EXTRACT, CONSOLIDATION = MemoryWorker.EXTRACT, MemoryWorker.CONSOLIDATION


def session(ground: Ground, folder: Path, id: str, entries: int) -> Session:
    """With a log that is there."""
    log = folder / f"{id}.jsonl"
    log.write_text("x" * entries)
    ground.extract.backlogs[id] = Backlog(entries=entries)
    found = Session(id=id, route="main", log=log)
    ground.extract.known.append(found)
    return found


async def test_it_counts_what_waits_what_there_is_and_when_each_worker_last_succeeded(tmp_path: Path) -> None:
    ground = Ground()
    store = Store(tmp_path)
    for each in (record("a"), record("b"), record("c", kind=RecordKind.KNOWLEDGE)):
        store.write(each, None)
    (tmp_path / "memory" / "decision" / "broken.md").write_text("no record")
    ground.records.view_of = store.view()
    ground.consolidator.waiting, ground.consolidator.history = FULL, Past(ended=7.0, succeeded=5.0)
    for id, entries in (("s1", 3), ("s2", 4)):
        session(ground, tmp_path, id, entries)

    await ground.workers._counting.tell()

    (counted,) = ground.counted
    assert counted == MemoryCounted(
        backlog=10,
        oldest_seconds=60.0,
        unextracted=7,
        records={kind: 0 for kind in RecordKind} | {RecordKind.DECISION: 2, RecordKind.KNOWLEDGE: 1},
        last_success={CONSOLIDATION: 5.0},
    )


async def test_it_is_told_at_start_at_each_look_and_after_each_run() -> None:
    ground = Ground(look_seconds=0.01)
    async with ground.workers as workers:
        workers.begin()
        await ground.until(lambda: ground.counted)
        await ground.after_looks()
        await ground.until(lambda: len(ground.counted) >= 3)
        assert EXTRACT not in ground.counted[-1].last_success

        ground.session("s1", FEW)
        workers.session_ended("main", "main", "s1", LINK)
        await ground.until(lambda: EXTRACT in ground.counted[-1].last_success)
        assert ground.counted[-1].last_success[EXTRACT] == ground.clock.now()


async def test_a_run_that_a_person_asked_for_is_counted_before_he_has_his_answer() -> None:
    ground = Ground()
    async with ground.workers as workers:
        for asks in (workers.consolidate_now, workers.extract_now):
            ground.extract.recovered, ground.extract.known = 1, [ground.session("s1", FEW)]
            ground.consolidator.waiting = FULL
            before = len(ground.counted)
            await asks()
            assert len(ground.counted) == before + 1


async def test_a_log_is_read_again_only_when_it_or_the_cursor_in_it_has_moved(tmp_path: Path) -> None:
    ground = Ground()
    counting = ground.workers._counting
    first, second = (session(ground, tmp_path, id, 3) for id in ("s1", "s2"))
    await counting.tell()
    await counting.tell()
    assert sorted(ground.extract.looked_at) == ["s1", "s2"]

    ground.extract.backlogs["s1"] = Backlog(entries=4)
    first.log.write_text("x" * 4)
    await counting.tell()
    assert sorted(ground.extract.looked_at) == ["s1", "s1", "s2"] and ground.counted[-1].unextracted == 7

    ground.extract.recovered = 1
    counting.extracted(await ground.extract.drain(second, MemoryTrigger.MANUAL))
    await counting.tell()
    assert sorted(ground.extract.looked_at) == ["s1", "s1", "s2", "s2"] and ground.counted[-1].unextracted == 4


async def test_a_log_that_is_gone_counts_nothing(tmp_path: Path) -> None:
    ground = Ground()
    os.unlink(session(ground, tmp_path, "s1", 3).log)

    await ground.workers._counting.tell()

    assert ground.counted[-1].unextracted == 0


@pytest.mark.parametrize("error", [StoreBusy("held"), PermissionError(13, "no")])
async def test_a_store_that_cannot_be_looked_at_is_said_once_and_runs_go_on(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    class Unreadable:
        def view(self) -> StoreView:
            raise error

    ground = Ground(look_seconds=0.01)
    ground.workers._counting._store = Unreadable()
    async with ground.workers as workers:
        workers.begin()
        await ground.after_looks()
        ground.consolidator.waiting = FULL
        ground.clock.at += 60.0
        assert await ground.consolidator.next() == (MemoryTrigger.STAGING_BACKLOG, None)

    assert ground.counted == [] and capsys.readouterr().err.count("could not be counted") == 1
