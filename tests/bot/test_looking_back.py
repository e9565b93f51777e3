"""After `state.db` was lost: questions of the last hour that Slack has and the bot has not answered are answered now."""

from __future__ import annotations

import asyncio

import pytest

from bot.looking_back import LOOK_BACK_SECONDS, PAUSE_SECONDS, LookingBack
from bot.ports import SlackError
from tests.bot.bench import MENTION, Bench, question
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, DIRECT, GENERAL, ME

CHANNELS = {GENERAL: "channel", CODE: "channel", DIRECT: "im"}


async def look(bench: Bench) -> int:
    back = LookingBack(bench.slack, take=bench.intake.take, me=ME, clock=bench.clock)
    found = await bench.clock.run(back.look(CHANNELS, team=bench.slack.team))
    await bench.ended()
    return int(found)


def unheard(bench: Bench, text: str, *, channel: str = GENERAL, thread: str = "") -> str:
    return str(bench.slack.put(channel, text, thread_ts=thread)["ts"])


async def test_a_mention_without_an_answer_is_answered(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    asked = unheard(bench, MENTION + "What is the code?")

    assert await look(bench) == 1

    assert bench.asked(asked).text == "answer 1" and [question(p) for p in bench.claude.prompts] == ["What is the code?"]
    assert "1 questions of the last hour stand in Slack without an answer" in capsys.readouterr().err


async def test_so_is_one_in_a_thread_and_in_a_direct_message(bench: Bench) -> None:
    root = unheard(bench, "The code is walnut.")
    in_thread = unheard(bench, MENTION + "What is the code?", thread=root)
    direct = unheard(bench, "Hello", channel=DIRECT)

    assert await look(bench) == 2

    assert bench.asked(in_thread, thread=root).outcome == "answered"
    assert bench.asked(direct, channel=DIRECT).outcome == "answered"


async def test_a_thread_below_an_old_message_is_looked_at_too(bench: Bench) -> None:
    root = unheard(bench, "The code is walnut.")
    bench.clock.advance(30 * 86_400)
    asked = unheard(bench, MENTION + "What is the code?", thread=root)

    await look(bench)

    assert bench.asked(asked, thread=root).outcome == "answered"


async def test_what_was_answered_is_not_asked_again(make_bench: Make) -> None:
    first = make_bench()
    await first.ask("Hello")
    await first.ask("Hello", channel=DIRECT)
    await first.sessions.close_all()
    (first.folder / "lost").mkdir()
    second = make_bench(before=first)
    second.db.execute("DELETE FROM messages")

    assert await look(second) == 0


async def test_nor_what_the_inbox_knows(bench: Bench) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    bench.mention("Hello")
    back = LookingBack(bench.slack, take=bench.intake.take, me=ME, clock=bench.clock)
    await bench.clock.run(back.look(CHANNELS, team=bench.slack.team))
    goes_on.set()
    await bench.ended()

    assert len(bench.claude.prompts) == 1


async def test_what_is_older_than_an_hour_or_not_for_the_bot_is_left(bench: Bench) -> None:
    long_ago = unheard(bench, MENTION + "Long ago")
    bench.clock.advance(LOOK_BACK_SECONDS + 60)
    unheard(bench, "And now somebody else speaks", thread=long_ago)
    unheard(bench, "Hello everybody")
    unheard(bench, "<@U2> hello")

    assert await look(bench) == 0 and bench.claude.prompts == []


async def test_a_channel_that_cannot_be_read_is_told_and_the_others_are(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    unheard(bench, MENTION + "Hello", channel=CODE)
    bench.slack.fail("history", SlackError("conversations.history", "missing_scope"))

    assert await look(bench) == 1

    assert "1 channels could not be read" in capsys.readouterr().err


async def test_it_leaves_slack_its_patience(bench: Bench) -> None:
    await look(bench)

    assert bench.clock.slept[: len(CHANNELS)] == [PAUSE_SECONDS] * len(CHANNELS)
