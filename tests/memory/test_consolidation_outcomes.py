"""Every trigger with every outcome: what stands in the lines, on the span, in the metric and in the status, and that they agree."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memory.consolidation.outcome import Result
from memory.consolidation.run import KEY, ConsolidationLimits
from memory.disk import Disk
from memory.model_end import ModelEnd
from memory.run_files import RunFile, RunFiles
from telemetry.memory_events import REASONS, TRIGGERS, Disposition, MemoryReason, MemoryStatus, MemoryTrigger, MemoryWorker, TokenUsage
from telemetry.names import SpanName
from telemetry.reference_tables import ANYWHERE, SPANS
from telemetry.status import LatestStatus
from tests.memory.consolidating import Bench, Hand, candidate, stage, waiting
from tests.memory.made_records import put, record
from tests.telemetry.conftest import Kept, recording

pytestmark = pytest.mark.sweep

WORKER = MemoryWorker.CONSOLIDATION
R, S = MemoryReason, MemoryStatus
USAGE = TokenUsage(input=900, output=80, cache_read=700, cache_creation=60)
CLAIM = "The freeze begins on Friday."


class FailingDisk(Disk):
    """Takes run files, and fails at the journal."""

    def __init__(self, error: int) -> None:
        self._error = error

    def create(self, path: Path, content: bytes) -> None:
        if "journal" in path.name:
            raise OSError(self._error, os.strerror(self._error))
        super().create(path, content)


Act = Callable[[Bench, MemoryTrigger], Awaitable[Result]]


def model(rule: Any, disk: Disk | None = None) -> Act:
    async def act(bench: Bench, trigger: MemoryTrigger) -> Result:
        bench.put(record("old", body="The freeze begins on Friday."))
        stage(bench.insomnia, candidate(CLAIM))
        bench.model.rules = [rule]
        bench.restarted(disk=disk)
        return await bench.run(trigger)

    return act


async def writes(hand: Hand) -> ModelEnd:
    (one,) = await hand.candidates()
    await hand.write("freeze", one["id"], content="It begins on Friday, the freeze.")
    return ModelEnd(model="claude-x", usage=USAGE, cost_usd=0.02)


async def knows(hand: Hand) -> None:
    (one,) = await hand.candidates()
    await hand("staging_resolve", candidate=one["id"], disposition="duplicate", reason="It says the same.", record="decision/old")


async def changes_nothing(hand: Hand) -> None:
    (one,) = await hand.candidates()
    await hand("memory_edit", kind="decision", slug="old", old_text="Friday.", new_text="Friday.", candidates=[one["id"]])


async def raises(hand: Hand) -> None:
    raise RuntimeError(f"what the model said: {CLAIM}")


async def hangs(hand: Hand) -> None:
    await asyncio.Event().wait()


async def says_nothing(hand: Hand) -> None:
    await hand.candidates()


async def is_refused(hand: Hand) -> None:
    (one,) = await hand.candidates()
    await hand.write("freeze", one["id"], content="See [[nothing]].")


async def reaches_out(hand: Hand) -> None:
    (one,) = await hand.candidates()
    await hand("memory_edit", kind="decision", slug="old", old_text="Friday", new_text="Monday", candidates=["5e551011.00000009.000"])
    await hand.write("freeze", one["id"], "5e551011.00000009.000")


async def is_overtaken(bench: Bench, trigger: MemoryTrigger) -> Result:
    async def slow(hand: Hand) -> None:
        (one,) = await hand.candidates()
        await hand("memory_edit", kind="decision", slug="old", old_text="Friday.", new_text="Friday, it is said.", candidates=[one["id"]])
        put(bench.insomnia, "A person's own text.", "old")

    return await model(slow)(bench, trigger)


async def of_another_place(bench: Bench, trigger: MemoryTrigger) -> Result:
    async def leaks(hand: Hand) -> None:
        (one,) = await hand.candidates()
        await hand("memory_edit", kind="decision", slug="old", old_text="Friday.", new_text="Friday, says Bob.", candidates=[one["id"]])

    bench.put(record("old", body="The freeze begins on Friday."))
    stage(bench.insomnia, candidate(CLAIM, scope="user:U1"))
    bench.model.rules = [leaks]
    return await bench.run(trigger)


async def nothing_staged(bench: Bench, trigger: MemoryTrigger) -> Result:
    return await bench.run(trigger)


async def c066_only_broken_files(bench: Bench, trigger: MemoryTrigger) -> Result:
    (one, two) = stage(bench.insomnia, candidate(CLAIM), candidate(CLAIM))
    folder = bench.insomnia / "memory" / "_staging" / one.rpartition(".")[0]
    (folder / f"{one}.json").write_text('{"v": 1, "id": ', encoding="utf-8")
    (folder / f"{two}.json").write_text('{"v": 0, "claim": "of an older version"}', encoding="utf-8")
    return await bench.run(trigger)


async def held_elsewhere(bench: Bench, trigger: MemoryTrigger) -> Result:
    stage(bench.insomnia, candidate(CLAIM))
    with RunFiles(bench.insomnia / "memory" / "_state", disk=Disk()).locked(KEY):
        return await bench.run(trigger)


def decided(reason: MemoryReason) -> Act:
    async def act(bench: Bench, trigger: MemoryTrigger) -> Result:
        return bench.consolidator.skip(trigger, reason)

    return act


def cancelled(*word: MemoryReason) -> Act:
    async def act(bench: Bench, trigger: MemoryTrigger) -> Result:
        stage(bench.insomnia, candidate(CLAIM))
        asked = asyncio.Event()

        async def waits(hand: Hand) -> None:
            await writes(hand)
            asked.set()
            await asyncio.Event().wait()

        bench.model.rules = [waits]
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(bench.run(trigger))
            await asked.wait()
            run.cancel(*word)
        assert run.cancelled() and bench.records() == {} and waiting(bench.insomnia) == [CLAIM]
        return Result(run_id="", status=S.CANCELLED, reason=word[0] if word else R.INTERRUPTED)

    return act


async def died(bench: Bench, trigger: MemoryTrigger) -> Result:
    """Its process, in the middle of the model's work; the next one tells the end."""
    files = RunFiles(bench.insomnia / "memory" / "_state", disk=Disk())
    about = {"staging": 1, "invalid": 0, "scope": "workspace"}
    files.save(RunFile(key=KEY, trigger=trigger, run_id="dead", started_at=bench.clock.now() - 9, about=about))
    (result,) = bench.restarted().recover()
    return result


OUTCOMES: dict[tuple[MemoryStatus, MemoryReason], Act] = {
    (S.COMPLETED, R.RECORDS_UPDATED): model(writes),
    (S.COMPLETED, R.NOTHING_ADOPTED): model(knows),
    (S.COMPLETED, R.NO_RECORD_CHANGES): model(changes_nothing),
    (S.SKIPPED, R.NO_STAGING): nothing_staged,
    (S.SKIPPED, R.NO_VALID_STAGING): c066_only_broken_files,
    (S.SKIPPED, R.ALREADY_RUNNING): held_elsewhere,
    **{(S.SKIPPED, r): decided(r) for r in (R.BELOW_THRESHOLD, R.COOLDOWN, R.BACKOFF, R.DISABLED, R.BUDGET_EXHAUSTED)},
    (S.FAILED, R.MODEL_ERROR): model(raises),
    (S.FAILED, R.MODEL_TIMEOUT): model(hangs),
    (S.FAILED, R.MODEL_OUTPUT_INVALID): model(says_nothing),
    (S.FAILED, R.LINTER_FAILED): model(is_refused),
    (S.FAILED, R.SCOPE_ERROR): of_another_place,
    (S.FAILED, R.STORE_CONFLICT): is_overtaken,
    (S.FAILED, R.IO_ERROR): model(writes, disk=FailingDisk(errno.EIO)),
    (S.FAILED, R.DISK_FULL): model(writes, disk=FailingDisk(errno.ENOSPC)),
    (S.FAILED, R.INTERRUPTED): died,
    (S.CANCELLED, R.INTERRUPTED): cancelled(),
    (S.CANCELLED, R.USER_CANCELLED): cancelled(R.USER_CANCELLED),
    (S.CANCELLED, R.SUPERSEDED): cancelled(R.SUPERSEDED),
}
ELSEWHERE = {(S.FAILED, R.INTERNAL_ERROR)}


def test_every_reason_that_consolidation_may_give_is_brought_about() -> None:
    assert OUTCOMES.keys() | ELSEWHERE == {(status, reason) for status, reasons in REASONS[WORKER].items() for reason in reasons}


@pytest.mark.parametrize("trigger", TRIGGERS[WORKER])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: f"{outcome[0]}-{outcome[1]}")
async def test_line_span_metric_and_status_say_the_same(
    outcome: tuple[MemoryStatus, MemoryReason], trigger: MemoryTrigger, tmp_path: Path
) -> None:
    status, reason = outcome
    latest = LatestStatus(None, slack_mode="embedded", model_kind="anthropic")
    kept = Kept()
    with recording(span_processors=[latest, kept], listeners=[latest.hear]) as recorded:
        recorded.kept = kept
        limits = ConsolidationLimits(seconds=0.01 if reason is R.MODEL_TIMEOUT else 30.0)
        bench = Bench(tmp_path, emit=recorded.emit, limits=limits)
        result = await OUTCOMES[outcome](bench, trigger)
        lines, spans, shown = recorded.records(), recorded.spans(), latest.latest().memory
        counted = recorded.nonzero("insomnia.memory.runs")

    assert (result.status, result.reason) == outcome
    *started, end = [line["attributes"] for line in lines if line["event_name"] == "worker_lifecycle"]
    names = [line["event_name"] for line in lines]
    stands_alone = status is S.SKIPPED or outcome == (S.FAILED, R.INTERRUPTED)  # the dead process told the start
    assert [line["status"] for line in started] == ([] if stands_alone else ["started"])
    common = {"worker": "memory_consolidation", "trigger": trigger.value}
    assert {key: end[key] for key in (*common, "status", "reason")} == {**common, "status": status.value, "reason": reason.value}
    assert all({key: line[key] for key in common} == common and line["run_id"] == end["run_id"] for line in started)
    before_end = {S.COMPLETED: ["store_commit"], S.SKIPPED: []}.get(status, ["store_discard"])
    assert [name for name in names if name.startswith("store_")] == before_end and names[-1] == "worker_lifecycle"
    assert not before_end or names[-2] == before_end[0]
    (span,) = [span for span in spans if span["name"] == "memory.run memory_consolidation"]
    assert span["parent_id"] == "" and {line["trace_id"] for line in lines} == {span["trace_id"]}
    told = {f"insomnia.memory.{key}": end[key] for key in ("run_id", "worker", "trigger", "status", "reason")}
    assert {key: span["attributes"][key] for key in told} == told
    assert (span["status"] == "ERROR") == (status is S.FAILED)
    assert counted == [({"worker": "memory_consolidation", "trigger": trigger.value, "status": status.value, "reason": reason.value}, 1)]
    assert shown is not None
    assert (shown.run_id, shown.status, shown.reason, shown.trace_id) == (end["run_id"], status.value, reason.value, span["trace_id"])
    assert CLAIM not in str(lines) + str(spans)
    for each in spans:  # the reference tells of every attribute
        (name,) = [name for name in SpanName if each["name"] == name or each["name"].startswith(f"{name.value} ")]
        assert each["attributes"].keys() <= {attr.value for attr in (*SPANS.get(name, ()), *ANYWHERE)}, each["name"]
    work = end["consolidation"]
    assert sum(work["dispositions"].values()) == (work["staging_count"] if status is S.COMPLETED else 0)
    assert work["consumed_count"] == len(work["consumed_ids"]) == sum(work["dispositions"].values()) - work["dispositions"]["deferred"]
    applied = [
        line["attributes"] for line in lines if line["event_name"] == "record_operation" and line["attributes"]["status"] == "applied"
    ]
    assert sum(work["ops"].values()) == len(applied)


async def test_a_run_that_wrote_tells_the_fields_of_the_seed(tmp_path: Path) -> None:
    with recording() as recorded:
        bench = Bench(tmp_path, emit=recorded.emit)
        await OUTCOMES[S.COMPLETED, R.RECORDS_UPDATED](bench, MemoryTrigger.STAGING_BACKLOG)
        lines, tree = recorded.records(), recorded.tree()

    started, planned, applied, commit, end = [line["attributes"] for line in lines]
    assert started["consolidation"] | {"staging_count": 1, "invalid_count": 0} == started["consolidation"]
    assert (planned["status"], applied["status"]) == ("planned", "applied")
    same = ("kind", "slug", "path", "op", "after_sha256", "run_id")
    assert {key: planned[key] for key in same} == {key: applied[key] for key in same}
    assert applied["path"] == "memory/decision/freeze.md" and commit["paths"] == ("memory/decision/freeze.md",)
    assert end["usage"] == {"input": 900, "output": 80, "cache_read": 700, "cache_creation": 60} and end["cost_usd"] == 0.02
    work = end["consolidation"]
    assert work["dispositions"] == {each.value: int(each is Disposition.APPLIED) for each in Disposition}
    assert work["ops"] == {"write": 1, "edit": 0, "trim": 0, "merge": 0, "drop": 0, "delete": 0}
    assert work["consumed_ids"] == ("5e551011.00000001.000",)
    (run,) = tree
    assert run == {
        "memory.run memory_consolidation": [
            "memory.snapshot",
            "execute_tool staging_list",
            "execute_tool memory_write",
            "memory.commit",
        ]
    }


async def test_a_fault_of_our_own_ends_the_run_and_tells_where_but_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError(CLAIM)

    monkeypatch.setattr("memory.consolidation.run.survival", broken)
    bench = Bench(tmp_path, writes)
    stage(tmp_path, candidate(CLAIM))

    result = await bench.run(MemoryTrigger.STAGING_BACKLOG)

    assert (result.status, result.reason) == (S.FAILED, R.INTERNAL_ERROR)
    assert "KeyError in test_consolidation_outcomes.py, line " in result.detail and "freeze" not in result.detail
    assert (await bench.run(MemoryTrigger.STAGING_BACKLOG)).reason is R.BACKOFF
    assert waiting(tmp_path) == [CLAIM]


async def test_c066_what_is_broken_is_put_aside_counted_and_not_taken_for_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    ids = stage(tmp_path, *(candidate(f"{CLAIM} {n}") for n in range(4)))
    folder = tmp_path / "memory" / "_staging" / ids[0].rpartition(".")[0]
    (folder / f"{ids[2]}.json").write_text('{"v": 1, "id": ', encoding="utf-8")
    (folder / f"{ids[3]}.json").write_text('{"v": 0}', encoding="utf-8")

    first, second = await bench.run(), await bench.run()

    assert (first.work.staging_count, first.work.invalid_count, first.work.consumed_count) == (2, 2, 2)
    assert second.reason is R.NO_STAGING
    aside = sorted(path.name for path in (tmp_path / "memory" / "_staging" / "_invalid").rglob("*.json"))
    assert aside == [f"{ids[2]}.json", f"{ids[3]}.json"]


async def test_candidates_of_several_places_are_worked_in_one_wish_and_several_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    scopes = ("workspace", "channel:C1", "user:U1")
    for number, scope in enumerate(scopes):
        stage(tmp_path, candidate(f"{CLAIM} {scope}", scope=scope), start=3 * number + 1)

    results = await bench.consolidator.drain(MemoryTrigger.MANUAL)

    assert [(result.reason, result.work.scope) for result in results] == [(R.RECORDS_UPDATED, scope) for scope in scopes]
    assert sorted(str(each.scope) for each in bench.records().values()) == sorted(scopes)
    assert (await bench.consolidator.drain(MemoryTrigger.MANUAL))[0].reason is R.NO_STAGING


async def test_a_drain_looks_at_each_candidate_once_and_the_tired_ones_ask_for_nothing_any_more(tmp_path: Path) -> None:
    async def defers(hand: Hand) -> None:
        for one in await hand.candidates():
            await hand("staging_resolve", candidate=one["id"], disposition="deferred", reason="Not now.")

    bench = Bench(tmp_path, defers)
    stage(tmp_path, *(candidate(f"{CLAIM} {n}") for n in range(50)))

    for _ in range(3):
        results = await bench.consolidator.drain(MemoryTrigger.MANUAL)
        assert [result.work.staging_count for result in results] == [40, 10]
    assert (bench.consolidator.backlog().candidates, bench.consolidator.backlog().fresh) == (50, 0)


async def test_after_a_run_there_is_a_pause_and_after_failures_a_longer_one_each_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stage(tmp_path, candidate(CLAIM))
    await bench.run(MemoryTrigger.STAGING_BACKLOG)
    stage(tmp_path, candidate(f"{CLAIM} again"), start=5)

    assert (await bench.run(MemoryTrigger.STAGING_BACKLOG)).reason is R.COOLDOWN
    assert (await bench.run(MemoryTrigger.IDLE)).reason is R.COOLDOWN
    bench.clock.at += 601.0
    bench.model.rules = [raises]
    assert (await bench.run(MemoryTrigger.STAGING_BACKLOG)).reason is R.MODEL_ERROR
    for pause in (60.0, 300.0):
        bench.clock.at += pause - 1.0
        assert (await bench.run(MemoryTrigger.STAGING_BACKLOG)).reason is R.BACKOFF
        bench.clock.at += 2.0
        assert (await bench.run(MemoryTrigger.STAGING_BACKLOG)).reason is R.MODEL_ERROR
    assert (await bench.run(MemoryTrigger.MANUAL)).reason is R.MODEL_ERROR
    bench.model.rules = [writes]
    assert (await bench.run(MemoryTrigger.MANUAL)).reason is R.RECORDS_UPDATED
