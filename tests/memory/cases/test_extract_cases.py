"""Public bugs of memory workers, as far as they concern extract; each test carries the id of its case."""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memory.cursors import Cursor, Cursors
from memory.disk import Disk
from memory.extract import ExtractLimits, ExtractRequest, ModelEnd, ModelHow, Stage
from telemetry.memory_events import MemoryReason, MemoryRunNotDue, MemoryStatus, MemoryTrigger
from tests.memory.dying import Death, DyingDisk, DyingLog, Steps, partition_faults
from tests.memory.talk import FakeModel, Ground, calling, claim, ending, hangs, keeps, raising, rows

R, S, T = MemoryReason, MemoryStatus, MemoryTrigger


async def dies(request: ExtractRequest, stage: Stage) -> ModelEnd:
    raise Death


class DeadWithItsModel(FakeModel):
    """SIGKILL while the model works."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    async def propose(self, request: ExtractRequest, stage: Stage) -> ModelEnd:
        self._steps.dead = True
        raise Death


async def killed_while_asking(ground: Ground, trigger: MemoryTrigger = T.SESSION_END) -> None:
    steps = Steps()
    lines: list[Any] = []
    extractor = ground.restarted(emit=DyingLog(steps, lines), model=DeadWithItsModel(steps), disk=DyingDisk(steps))
    with pytest.raises(Death):
        await extractor.run(ground.session, trigger)
    ground.restarted()


async def test_c058_a_run_that_was_killed_gets_its_one_end_and_the_next_one_starts_at_once(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    await killed_while_asking(ground)

    result = await ground.run(T.SESSION_END)

    assert [(end.status, end.reason, end.recovered) for end in ground.ends] == [
        (S.FAILED, R.INTERRUPTED, True),
        (S.COMPLETED, R.CANDIDATES_FOUND, False),
    ]
    assert result.completed and ground.claims == ["keep it"]


async def test_c059_a_lock_file_with_the_pid_of_a_living_process_proves_nothing(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    lock = tmp_path / "memory" / "_state" / "locks" / f"memory_extract~{ground.session.id}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"{os.getpid()}\n")

    assert (await ground.run()).completed
    assert lock.exists()


@pytest.mark.parametrize("wrong", [raising(ValueError("boom")), hangs, calling({"candidates": "none"}), ending(how=ModelHow.ERROR)])
async def test_c061_a_failed_extraction_leaves_the_cursor_and_the_next_run_gets_the_same_range(wrong: Any, tmp_path: Path) -> None:
    ground = Ground(tmp_path, model=FakeModel([wrong]), limits=ExtractLimits(seconds=0.02))
    ground.log.turn("keep it")

    failed = await ground.run()
    again = await ground.run()

    assert failed.status is S.FAILED and again.completed
    assert failed.range == again.range == (1, 2)
    assert ground.claims == ["keep it"]


async def test_c062_the_cursor_only_moves_forward(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    await ground.run()
    before = ground.cursor
    late = Cursors(tmp_path / "memory" / "_state", disk=Disk())

    late.advance(ground.session.id, Cursor(next=1, run_id="late"))
    late.advance(ground.session.id, Cursor(next=3, run_id="late"))

    assert ground.cursor == before and before["next"] == 3


async def test_c063_the_ranges_of_all_completed_runs_partition_the_log(tmp_path: Path) -> None:
    ground = Ground(tmp_path, limits=ExtractLimits(tokens=300))
    for part in range(4):
        for n in range(7):
            ground.log.turn(f"{'keep' if part % 2 else 'noise'} {part} {n}")
        ground.log.add("injected", "a thread, again " * 500)
        ground.log.add("reset", "compaction_auto")
        await ground.drain(T.TURN_THRESHOLD)
        ground.restarted()

    ranges = [end.extract.range for end in ground.ends if end.status is S.COMPLETED and end.extract and end.extract.range]
    assert partition_faults(ranges, ground.log.seq) == []
    assert len(ranges) >= 8 and len(ground.claims) == 14


async def test_c064_a_backlog_is_read_in_pieces_halved_where_they_are_too_long(tmp_path: Path) -> None:
    async def short_of_room(request: ExtractRequest, stage: Stage) -> ModelEnd:
        sizes.append(len(request.prompt.split("<entries>")[1].encode()) / 3)
        if sizes[-1] > 5_000:
            return ModelEnd(how=ModelHow.OVERFLOW)
        return await keeps(request, stage)

    sizes: list[float] = []
    ground = Ground(tmp_path, model=FakeModel([short_of_room] * 100))
    for n in range(60):
        ground.log.turn(f"keep {n} " + "x" * 550, "y" * 2_400)  # 60,000 tokens in all

    results = await ground.drain()

    assert max(sizes) < 12_050
    assert all(result.completed for result in results) and len(ground.claims) == 60


async def test_c064_a_long_entry_is_cut_and_only_that_entry_is_put_aside_if_it_fails_for_ever(tmp_path: Path) -> None:
    async def chokes(request: ExtractRequest, stage: Stage) -> ModelEnd:
        bad = any("poison" in row["text"] for row in rows(request))
        return ModelEnd(how=ModelHow.OVERFLOW) if bad else await keeps(request, stage)

    ground = Ground(tmp_path, model=FakeModel([chokes] * 1_000))
    ground.log.turn("keep the first")
    ground.log.turn("poison " + "z" * 100_000)
    ground.log.turn("keep the last")

    for _ in range(12):
        results = await ground.drain()

    assert ground.claims == ["keep the first", "keep the last"]
    aside = [end for end in ground.ends if end.reason is R.RANGE_QUARANTINED]
    assert [end.extract and end.extract.entries for end in aside] == [1]
    assert results[-1].reason is R.NO_NEW_SESSION_RANGE


async def test_c065_a_check_that_does_not_fire_is_a_metric_and_an_explicit_trigger_leaves_its_event(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.extractor.not_due(T.TURN_THRESHOLD)
    assert ground.ends == [] and len(ground.emit.of(MemoryRunNotDue)) == 1

    for _ in range(3):
        await ground.run(T.MANUAL)

    assert [(end.status, end.reason) for end in ground.ends] == [(S.SKIPPED, R.NO_NEW_SESSION_RANGE)] * 3


async def test_c065_the_same_skip_again_and_again_is_told_once_an_hour(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    for _ in range(61):
        await ground.run(T.IDLE)
        ground.clock.passes(60)

    assert [(end.reason, end.suppressed) for end in ground.ends] == [(R.NO_NEW_SESSION_RANGE, 0), (R.NO_NEW_SESSION_RANGE, 59)]


async def test_c067_completed_means_that_the_model_was_asked(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.add("injected", "only what was read again")

    assert (await ground.run()).reason is R.NO_NEW_SESSION_RANGE
    ground.log.turn("noise")
    assert (await ground.run()).reason is R.NO_CANDIDATES
    assert len(ground.model.requests) == 1


async def test_c069_two_turns_a_kill_and_a_start_extract_each_entry_once(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep one")
    await killed_while_asking(ground)
    ground.log.turn("keep two")
    ground.restarted()

    ground.extractor.recover()
    for session in ground.extractor.sessions():
        if ground.extractor.backlog(session).entries:
            await ground.extractor.drain(session, T.STARTUP_RECOVERY)

    assert ground.claims == ["keep one", "keep two"]


async def test_c070_nothing_that_was_injected_summed_up_or_said_by_a_worker_is_read(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    for kind in ("injected", "summary", "reset", "unheard_of"):
        ground.log.add(kind, f"keep {kind}")
    ground.log.add("user", "keep what a worker said", route="memory_extract")
    ground.log.add("tool_result", "keep the body of a result")
    ground.log.turn("noise")
    await ground.run()
    (prompt,) = [request.prompt for request in ground.model.requests]

    assert "keep" not in prompt
    worker_log = tmp_path / "sessions" / "memory_extract" / "0dd.jsonl"
    worker_log.parent.mkdir()
    worker_log.write_bytes(ground.log.path.read_bytes())
    assert [session.route for session in ground.extractor.sessions()] == ["main"]


BROKEN = {"candidates": [{"kind": "decision"}]}


@pytest.mark.parametrize("says", [calling(), calling(BROKEN, BROKEN, BROKEN), calling(*[{"candidates": []}] * 10_000)])
async def test_c071_prose_broken_calls_and_calls_without_end_are_invalid_output(says: Any, tmp_path: Path) -> None:
    ground = Ground(tmp_path, model=FakeModel([says]))
    ground.log.turn("keep it")

    result = await ground.run()

    assert (result.status, result.reason) == (S.FAILED, R.MODEL_OUTPUT_INVALID)
    assert ground.cursor["next"] == 1 and ground.claims == []


async def test_c071_a_model_that_never_stops_calling_is_cut_off(tmp_path: Path) -> None:
    async def for_ever(request: ExtractRequest, stage: Stage) -> ModelEnd:
        while True:
            stage({"candidates": [claim("x", 1)]})
            await asyncio.sleep(0)

    ground = Ground(tmp_path, model=FakeModel([for_ever]))
    ground.log.turn("keep it")

    assert (await ground.run()).reason is R.MODEL_OUTPUT_INVALID and ground.claims == []


async def test_c072_an_outage_waits_longer_each_time_and_costs_nothing(tmp_path: Path) -> None:
    ground = Ground(tmp_path, model=FakeModel([ending(how=ModelHow.ERROR)] * 6))
    ground.log.turn("keep it")
    tried: list[float] = []
    while not ground.claims:
        result = await ground.run(T.IDLE)
        if result.reason is not R.BACKOFF:
            tried.append(ground.clock.ticks)
        ground.clock.passes(30)

    assert [later - earlier for earlier, later in pairwise(tried)] == [60, 300, 1_800, 10_800, 10_800, 10_800]
    assert ground.claims == ["keep it"]
    assert any(end.reason is R.BACKOFF for end in ground.ends)


async def test_c068_exactly_one_end_wherever_a_run_is_cancelled(tmp_path: Path) -> None:
    for steps in range(12):
        ground = Ground(tmp_path / str(steps))
        ground.log.turn("keep it")
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(ground.run(T.IDLE))
            for _ in range(steps):
                await asyncio.sleep(0)
            run.cancel()
        await ground.drain()

        assert len({start.run_id for start in ground.starts} ^ {end.run_id for end in ground.ends if end.status is not S.SKIPPED}) == 0
        assert ground.claims == ["keep it"]
