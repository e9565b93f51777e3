"""Every trigger with every outcome: what stands in the lines, on the span, in the metric and in the status, and that they agree."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memory.disk import Disk
from memory.extract import ExtractLimits, ModelEnd, ModelHow, RunResult
from memory.run_files import RunFile, RunFiles, RunKey
from telemetry.memory_events import REASONS, TRIGGERS, MemoryReason, MemoryStatus, MemoryTrigger, MemoryWorker, TokenUsage
from telemetry.names import SpanName
from telemetry.status import LatestStatus
from tests.memory.talk import FakeModel, Ground, calling, claim, ending, hangs, raising
from tests.telemetry.conftest import Kept, Recorded, recording

pytestmark = pytest.mark.sweep

EXTRACT = MemoryWorker.EXTRACT
R, S = MemoryReason, MemoryStatus
USAGE = TokenUsage(input=900, output=80, cache_read=700, cache_creation=60)


class FailingDisk(Disk):
    """Takes run files, and fails at what is staged."""

    def __init__(self, error: int) -> None:
        self._error = error

    def rename(self, source: Path, target: Path) -> None:
        if "_staging" in target.parts:
            raise OSError(self._error, os.strerror(self._error))
        super().rename(source, target)


Act = Callable[[Ground, MemoryTrigger], Awaitable[RunResult]]


def model(*turns: Any, disk: Disk | None = None) -> Act:
    async def act(ground: Ground, trigger: MemoryTrigger) -> RunResult:
        ground.log.turn("keep the freeze")
        ground.model.turns = list(turns)
        ground.restarted(emit=ground.emit, disk=disk)
        return await ground.run(trigger)

    return act


async def finds(request: Any, stage: Any) -> ModelEnd:
    stage({"candidates": [claim("The freeze begins on Friday.", 1)]})
    return ModelEnd(model="claude-x", usage=USAGE, cost_usd=0.02)


async def nothing_new(ground: Ground, trigger: MemoryTrigger) -> RunResult:
    return await ground.run(trigger)


async def held_elsewhere(ground: Ground, trigger: MemoryTrigger) -> RunResult:
    ground.log.turn("keep")
    with RunFiles(ground.insomnia / "memory" / "_state", disk=Disk()).locked(RunKey(EXTRACT, ground.session.id)):
        return await ground.run(trigger)


def decided(reason: MemoryReason) -> Act:
    async def act(ground: Ground, trigger: MemoryTrigger) -> RunResult:
        return ground.extractor.skip(ground.session, trigger, reason)

    return act


async def unreadable(ground: Ground, trigger: MemoryTrigger) -> RunResult:
    ground.log.path.write_bytes(b"\x00garbage\nmore\n")
    return await ground.run(trigger)


def cancelled(*word: MemoryReason) -> Act:
    async def act(ground: Ground, trigger: MemoryTrigger) -> RunResult:
        ground.log.turn("keep")
        asked = asyncio.Event()

        async def waits(request: Any, stage: Any) -> ModelEnd:
            asked.set()
            return await hangs(request, stage)

        ground.model.turns = [waits]
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(ground.run(trigger))
            await asked.wait()
            run.cancel(*word)
        assert run.cancelled()
        return RunResult(run_id="", status=S.CANCELLED, reason=word[0] if word else R.INTERRUPTED)

    return act


async def died(ground: Ground, trigger: MemoryTrigger) -> RunResult:
    """Its process, in the middle of the model's work; the next one tells the end."""
    files = RunFiles(ground.insomnia / "memory" / "_state", disk=Disk())
    about = {"route": "main", "generation": 0, "start": 1, "last": 2, "entries": 2}
    files.save(
        RunFile(key=RunKey(EXTRACT, ground.session.id), trigger=trigger, run_id="dead", started_at=ground.clock.now() - 9, about=about)
    )
    (result,) = ground.restarted(emit=ground.emit).recover()
    return result


OUTCOMES: dict[tuple[MemoryStatus, MemoryReason], Act] = {
    (S.COMPLETED, R.CANDIDATES_FOUND): model(finds),
    (S.COMPLETED, R.NO_CANDIDATES): model(calling({"candidates": []})),
    (S.SKIPPED, R.NO_NEW_SESSION_RANGE): nothing_new,
    (S.SKIPPED, R.ALREADY_RUNNING): held_elsewhere,
    **{(S.SKIPPED, r): decided(r) for r in (R.BELOW_THRESHOLD, R.COOLDOWN, R.BACKOFF, R.DISABLED, R.BUDGET_EXHAUSTED)},
    (S.FAILED, R.MODEL_ERROR): model(raising(RuntimeError("what the model said: keep the freeze"))),
    (S.FAILED, R.MODEL_TIMEOUT): model(hangs),
    (S.FAILED, R.MODEL_OUTPUT_INVALID): model(calling()),
    (S.FAILED, R.IO_ERROR): model(finds, disk=FailingDisk(errno.EIO)),
    (S.FAILED, R.DISK_FULL): model(finds, disk=FailingDisk(errno.ENOSPC)),
    (S.FAILED, R.SESSION_LOG_UNREADABLE): unreadable,
    (S.FAILED, R.INTERRUPTED): died,
    (S.CANCELLED, R.INTERRUPTED): cancelled(),
    (S.CANCELLED, R.USER_CANCELLED): cancelled(R.USER_CANCELLED),
    (S.CANCELLED, R.SUPERSEDED): cancelled(R.SUPERSEDED),
}
# Each has a test of its own below or beside: they take more than one run. Nothing ends an extract run with a scope error:
# evidence of two private places is the model's to mend.
ELSEWHERE = {(S.FAILED, R.RANGE_QUARANTINED), (S.FAILED, R.INTERNAL_ERROR), (S.FAILED, R.SCOPE_ERROR)}


@pytest.fixture
def recorded() -> Any:
    with recording() as recorded:
        yield recorded


def test_every_reason_that_extract_may_give_is_brought_about() -> None:
    assert OUTCOMES.keys() | ELSEWHERE == {(status, reason) for status, reasons in REASONS[EXTRACT].items() for reason in reasons}


@pytest.mark.parametrize("trigger", TRIGGERS[EXTRACT])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: f"{outcome[0]}-{outcome[1]}")
async def test_line_span_metric_and_status_say_the_same(
    outcome: tuple[MemoryStatus, MemoryReason], trigger: MemoryTrigger, tmp_path: Path
) -> None:
    status, reason = outcome
    latest = LatestStatus(None, slack_mode="embedded", model_kind="anthropic")
    kept = Kept()
    with recording(span_processors=[latest, kept], listeners=[latest.hear]) as recorded:
        recorded.kept = kept
        seconds = 0.01 if reason is R.MODEL_TIMEOUT else 30.0
        ground = Ground(tmp_path, emit=recorded.emit, limits=ExtractLimits(seconds=seconds))
        result = await OUTCOMES[outcome](ground, trigger)
        lines, spans, shown = recorded.records(), recorded.spans(), latest.latest().memory
        counted = recorded.nonzero("insomnia.memory.runs")

    assert (result.status, result.reason) == outcome
    assert [line["event_name"] for line in lines] == ["worker_lifecycle"] * len(lines)
    *started, end = [line["attributes"] for line in lines]
    stands_alone = status is S.SKIPPED or outcome == (S.FAILED, R.INTERRUPTED)  # the dead process told the start
    assert [line["status"] for line in started] == ([] if stands_alone else ["started"])
    common = {"worker": "memory_extract", "trigger": trigger.value}
    assert {key: end[key] for key in (*common, "status", "reason")} == {**common, "status": status.value, "reason": reason.value}
    assert all({key: line[key] for key in common} == common and line["run_id"] == end["run_id"] for line in started)
    assert end["duration_ms"] >= 0 and end["extract"]["session_id"] == ground.session.id and end["extract"]["route"] == "main"
    (span,) = [span for span in spans if span["name"] == "memory.run memory_extract"]
    assert span["parent_id"] == ""
    assert {line["trace_id"] for line in lines} == {span["trace_id"]} and {line["span_id"] for line in lines} == {span["span_id"]}
    told = {f"insomnia.memory.{key}": end[key] for key in ("run_id", "worker", "trigger", "status", "reason")}
    assert {key: span["attributes"][key] for key in told} == told
    assert (span["status"] == "ERROR") == (status is S.FAILED)
    assert span["attributes"].get("error.type") == (reason.value if status is S.FAILED else None)
    assert counted == [({"worker": "memory_extract", "trigger": trigger.value, "status": status.value, "reason": reason.value}, 1)]
    assert shown is not None
    assert (shown.run_id, shown.status, shown.reason, shown.trace_id) == (end["run_id"], status.value, reason.value, span["trace_id"])
    assert "freeze" not in str(lines) + str(spans)


async def test_a_run_that_found_something_tells_the_fields_of_the_seed(tmp_path: Path) -> None:
    with recording() as recorded:
        ground = Ground(tmp_path, emit=recorded.emit)
        await OUTCOMES[S.COMPLETED, R.CANDIDATES_FOUND](ground, MemoryTrigger.SESSION_END)
        started, end = [line["attributes"] for line in recorded.records()]
        tree = recorded.tree()

    assert started["extract"] == {
        "session_id": ground.session.id,
        "route": "main",
        "range": (1, 2),
        "entries": 2,
        "staged": 0,
        "staging_ids": (),
    }
    assert end["extract"] == {
        **started["extract"],
        "staged": 1,
        "staging_ids": ("5e551011.00000001.000",),
        "staging_path": "memory/_staging/5e551011.00000001",
    }
    assert started["model"] == "rule" and end["model"] == "claude-x"
    assert end["usage"] == {"input": 900, "output": 80, "cache_read": 700, "cache_creation": 60} and end["cost_usd"] == 0.02
    assert tree == [{"memory.run memory_extract": ["memory.read_range", "memory.commit"]}]


async def test_a_run_is_linked_to_the_reply_that_triggered_it(recorded: Recorded, tmp_path: Path) -> None:
    ground = Ground(tmp_path, emit=recorded.emit)
    ground.log.turn("keep")
    with recorded.emit.span(SpanName.PROCESS) as reply:
        await ground.extractor.run(ground.session, MemoryTrigger.TURN_THRESHOLD, link=reply.ref)

    span = recorded.span("memory.run memory_extract")
    assert span["links"] == [reply.ref.span_id] and span["trace_id"] != reply.ref.trace_id


async def test_the_end_of_a_dead_run_is_marked_and_linked_to_what_it_was(recorded: Recorded, tmp_path: Path) -> None:
    ground = Ground(tmp_path, emit=recorded.emit)

    await died(ground, MemoryTrigger.SESSION_END)

    (line,) = recorded.records()
    assert line["attributes"]["recovered"] is True and line["attributes"]["duration_ms"] == 9_000


async def test_a_fault_of_our_own_ends_the_run_and_tells_where_but_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("keep the freeze")

    monkeypatch.setattr("memory.extraction.candidate_fields", broken)
    ground = Ground(tmp_path, model=FakeModel([finds]))
    ground.log.turn("keep the freeze")

    result = await ground.run(MemoryTrigger.SESSION_END)

    assert (result.status, result.reason) == (S.FAILED, R.INTERNAL_ERROR)
    assert "KeyError in test_extract_outcomes.py, line " in result.detail and "freeze" not in result.detail
    assert (await ground.run(MemoryTrigger.SESSION_END)).reason is R.BACKOFF


async def test_the_smallest_piece_is_put_aside_after_three_failures_and_the_cursor_moves_on(tmp_path: Path) -> None:
    ground = Ground(tmp_path, model=FakeModel([ending(how=ModelHow.REFUSED)] * 3))
    ground.log.add("user", "refused for ever")

    results = [await ground.run() for _ in range(4)]

    assert [result.reason for result in results] == [R.MODEL_ERROR, R.MODEL_ERROR, R.RANGE_QUARANTINED, R.NO_NEW_SESSION_RANGE]
    (note,) = (ground.insomnia / "memory" / "_state" / "quarantined").glob("*.json")
    assert '"range": [1, 1]' in note.read_text() and "refused for ever" not in note.read_text()
    assert ground.cursor["next"] == 2
