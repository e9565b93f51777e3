"""What lies in the way of consolidation: candidates that nobody can show, a journal that nobody can read, runs that always fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.model_end import ModelEnd, ModelHow
from telemetry.memory_events import MemoryReason, MemoryTrigger
from tests.memory.consolidating import Bench, Hand, candidate, stage, writes_all

R = MemoryReason
CLAIM = "The freeze begins on Friday."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", float("nan")),
        ("confidence", float("inf")),
        ("confidence", 10**400),
        ("confidence", -1),
        ("excerpt", "half \ud800 of a sign"),
        ("trust", float("nan")),
        ("trust", ["user"]),
        ("ts", "\udcff"),
    ],
    ids=range(8),
)
async def test_a_candidate_that_could_not_be_shown_is_put_aside_and_the_others_go_on(field: str, value: Any, tmp_path: Path) -> None:
    async def reads(hand: Hand) -> None:
        for one in await hand.candidates():
            await hand("staging_read", candidate=one["id"])
        await writes_all(hand)

    bench = Bench(tmp_path, reads)
    ids = stage(tmp_path, candidate(f"{CLAIM} 0"), candidate(f"{CLAIM} 1"))
    file = next((tmp_path / "memory" / "_staging").glob(f"*/{ids[0]}.json"))
    fields = json.loads(file.read_bytes())
    (fields if field == "confidence" else fields["evidence"][0])[field] = value
    file.write_text(json.dumps(fields), encoding="utf-8")

    assert bench.consolidator.backlog().candidates == 1
    result = await bench.run()

    assert (result.reason, result.work.invalid_count, result.work.consumed_count) == (R.RECORDS_UPDATED, 1, 1)


@pytest.mark.parametrize("broken", ["{", '{"v": 1, "counts": {"records": 1e999}}'])
async def test_a_journal_that_cannot_be_read_is_told_with_longer_and_longer_pauses(broken: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stage(tmp_path, candidate(CLAIM))
    journal = tmp_path / "memory" / "_state" / "journal.json"
    journal.write_text(broken)

    results = []
    for _ in range(120):  # an hour of looks
        results.append((await bench.run(MemoryTrigger.STAGING_BACKLOG)).reason)
        bench.clock.at += 30.0
    asked = await bench.run()
    journal.unlink()
    mended = await bench.run()

    assert results[0] is R.IO_ERROR and results.count(R.IO_ERROR) <= 5 and set(results) == {R.IO_ERROR, R.BACKOFF}
    assert asked.reason is R.IO_ERROR and mended.reason is R.RECORDS_UPDATED


async def test_a_candidate_of_twenty_failed_runs_asks_for_nothing_any_more(tmp_path: Path) -> None:
    async def fails(hand: Hand) -> ModelEnd:
        return ModelEnd(how=ModelHow.ERROR)

    bench = Bench(tmp_path, *[fails] * 20, writes_all)
    stage(tmp_path, candidate(CLAIM))

    fresh = []
    for _ in range(20):
        fresh.append(bench.consolidator.backlog().fresh)
        await bench.run()

    assert fresh == [1] * 20 and bench.consolidator.backlog().fresh == 0
    assert (await bench.run()).reason is R.RECORDS_UPDATED, "it is taken along, and when a person asks"
