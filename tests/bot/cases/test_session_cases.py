"""Bugs of comparable products around compaction and turns without an end; the numbers are our list's."""

from __future__ import annotations

from typing import Any

import pytest

from bot.claude_stream import Stream
from bot.ports import Answer, Compacting, CompactionGaveUp, StreamEvent
from telemetry.events import CompactionFailed, SessionReset, SessionState
from tests.bot.bench import KNOWN, Bench, quoted
from tests.bot.fakes import EPOCH, HANGS, called

TALK = ("The code is walnut.", "And the alarm is off.")
NUMBERS = {"trigger": "auto", "pre_tokens": 90_000, "post_tokens": 2_000, "duration_ms": 23}


async def known(bench: Bench) -> str:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    assert bench.knows(root)
    return root


def events(*lines: dict[str, Any]) -> list[StreamEvent]:
    stream = Stream()
    return [event for line in lines for event in stream.feed(line, EPOCH)]


def boundary(**told: object) -> dict[str, Any]:
    return {"type": "system", "subtype": "compact_boundary", **told}


async def test_c046_a_boundary_without_any_status_line_is_a_compaction(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(*events(boundary(compact_metadata=NUMBERS)), called(), Answer(text="from a summary"))

    again = await bench.ask("Sure?", thread=root)

    assert again.gate == ("refetched", "after_compaction", "full")
    (reset,) = bench.emit.of(SessionReset)
    assert (reset.cause, reset.pre_tokens, reset.post_tokens, reset.epoch) == ("compaction_auto", 90_000, 2_000, 2)


@pytest.mark.parametrize(
    ("told", "tokens"),
    [
        ({"compact_metadata": NUMBERS}, (90_000, 2_000)),
        ({"compactMetadata": {"trigger": "auto", "preTokens": 90_000, "postTokens": 2_000}}, (90_000, 2_000)),
        ({}, (None, None)),
    ],
    ids=["snake", "camel", "none"],
)
async def test_c047_however_a_boundary_is_spelled_it_is_the_same_reset(
    bench: Bench, told: dict[str, Any], tokens: tuple[int | None, int | None]
) -> None:
    root = await known(bench)
    for event in events(boundary(**told)):
        bench.claude.process.stray(event)

    assert not bench.knows(root)
    (reset,) = bench.emit.of(SessionReset)
    assert (reset.cause, reset.forgotten, (reset.pre_tokens, reset.post_tokens)) == ("compaction_auto", 1, tokens)


async def test_c048_a_compaction_that_failed_throws_nothing_away(bench: Bench) -> None:
    root = await known(bench)
    lines = (
        {"type": "system", "subtype": "status", "status": "compacting"},
        {"type": "system", "subtype": "status", "status": None, "compact_result": "failed", "compact_error": "API Error: 500"},
    )
    heard = events(*lines)
    assert heard == [Compacting(EPOCH), CompactionGaveUp(EPOCH)]
    bench.claude.turn(*heard)

    second = await bench.ask("Sure?", thread=root)

    assert second.gate == KNOWN and bench.resets == []
    assert bench.session().state is SessionState.IDLE
    assert [f.error for f in bench.emit.of(CompactionFailed)] == ["compaction_failed"]


async def test_c049_where_nobody_compacts_the_bot_rotates_by_what_the_cache_holds(bench: Bench) -> None:
    root = await known(bench)
    for occupancy in (60_000, 110_000, 149_999):
        bench.claude.turn(called(occupancy), Answer(text="more"))
        assert (await bench.ask("More", thread=root)).gate == KNOWN
    bench.claude.turn(called(150_000), Answer(text="even more"))
    await bench.ask("Even more", thread=root)

    again = await bench.ask("What is the code?", thread=root)

    assert called(150_000).usage.input == 10
    assert bench.resets == [("rotate_tokens", "fresh", 1)]
    assert again.gate == ("refetched", "after_rotate", "full") and quoted(again.prompt)[:2] == list(TALK)


async def test_c050_a_turn_without_an_end_does_not_hold_up_its_lane_for_ever(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(HANGS)
    hung = bench.mention("Are you there?", thread=root)
    waiting = bench.mention("And you?", thread=root)
    await bench.ended()

    first, second = bench.asked(hung, thread=root), bench.asked(waiting, thread=root)
    assert len(first.posts) == 1 and first.outcome == "failed" and "stopped after 10 min" in first.text
    assert bench.replies[-2].error == "deadline"
    assert second.gate == ("refetched", "after_resume", "full") and second.outcome == "answered"
