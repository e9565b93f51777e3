"""👀 on what waits in its lane longer than a moment: put there once, and never left behind."""

from __future__ import annotations

import asyncio

from bot.eyes import EYES, MOMENT_SECONDS
from bot.ports import SlackError
from tests.bot.bench import Bench
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, GENERAL, settled


async def lane(bench: Bench) -> tuple[str, str, asyncio.Event]:
    """(in hand, waiting, what lets the first one go on)"""
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    first = bench.mention("Something long")
    await settled()
    second = bench.mention("Something else")
    await settled()
    return first, second, goes_on


async def wait(bench: Bench, seconds: float) -> None:
    bench.clock.advance(seconds)
    await settled()


async def test_it_stands_on_the_message_that_waits_and_goes_when_that_is_answered(bench: Bench) -> None:
    _, second, goes_on = await lane(bench)

    await wait(bench, MOMENT_SECONDS + 1)
    assert bench.slack.reactions == {(GENERAL, second, EYES)}
    goes_on.set()
    await bench.ended()
    await settled()

    assert bench.slack.reactions == set()
    assert (bench.slack.count("react"), bench.slack.count("unreact")) == (1, 1)


async def test_it_stays_while_the_message_is_being_answered(bench: Bench) -> None:
    _, second, goes_on = await lane(bench)
    second_goes_on = asyncio.Event()
    bench.claude.turn(second_goes_on)
    await wait(bench, MOMENT_SECONDS + 1)
    goes_on.set()
    await settled()

    assert bench.slack.reactions == {(GENERAL, second, EYES)}
    second_goes_on.set()
    await bench.ended()


async def test_what_is_answered_within_a_moment_costs_no_call(bench: Bench) -> None:
    _, _, goes_on = await lane(bench)

    await wait(bench, 0.1)
    goes_on.set()
    await settled()
    await wait(bench, 60)

    assert bench.slack.count("react") == bench.slack.count("unreact") == 0


async def test_it_goes_when_the_message_is_stopped_or_deleted(bench: Bench) -> None:
    first, second, goes_on = await lane(bench)
    third = bench.mention("And this")
    await settled()
    await wait(bench, MOMENT_SECONDS + 1)
    assert {ts for _, ts, _ in bench.slack.reactions} == {second, third}

    bench.mention("stop", thread=second)
    bench.delete(GENERAL, third)
    await settled()
    goes_on.set()
    await settled()

    assert bench.slack.reactions == set() and bench.asked(first).text == "answer 1"


async def test_it_is_taken_away_even_where_it_was_just_being_put(bench: Bench) -> None:
    """A reaction that Slack is slow to take must not come after it was taken away."""
    _, _, goes_on = await lane(bench)
    slow = asyncio.Event()
    bench.slack.fail("react", slow)
    await wait(bench, MOMENT_SECONDS + 1)
    goes_on.set()
    await settled()
    assert bench.slack.count("unreact") == 0

    slow.set()
    await settled()

    assert bench.slack.reactions == set() and bench.slack.count("unreact") == 1


async def test_a_slack_that_refuses_it_hinders_nothing(bench: Bench) -> None:
    _, second, goes_on = await lane(bench)
    bench.slack.fail("react", SlackError("reactions.add", "too_many_reactions"))
    bench.slack.fail("unreact", SlackError("reactions.remove", "timeout"))
    await wait(bench, MOMENT_SECONDS + 1)
    goes_on.set()
    await bench.ended()

    assert bench.asked(second).text == "answer 2"


async def test_what_still_waits_at_the_end_keeps_it_until_the_next_process_has_answered(make_bench: Make) -> None:
    first = make_bench()
    _, second, goes_on = await lane(first)
    await wait(first, MOMENT_SECONDS + 1)
    draining = asyncio.get_running_loop().create_task(first.app.drain(60))
    await settled()
    goes_on.set()
    await draining
    assert first.slack.reactions == {(GENERAL, second, EYES)}
    await first.sessions.close_all()

    again = make_bench(before=first)
    again.app.recover()
    await again.ended()
    await settled()

    assert again.slack.reactions == set() and again.asked(second).text == "answer 2"


async def test_the_end_of_the_bot_does_not_wait_for_what_does_not_show_yet(make_bench: Make) -> None:
    bench = make_bench()
    _, _, goes_on = await lane(bench)
    draining = asyncio.get_running_loop().create_task(bench.app.drain(60))
    goes_on.set()
    await settled()

    assert draining.done() and bench.slack.count("react") == 0
    bench.clock.advance(60)
    await settled()
    assert bench.slack.count("react") == 0


async def test_in_an_idle_lane_nothing_is_ever_put(bench: Bench) -> None:
    await bench.ask("Hello")
    await bench.ask("Hello", channel=CODE)
    await wait(bench, 60)

    assert bench.slack.count("react") == bench.slack.count("unreact") == 0
