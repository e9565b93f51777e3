"""Somebody sets the machine's clock forward or back by hours: nothing hangs, nothing is dropped, nobody is asked or told twice."""

from __future__ import annotations

import asyncio

import pytest

from telemetry.events import MessageDropped, ReplyEnded
from tests.bot.bench import KNOWN, Bench, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import GENERAL, called, settled

HOUR = 3_600.0
JUMPS = pytest.mark.parametrize("hours", [-36, -3, 3, 36])


@JUMPS
async def test_messages_before_and_after_it_are_answered_and_their_threads_stay_known(bench: Bench, hours: int) -> None:
    first = await bench.ask("Hello")
    bench.clock.set_by(hours * HOUR)

    again = await bench.ask("And?", thread=first.ts)
    new = await bench.ask("Something else")

    assert again.gate == KNOWN and new.outcome == "answered"
    assert bench.emit.of(MessageDropped) == []


@JUMPS
async def test_one_in_the_middle_of_an_answer_has_no_part_in_it(bench: Bench, hours: int) -> None:
    bench.claude.turn(lambda: bench.clock.set_by(hours * HOUR), called())

    asked = await bench.ask("Hello")

    (ended,) = bench.emit.of(ReplyEnded)
    assert asked.text == "answer 1" and ended.seconds >= 0.0


@JUMPS
async def test_what_waits_in_the_lane_meanwhile_is_answered(bench: Bench, hours: int) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    bench.mention("One")
    await settled()
    two = bench.mention("Two")
    await settled()
    bench.clock.set_by(hours * HOUR)
    goes_on.set()
    await bench.ended()

    assert bench.asked(two).text == "answer 2"


@JUMPS
async def test_a_delivery_that_comes_again_after_it_is_still_a_duplicate(bench: Bench, hours: int) -> None:
    asked = await bench.ask("Hello")
    bench.clock.set_by(hours * HOUR)

    bench.deliver(GENERAL, bench.slack.messages[GENERAL, asked.ts])
    await settled()

    assert len(bench.claude.prompts) == 1 and bench.slack.count("post") == 1


@JUMPS
async def test_what_others_said_before_it_reaches_the_next_prompt_once(bench: Bench, hours: int) -> None:
    first = await bench.ask("Hello")
    bench.write("By the way", thread=first.ts, user="U2")
    bench.clock.set_by(hours * HOUR)

    second = await bench.ask("And?", thread=first.ts)
    third = await bench.ask("And now?", thread=first.ts)

    assert quoted(second.prompt) == ["By the way"] and quoted(third.prompt) == []


@JUMPS
async def test_a_restart_after_it_answers_what_was_open(make_bench: Make, hours: int) -> None:
    first = make_bench()
    first.claude.turn(asyncio.Event())
    asked = first.mention("Hello")
    await settled()
    await first.app.drain(0)
    await first.sessions.close_all()
    first.clock.set_by(hours * HOUR)

    second = make_bench(before=first)
    second.app.recover()
    await second.ended()

    assert second.asked(asked).text == "answer 2"


@JUMPS
async def test_the_status_goes_on_being_refreshed(bench: Bench, hours: int) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    bench.mention("Hello")
    await settled()
    bench.clock.set_by(hours * HOUR)
    for _ in range(7):
        bench.clock.advance(30)
        await settled()

    assert [call.text for call in bench.slack.of("set_status")] == ["is thinking…"] * 3
    goes_on.set()
    await bench.ended()


@pytest.mark.parametrize("hours", [-3, 3])
async def test_a_doubt_is_a_matter_of_slacks_time_and_one_reading_ends_it(bench: Bench, hours: int) -> None:
    """Noted in ours, three hours ahead, it would make every thread be read again for three hours."""
    first = await bench.ask("Hello")
    bench.clock.set_by(hours * HOUR)
    bench.sessions.doubt_delivery(until=bench.clock.now() - bench.clock.set_off)  # as `Deliveries` does

    once = await bench.ask("And?", thread=first.ts)
    again = await bench.ask("And now?", thread=first.ts)

    assert once.gate is not None and once.gate[1] == "delivery_gap" and again.gate == KNOWN
