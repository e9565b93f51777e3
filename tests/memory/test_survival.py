"""What is left of a memory after many runs: the same candidates again and again, and a model that is a little wrong each time."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from memory.consolidation.specifics import lost, specifics
from memory.records import Record, RecordKind
from memory.usage import UsageLog
from telemetry.memory_events import MemoryReason, MemoryStatus, RecordUsed, UsageOp, UsageStatus
from telemetry.troubles import Troubles
from tests.memory.consolidating import Bench, Hand, candidate, stage, waiting
from tests.memory.made_records import record

RUNS = 100
CLAIM = "The deploy freeze starts Friday 15:00 on kestrel-12, says Tanaka-san."


async def careful(hand: Hand) -> None:
    """Writes what is new; a text that is there already is a duplicate."""
    for one in await hand.candidates():
        found = await hand("memory_query", query=one["claim"][:200])
        same = next((each for each in found["results"] if each["excerpt"] == one["claim"]), None)
        if same:
            name = f"{same['kind']}/{same['slug']}"
            await hand("staging_resolve", candidate=one["id"], disposition="duplicate", reason="It says the same.", record=name)
        else:
            await hand.write(f"freeze-{one['id'][-14:].replace('.', '-')}", one["id"], content=one["claim"])


@pytest.mark.sweep
async def test_fifty_runs_over_the_same_candidates_leave_one_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, careful)

    results, texts = [], set()
    for n in range(50):
        stage(tmp_path, candidate(CLAIM, n=2 * n + 1), start=2 * n + 1)
        results.append(await bench.run())
        texts.add(next((tmp_path / "memory" / "decision").glob("*.md")).read_bytes())

    assert len(bench.records()) == 1 and len(texts) == 1
    assert [result.reason for result in results] == [MemoryReason.RECORDS_UPDATED, *[MemoryReason.NOTHING_ADOPTED] * 49]
    assert waiting(tmp_path) == [] and not list((tmp_path / "memory" / "_staging").iterdir())
    assert {result.work.specifics_lost for result in results} == {0}


NAMES = ("Tanaka", "Sato", "Alice", "Bob", "Yamada", "Ines")
PLACES = ("kestrel", "osprey", "heron", "merlin")


def facts(chance: random.Random, n: int) -> str:
    name, place = chance.choice(NAMES), chance.choice(PLACES)
    day, hour = chance.randint(1, 28), chance.randint(8, 19)
    return (
        f"On 2026-12-{day:02d} at {hour}:30 the server {place}-{n} is moved, says {name}. "
        f"It costs {chance.randint(100, 999)} EUR a month and needs {n + 3} disks. 窓口は佐藤さん、予算は{chance.randint(2, 90)}万円。"
    )


def memory_of(chance: random.Random) -> list[Record]:
    """40 records: ten are pinned, ten are used, the others are nobody's."""
    return [record(f"move-{n}", body=facts(chance, n), pinned=n < 10) for n in range(40)]


class SlightlyWrong:
    """Each run it changes what is there as a model does that means well: it rounds, forgets a name, merges two texts and loses half,
    declares some of it and not the rest, drops what looks old.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def __call__(self, hand: Hand) -> None:
        chance = self._chance
        (one,) = await hand.candidates()
        slugs = [f"move-{n}" for n in range(40)]
        chance.shuffle(slugs)
        for slug in slugs[:8]:
            read = await hand("memory_read", kind="decision", slug=slug)
            if "error" in read:
                continue
            text = read["content"]
            gone = sorted(specifics(text))
            some = [{"text": each, "why": "It seemed old."} for each in chance.sample(gone, k=len(gone) // 2)]
            act = chance.choice(("round", "forget", "rewrite", "declare", "trim", "drop", "merge", "stale"))
            edit: dict[str, Any] = {"kind": "decision", "slug": slug, "old_text": text}
            if act == "round":
                await hand("memory_edit", **edit, new_text=text.replace(":30", ":00"))
            elif act == "forget":
                await hand("memory_edit", **edit, new_text=text.split(", says")[0] + ".")
            elif act == "rewrite":
                await hand("memory_edit", **edit, new_text="A server is moved.", dropped_specifics=some)
            elif act == "declare":
                every = [{"text": each, "why": "It seemed old."} for each in gone]
                await hand("memory_edit", **edit, new_text="A server is moved.", candidates=[one["id"]], dropped_specifics=every)
            elif act == "trim":
                await hand("memory_trim", kind="decision", slug=slug, remove=[text[len(text) // 2 :]], why="Long.")
            elif act == "drop":
                await hand("memory_drop", kind="decision", slug=slug, category="outdated", why="It is over.")
            elif act == "merge":
                other = chance.choice(slugs[8:])
                await hand("memory_merge", kind="decision", slug=slug, from_=[other], content=text, dropped_specifics=some)
            else:
                await hand("memory_edit", kind="decision", slug=slug, status="stale", description="Probably over")
        if not await self._settled(hand):
            await hand("staging_resolve", candidate=one["id"], disposition="discarded", reason="Nothing new.")

    @staticmethod
    async def _settled(hand: Hand) -> bool:
        return (await hand.candidates())[0]["settled"] is not None


def survived(records: list[Record], bench: Bench) -> list[str]:
    """What of these texts is nowhere any more."""
    after = [f"{each.title}\n{each.description}\n{each.body}" for each in bench.store.view().records()]
    return sorted(lost((each.body for each in records), after))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_runs_of_a_model_that_is_slightly_wrong_take_nothing_from_what_is_pinned_or_used(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    records = memory_of(chance)
    bench = Bench(tmp_path, SlightlyWrong(chance))
    bench.put(*records)
    usage = UsageLog(tmp_path, now=bench.clock.now, troubles=Troubles())
    for each in records[10:20]:
        used = RecordUsed(op=UsageOp.QUERY, status=UsageStatus.FOUND, caller="main", results=1)
        usage.keep(used, [f"{RecordKind.DECISION}/{each.slug}"])

    results = []
    for n in range(RUNS):
        stage(tmp_path, candidate(f"The weather is fine, day {n}."), start=2 * n + 1)
        results.append(asyncio.run(bench.run()))

    there = {each.slug: each.body for each in bench.store.view().records()}
    assert {each.slug: there.get(each.slug) for each in records[:10]} == {each.slug: each.body for each in records[:10]}
    assert survived(records[:20], bench) == []
    assert {each.slug for each in records[:20]} <= there.keys()
    # The model is really wrong, and what nobody needs does go: else this would show nothing.
    assert len(there) < len(records) and survived(records[20:], bench)
    assert [each for each in results if each.status is not MemoryStatus.COMPLETED] == []


@pytest.mark.sweep
def test_without_the_guards_the_same_hundred_runs_take_nearly_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(0)
    records = memory_of(chance)
    bench = Bench(tmp_path, SlightlyWrong(chance))
    bench.put(*records)
    monkeypatch.setattr("memory.consolidation.desk.check", lambda *_: ())

    for n in range(RUNS):
        stage(tmp_path, candidate(f"The weather is fine, day {n}."), start=2 * n + 1)
        asyncio.run(bench.run())

    whole = {one for each in records for one in specifics(each.body)}
    assert len(survived(records, bench)) > 0.9 * len(whole)
