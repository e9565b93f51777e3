"""Public bugs of others with people and a second worker beside a consolidation, as tests of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

from memory.consolidation.consolidator import Consolidator
from memory.records import sha256
from telemetry.memory_events import (
    MemoryReason,
    MemoryRunEnded,
    MemoryStatus,
    MemoryTrigger,
    OperationStatus,
    RecordOperation,
    StoreCommitted,
    StoreDiscarded,
)
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Bench, Clock, Hand, RuleModel, candidate, stage, waiting, writes_all

FACTS = OperationStatus.APPLIED, OperationStatus.REJECTED


async def test_c056_what_somebody_edits_during_the_model_s_call_stays_and_the_candidates_come_again(tmp_path: Path) -> None:
    stage(tmp_path, candidate("The freeze starts Friday."))
    bench = Bench(tmp_path)
    await bench.run()
    (path,) = (tmp_path / "memory" / "decision").glob("*.md")
    theirs = path.read_bytes().replace(b"The freeze starts Friday.", b"The freeze starts Friday at noon.")
    stage(tmp_path, candidate("It ends on Monday."), start=5)
    stage(tmp_path, candidate("It is on kestrel-12."), start=7)

    async def adds(hand: Hand) -> None:
        one, other = await hand.candidates()
        slug = path.stem
        body = (await hand("memory_read", kind="decision", slug=slug))["content"]
        await hand("memory_edit", kind="decision", slug=slug, old_text=body, new_text=f"{body}\nIt ends on Monday.", candidates=[one["id"]])
        await hand.write("kestrel", other["id"], content=other["claim"])
        if path.read_bytes() != theirs:
            path.write_bytes(theirs)  # an editor, while the model thinks on

    bench.model.rules = [adds]
    emit = bench.emit
    assert isinstance(emit, RecordingEmit)
    before = len(emit.told)
    failed = await bench.run()

    told = [fact for fact, _ in emit.told[before:]]
    assert (failed.status, failed.reason) == (MemoryStatus.FAILED, MemoryReason.STORE_CONFLICT)
    assert path.read_bytes() == theirs and len(bench.records()) == 1
    assert waiting(tmp_path) == ["It ends on Monday.", "It is on kestrel-12."]
    operations = [fact for fact in told if isinstance(fact, RecordOperation) and fact.run_id == failed.run_id and fact.status in FACTS]
    assert [(fact.path.rpartition("/")[2], fact.status) for fact in operations] == [(path.name, OperationStatus.REJECTED)]
    assert [type(fact) for fact in told if isinstance(fact, StoreCommitted | StoreDiscarded | MemoryRunEnded)] == [
        StoreDiscarded,
        MemoryRunEnded,
    ]

    again = await bench.run()

    assert again.reason is MemoryReason.RECORDS_UPDATED and waiting(tmp_path) == []
    assert bench.bodies() == ["It is on kestrel-12.", "The freeze starts Friday at noon.\nIt ends on Monday."]
    assert sha256(theirs) in [sha256(kept.read_bytes()) for kept in (tmp_path / "memory" / "_trash" / again.run_id).glob("*/*.md")]


async def test_c060_what_is_staged_while_a_run_commits_waits_and_a_second_run_at_once_is_skipped(tmp_path: Path) -> None:
    first = stage(tmp_path, candidate("The first."))
    thinks, goes_on = asyncio.Event(), asyncio.Event()

    class StagingEmit(RecordingEmit):
        """While the run commits, extract stages three more."""

        def __call__(self, fact: object) -> None:
            if isinstance(fact, StoreCommitted) and not self.of(StoreCommitted):
                stage(tmp_path, candidate("The second."), candidate("The third."), candidate("The fourth."), start=5)
            super().__call__(fact)  # type: ignore[arg-type]

    async def waits(hand: Hand) -> None:
        thinks.set()
        await goes_on.wait()
        await writes_all(hand)

    emit = StagingEmit()
    bench = Bench(tmp_path, waits, emit=emit)
    other = Consolidator(tmp_path, model=RuleModel([writes_all]), emit=emit, clock=Clock())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(bench.run())
        await thinks.wait()
        second = await other.run(MemoryTrigger.MANUAL)
        goes_on.set()
    done = running.result()

    assert (second.status, second.reason) == (MemoryStatus.SKIPPED, MemoryReason.ALREADY_RUNNING)
    assert done.reason is MemoryReason.RECORDS_UPDATED and done.work.consumed_ids == tuple(first)
    assert waiting(tmp_path) == ["The second.", "The third.", "The fourth."] and bench.bodies() == ["The first."]

    assert (await other.run(MemoryTrigger.MANUAL)).reason is MemoryReason.RECORDS_UPDATED
    assert waiting(tmp_path) == [] and bench.bodies() == ["The first.", "The fourth.", "The second.", "The third."]
    assert len({one for end in emit.of(MemoryRunEnded) if end.consolidation for one in end.consolidation.consumed_ids}) == 4
