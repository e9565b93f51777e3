"""The life of a run: one end for every start, told by its own process or a later one; and logs that are never read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from memory.disk import Disk
from memory.run_files import RunFile, RunFiles, RunKey
from memory.runs import Run, Runs
from telemetry.memory_events import MemoryReason, MemoryRunEnded, MemoryRunStarted, MemoryStatus, MemoryTrigger, MemoryWorker
from tests.bot.recording import RecordingEmit
from tests.memory.talk import FakeClock, Ground, hangs

KEY = RunKey(MemoryWorker.CONSOLIDATION)
R, S, T = MemoryReason, MemoryStatus, MemoryTrigger
ODD = [
    b'{"v":1,"state":"running","about":{},"started_at":"x"}',
    b'{"v":1,"state":"running","about":{},"started_at":1e999}',
    b'{"v":1,"state":"running","about":{},"trace_id":7}',
    b'{"v":1,"state":"finishing","about":{},"told":[]}',
    b"[" * 100_000,
]


@pytest.fixture
def emit() -> RecordingEmit:
    return RecordingEmit()


@pytest.fixture
def runs(tmp_path: Path, emit: RecordingEmit) -> Runs:
    return Runs(tmp_path, emit=emit, clock=FakeClock(), disk=Disk())


def life(runs: Runs, say: Any) -> None:
    with runs.memory_run(KEY, T.MANUAL, limit_seconds=300.0) as run:
        say(run)


def ends(emit: RecordingEmit) -> list[tuple[MemoryStatus, MemoryReason]]:
    return [(end.status, end.reason) for end in emit.of(MemoryRunEnded)]


def test_the_first_word_counts_and_no_word_is_an_error_of_ours(runs: Runs, emit: RecordingEmit) -> None:
    def twice(run: Run) -> None:
        run.complete(R.RECORDS_UPDATED)
        run.fail(R.LINTER_FAILED)

    life(runs, twice)
    life(runs, lambda run: None)

    assert ends(emit) == [(S.COMPLETED, R.RECORDS_UPDATED), (S.FAILED, R.INTERNAL_ERROR)]


def test_a_reason_that_does_not_go_with_the_status_is_refused(runs: Runs, emit: RecordingEmit) -> None:
    life(runs, lambda run: run.complete(R.CANDIDATES_FOUND))

    assert ends(emit) == [(S.FAILED, R.INTERNAL_ERROR)]


@pytest.mark.parametrize("stop", [asyncio.CancelledError(), asyncio.CancelledError("superseded"), KeyboardInterrupt(), SystemExit(1)])
def test_what_stops_a_run_goes_on_and_the_run_has_its_end(stop: BaseException, runs: Runs, emit: RecordingEmit) -> None:
    def stops(_: Run) -> None:
        raise stop

    with pytest.raises(type(stop)):
        life(runs, stops)

    assert ends(emit) == [(S.CANCELLED, R.SUPERSEDED if "superseded" in stop.args else R.INTERRUPTED)]


def test_inside_there_is_a_run_file_and_afterwards_there_is_none(runs: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "_state" / "runs"

    def look(run: Run) -> None:
        (path,) = folder.iterdir()
        assert path.name == f"memory_consolidation~~manual~{run.id}.json"
        run.complete(R.NO_RECORD_CHANGES)

    life(runs, look)

    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"v": 9}', b'{"v":1,"state":"finishing","about":{},"told":{"status":"?"}}', *ODD])
def test_the_name_of_a_run_file_is_enough_to_end_its_run(content: bytes, runs: Runs, emit: RecordingEmit, tmp_path: Path) -> None:
    path = tmp_path / "_state" / "runs" / "memory_consolidation~~idle~abc.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    runs.recover(KEY, lambda file: (S.FAILED, R.INTERRUPTED, None))

    (end,) = emit.of(MemoryRunEnded)
    assert (end.run_id, end.trigger, end.reason, end.recovered) == ("abc", T.IDLE, R.INTERRUPTED, True)
    assert not path.exists()


@pytest.mark.parametrize("entries", ["null", '"x"', "-1", "1e999", "true"])
async def test_a_run_file_with_odd_numbers_is_ended_and_the_session_read(entries: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    path = tmp_path / "memory" / "_state" / "runs" / f"memory_extract~{ground.session.id}~manual~abc.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"v":1,"state":"running","about":{"generation":0,"start":1,"last":2,"entries":' + entries + "}}")

    (recovered,) = ground.extractor.recover()
    await ground.drain()

    assert (recovered.run_id, recovered.reason, recovered.recovered) == ("abc", R.INTERRUPTED, True)
    assert ground.claims == ["keep it"] and not path.exists()


@pytest.mark.parametrize(
    "field", [{"usage": {"input": "3"}}, {"seconds": 10**400}, {"cost_usd": []}, {"consolidation": {"dispositions": []}}]
)
def test_a_stored_end_of_odd_values_is_judged_anew(field: dict[str, Any], runs: Runs, emit: RecordingEmit, tmp_path: Path) -> None:
    told = {"status": "completed", "reason": "records_updated", "seconds": 4.0, "detail": "d", "model": "m", "usage": None}
    told |= {"cost_usd": None, "extract": None, "consolidation": None, **field}
    RunFiles(tmp_path / "_state", disk=Disk()).save(RunFile(key=KEY, trigger=T.IDLE, run_id="abc", state="finishing", told=told))

    runs.recover(KEY, lambda file: (S.FAILED, R.INTERRUPTED, None))

    assert ends(emit) == [(S.FAILED, R.INTERRUPTED)]


def test_an_end_that_was_stored_is_told_as_it_was(runs: Runs, emit: RecordingEmit, tmp_path: Path) -> None:
    told = {"status": "completed", "reason": "records_updated", "seconds": 4.0, "detail": "d", "model": "m", "usage": {"input": 3}}
    rest = {
        "cost_usd": 0.5,
        "extract": None,
        "consolidation": {"staging_count": 2, "dispositions": {"applied": 2}, "ops": {"write": 1}, "consumed_ids": ["a"]},
    }
    files = RunFiles(tmp_path / "_state", disk=Disk())
    files.save(RunFile(key=KEY, trigger=T.IDLE, run_id="abc", state="finishing", told={**told, **rest}))

    runs.recover(KEY, lambda file: pytest.fail("it was not to be judged"))

    (end,) = emit.of(MemoryRunEnded)
    assert (end.status, end.seconds, end.cost_usd, end.usage and end.usage.input) == (S.COMPLETED, 4.0, 0.5, 3)
    assert end.consolidation and end.consolidation.consumed_ids == ("a",)


def test_files_that_are_none_of_ours_are_left_alone(runs: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "_state" / "runs"
    folder.mkdir(parents=True)
    for name in ("notes.json", "a~b.json", "x~y~z~w.json"):
        (folder / name).write_text("mine")

    assert runs.keys() == set() and runs.recover(KEY, lambda file: pytest.fail("judged")) == []
    assert len(list(folder.iterdir())) == 3


async def test_a_run_of_a_living_process_is_left_alone_by_recovery_and_by_a_second_bot(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    ground.model.turns = [hangs]
    second = Ground(tmp_path)

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(ground.run(T.IDLE))
        while not ground.model.requests:
            await asyncio.sleep(0.001)
        recovered, skipped = second.extractor.recover(), await second.run(T.SESSION_END)
        first.cancel()

    assert recovered == [] and skipped.reason is R.ALREADY_RUNNING
    assert [end.status for end in ground.ends] == [S.CANCELLED]


async def test_runs_of_two_sessions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    with RunFiles(tmp_path / "memory" / "_state", disk=Disk()).locked(RunKey(MemoryWorker.EXTRACT, "another-session")):
        assert (await ground.run()).completed


@pytest.mark.parametrize("logs", ["absent", "forged", "a file", "a link to nowhere"])
async def test_the_logs_are_never_an_input(logs: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    folder = tmp_path / "memory" / "_logs"
    folder.parent.mkdir(parents=True)
    if logs == "forged":
        folder.mkdir()
        end = {"event": "worker_lifecycle", "status": "completed", "extract": {"session_id": ground.session.id, "range": [1, 99]}}
        (folder / "current.log").write_text(json.dumps(end) + "\n")
    elif logs == "a file":
        folder.write_text("x")
    elif logs == "a link to nowhere":
        folder.symlink_to("nowhere")

    for n in range(3):
        ground.log.turn(f"keep {n}")
        await ground.drain(T.TURN_THRESHOLD)
        ground.restarted().recover()

    assert ground.claims == ["keep 0", "keep 1", "keep 2"] and ground.cursor["next"] == 7
    assert len(ground.emit.of(MemoryRunStarted)) == 3


def test_a_cursor_that_cannot_be_read_is_told_and_never_guessed(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    asyncio.run(ground.run())
    path = tmp_path / "memory" / "_state" / "cursors" / f"{ground.session.id}.json"
    path.write_text('{"v": 2}')

    result = asyncio.run(ground.run())

    assert result.reason is R.IO_ERROR and "remove it" in result.detail
    assert ground.claims == ["keep it"]
