"""A consolidation run from its candidates to the records, on real files."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from memory.consolidation.undo import Undoer
from memory.disk import Disk
from memory.records import Status
from telemetry.memory_events import Disposition, MemoryReason, MemoryRunEnded, MemoryStatus, StoreCommitted
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Bench, Hand, candidate, stage, waiting
from tests.memory.made_records import record


async def test_a_candidate_becomes_a_record_with_its_source(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (one,) = stage(tmp_path, candidate("Release branches are cut on Mondays."))

    result = await bench.run()

    assert (result.status, result.reason, result.detail) == (MemoryStatus.COMPLETED, MemoryReason.RECORDS_UPDATED, "")
    (record,) = bench.records().values()
    assert record.body == "Release branches are cut on Mondays." and record.sources[0].candidate == one
    assert record.run_id == result.run_id and record.status is Status.ACTIVE
    assert waiting(tmp_path) == []
    assert result.work.dispositions == {Disposition.APPLIED: 1}
    assert not list((tmp_path / "memory" / "_staging").iterdir())
    undo = Undoer(tmp_path, emit=RecordingEmit(), clock=bench.clock).undo(result.run_id)
    assert bench.records() == {} and undo.conflicts == ()
    assert undo.manifest
    Undoer(tmp_path, emit=RecordingEmit(), clock=bench.clock).undo(undo.manifest.run_id)
    assert list(bench.records().values()) == [record]


async def test_a_merge_keeps_the_specifics_or_names_what_it_drops(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stage(tmp_path, candidate("The freeze starts Friday 15:00.", n=1), candidate("The freeze is on kestrel-12.", n=3))
    await bench.run()
    first, second = sorted(slug.partition("/")[2] for slug in bench.records())

    async def merges(hand: Hand) -> None:
        (one,) = await hand.candidates()
        refused = await hand("memory_merge", kind="decision", slug=first, from_=[second], content="There is a freeze.")
        assert {each["rule"] for each in refused["error"]["violations"]} >= {"L601"}
        done = await hand(
            "memory_merge", kind="decision", slug=first, from_=[second], content="The freeze starts Friday 15:00 on kestrel-12."
        )
        assert done["changed"]
        await hand("staging_resolve", candidate=one["id"], disposition="discarded", reason="Only a greeting.")

    bench.model.rules = [merges]
    stage(tmp_path, candidate("Hello there, all of you."), start=5)
    result = await bench.run()

    assert result.reason is MemoryReason.RECORDS_UPDATED
    assert bench.bodies() == ["The freeze starts Friday 15:00 on kestrel-12."]
    assert result.work.ops == {"merge": 1, "delete": 1}
    assert (result.work.records, result.work.records_lost, result.work.specifics_lost) == (2, 0, 0)


async def test_a_record_whose_text_is_whole_already_takes_up_another_one(tmp_path: Path) -> None:
    async def merges(hand: Hand) -> None:
        (one,) = await hand.candidates()
        answer = await hand("memory_merge", kind="decision", slug="whole", from_=["part"], content="The freeze starts Friday 15:00.")
        assert answer["changed"]
        await hand("staging_resolve", candidate=one["id"], disposition="discarded", reason="Only a greeting.")

    bench = Bench(tmp_path, merges)
    bench.put(record("whole", body="The freeze starts Friday 15:00."), record("part", body="The freeze starts Friday."))
    stage(tmp_path, candidate("Hello there, all of you."))
    result = await bench.run()

    assert (result.reason, result.work.ops) == (MemoryReason.RECORDS_UPDATED, {"merge": 1, "delete": 1})
    assert bench.bodies() == ["The freeze starts Friday 15:00."]


class SlowDisk(Disk):
    """Waits with the journal in its hands."""

    def __init__(self) -> None:
        self.committing, self.go_on = threading.Event(), threading.Event()

    def rename(self, source: Path, target: Path) -> None:
        if target.name == "journal.json":
            self.committing.set()
            self.go_on.wait(10)
        super().rename(source, target)


async def test_a_cancel_that_comes_while_it_commits_finds_a_run_that_has_ended(tmp_path: Path) -> None:
    disk = SlowDisk()
    bench = Bench(tmp_path, disk=disk)
    stage(tmp_path, candidate("Release branches are cut on Mondays."))

    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(bench.run())
        await asyncio.to_thread(disk.committing.wait, 10)
        for _ in range(3):
            run.cancel(MemoryReason.USER_CANCELLED)
            await asyncio.sleep(0)
        disk.go_on.set()

    assert run.cancelled() and bench.bodies() == ["Release branches are cut on Mondays."] and waiting(tmp_path) == []
    (end,) = bench.told(MemoryRunEnded)
    assert (end.status, end.reason) == (MemoryStatus.COMPLETED, MemoryReason.RECORDS_UPDATED)
    assert [fact.applied for fact in bench.told(StoreCommitted)] == [1]


@pytest.mark.parametrize("disposition", ["duplicate", "already_covered"])
async def test_a_candidate_is_not_settled_by_a_record_that_somebody_deleted_meanwhile(disposition: str, tmp_path: Path) -> None:
    async def knows(hand: Hand) -> None:
        (one,) = await hand.candidates()
        said = {"candidate": one["id"], "disposition": disposition, "reason": "It says so.", "record": "decision/deploy-freeze"}
        assert "error" not in await hand("staging_resolve", **said)
        (tmp_path / "memory" / "decision" / "deploy-freeze.md").unlink()

    bench = Bench(tmp_path, knows)
    bench.put(record())
    stage(tmp_path, candidate("The freeze begins on Friday at 15:00."))
    result = await bench.run()

    assert result.work.dispositions == {Disposition.DEFERRED: 1}
    assert waiting(tmp_path) == ["The freeze begins on Friday at 15:00."]
