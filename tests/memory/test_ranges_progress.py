"""Numbers that repeat, go back or leap: reading always goes on, nothing is lost by them, and nothing is read for ever."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from memory.cursors import Cursor, Cursors
from memory.ranges import MAX_READ_BYTES, unread
from memory.staging import BATCH
from telemetry.memory_events import MemoryReason
from tests.memory.dying import partition_faults
from tests.memory.talk import SESSION, Ground, Log


async def drained(ground: Ground) -> list[tuple[int, int]]:
    """The ranges of one drain, which ends by itself."""
    async with asyncio.timeout(20):
        results = await ground.drain()
    assert len(results) < 10 and len(ground.model.requests) < 20
    return [result.range for result in results if result.range]


@pytest.mark.parametrize("text", ["keep it", "plain words"])
async def test_a_number_that_stands_again_behind_the_cursor_is_read_once(text: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("hello")
    ground.log.turn("hello again")
    before = await drained(ground)
    ground.log.seq -= 1
    ground.log.add("user", text)

    after = await drained(ground)

    assert ground.claims == (["keep it"] if text == "keep it" else [])
    assert after and partition_faults([*before, *after], ground.cursor["next"] - 1) == []
    asked = len(ground.model.requests)
    assert await drained(ground) == [] and len(ground.model.requests) == asked


async def test_numbers_that_begin_again_behind_the_cursor_are_read_on(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep a")
    await drained(ground)
    for _ in range(3):
        ground.log.seq = 0
        ground.log.turn("keep b")
        ground.log.turn("keep c")
        await drained(ground)

    assert ground.claims == ["keep a", *["keep b", "keep c"] * 3]


@pytest.mark.parametrize("leap", [10**9, 10**300])
async def test_one_huge_number_costs_nothing_that_comes_after_it(leap: int, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep a")
    seq, ground.log.seq = ground.log.seq, leap
    ground.log.turn("keep huge")
    ground.log.seq = seq
    ground.log.turn("keep b")
    await drained(ground)
    ground.log.turn("keep c")
    await drained(ground)

    assert ground.claims == ["keep a", "keep huge", "keep b", "keep c"]


@pytest.mark.parametrize("wrong", ["a cursor that does not move", "another version"])
async def test_a_batch_that_cannot_be_adopted_is_not_and_the_range_is_read(wrong: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep it")
    await drained(ground)
    (path,) = (tmp_path / "memory" / "_staging").glob(f"*/{BATCH}")
    batch = json.loads(path.read_bytes())
    if wrong == "another version":
        batch["v"] = 2
    else:
        batch["cursor"]["next"] = batch["start"]
    path.write_text(json.dumps(batch))
    (tmp_path / "memory" / "_state" / "cursors" / f"{SESSION}.json").unlink()

    assert await drained(ground) == [(1, 2)] and ground.cursor["next"] == 3


async def test_a_drain_whose_cursor_stands_still_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("plain words")
    monkeypatch.setattr(Cursors, "advance", lambda *_: None)

    assert await drained(ground) == [(1, 2)]


async def test_more_left_out_text_than_is_read_at_once_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.ranges.MAX_READ_BYTES", 64 * 1024)
    ground = Ground(tmp_path)
    ground.log.turn("keep a")
    await drained(ground)
    for _ in range(40):
        ground.log.add("injected", "x" * 8 * 1024)
    assert ground.extractor.backlog(ground.session).entries == 0
    assert (await ground.run()).reason is MemoryReason.NO_NEW_SESSION_RANGE
    ground.log.turn("keep b")
    assert ground.extractor.backlog(ground.session).entries == 2

    assert await drained(ground) == [(3, 44)]
    assert ground.claims == ["keep a", "keep b"] and MAX_READ_BYTES >= 32 * 1024 * 1024


def test_what_is_left_out_is_not_held_in_memory(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for _ in range(500):
        log.add("injected", "x")
    log.turn("keep it")

    assert len(unread(log.path, Cursor()).entries) == 2


@pytest.mark.parametrize("what", ["shrunk", "replaced", "replaced by one with a line in common"])
async def test_a_log_that_shrank_or_was_replaced_while_the_clock_went_back_is_read_on(what: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    for n in range(5):
        ground.log.turn(f"keep {n}")
    await drained(ground)
    lines = ground.log.path.read_bytes().splitlines(keepends=True)
    ground.log.path.write_bytes(b"".join(lines[:3]) if what == "shrunk" else b"")
    ground.log.seq = 3 if what == "shrunk" else 0
    ground.log.second = 2  # before the last line that was left, and long before the last one read
    ground.log.turn("keep new")
    if "common" in what:
        with ground.log.path.open("ab") as file:
            file.write(lines[-1])
    await drained(ground)
    ground.log.turn("keep newer")
    await drained(ground)

    assert sorted(ground.claims) == [*(f"keep {n}" for n in range(5)), "keep new", "keep newer"]


async def test_a_cursor_of_an_older_version_remembers_no_entries_and_goes_by_time(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep old")
    await drained(ground)
    path = tmp_path / "memory" / "_state" / "cursors" / f"{SESSION}.json"
    path.write_text(json.dumps({name: value for name, value in ground.cursor.items() if name != "seen"}))
    ground.log.path.unlink()
    ground.log.turn("keep new")

    await drained(ground)

    assert sorted(ground.claims) == ["keep new", "keep old"]
