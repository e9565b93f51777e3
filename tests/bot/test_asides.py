"""Who may not talk to the bot is told so, politely, once a day, and alone; no word of theirs reaches a model."""

from __future__ import annotations

from typing import Any

import pytest

from bot.ports import SlackError
from telemetry.events import DropReason, MessageDropped
from tests.bot.bench import Bench, routes
from tests.bot.conftest import Make
from tests.bot.fakes import DIRECT, GENERAL, settled

DAY = 86_400.0


def refusals(bench: Bench) -> list[tuple[str, str, str]]:
    """(user, channel, thread)"""
    return [(w.user, w.channel, w.thread_ts) for w in bench.slack.of("whisper") if "may not answer" in w.text or "回答できません" in w.text]


async def test_a_stranger_to_the_list_is_told_and_alone(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))

    asked = bench.mention("Hello", user="U9")
    await settled()

    assert refusals(bench) == [("U9", GENERAL, asked)]
    assert bench.slack.count("post") == 0 and bench.claude.prompts == []
    assert [f.reason for f in bench.emit.of(MessageDropped)] == [DropReason.NOT_ALLOWED]


async def test_so_is_whom_the_route_does_not_admit(make_bench: Make) -> None:
    bench = make_bench(settings=routes(users=("U1",)))

    asked = bench.mention("Hello", user="U9")
    await settled()

    assert refusals(bench) == [("U9", GENERAL, asked)]


@pytest.mark.parametrize(
    ("text", "words"), [("Hello", "you are not on my list of people"), ("こんにちは", "許可された利用者の一覧に含まれていない")]
)
async def test_in_the_language_in_which_they_wrote(make_bench: Make, text: str, words: str) -> None:
    bench = make_bench(users=("U1",), language="auto")

    bench.mention(text, user="U9")
    await settled()

    (told,) = bench.slack.of("whisper")
    assert words in told.text


async def test_once_a_person_and_day_through_restarts(make_bench: Make) -> None:
    first = make_bench(users=("U1",))
    for _ in range(3):
        first.mention("Hello", user="U9")
        await settled()
    second = make_bench(users=("U1",), before=first)
    second.mention("Hello again", user="U9")
    second.mention("Me too", user="U2")
    await settled()
    assert [user for user, _, _ in refusals(second)] == ["U9", "U2"]

    second.clock.advance(DAY)
    second.mention("And today?", user="U9")
    await settled()

    assert [user for user, _, _ in refusals(second)] == ["U9", "U2", "U9"]
    assert second.db.execute("SELECT count(*) FROM told").fetchone()[0] == 2, "of each person the last day alone is remembered"


async def test_both_events_of_a_mention_are_one_refusal(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))
    message = bench.slack.put(GENERAL, "<@U0BOT> Hello", user="U9")

    bench.deliver(GENERAL, message)
    bench.deliver(GENERAL, {**message, "type": "app_mention"})
    await settled()

    assert len(refusals(bench)) == 1


async def test_in_a_direct_message_too(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))

    asked = bench.write("Hello", channel=DIRECT, user="U9")
    await settled()

    assert refusals(bench) == [("U9", DIRECT, asked)]


@pytest.mark.parametrize("more", [{"bot_id": "B7"}, {"subtype": "bot_message", "bot_id": "B7"}], ids=str)
async def test_bots_are_told_nothing_or_they_would_talk_for_ever(make_bench: Make, more: dict[str, Any]) -> None:
    bench = make_bench(users=("U1",))

    bench.mention("Hello", user="U8", **more)
    await settled()

    assert bench.slack.count("whisper") == 0


async def test_who_does_not_address_the_bot_is_told_nothing(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))

    bench.write("Hello everybody", user="U9")
    await settled()

    assert bench.slack.count("whisper") == 0


async def test_a_refusal_that_slack_does_not_take_stops_nothing(make_bench: Make, capsys: pytest.CaptureFixture[str]) -> None:
    bench = make_bench(users=("U1",))
    bench.slack.fail("whisper", SlackError("chat.postEphemeral", "user_not_in_channel"))

    bench.mention("Hello", user="U9")
    await settled()

    assert "could not tell U9 in C1: not_allowed (user_not_in_channel)" in capsys.readouterr().err
    assert (await bench.ask("Hello")).outcome == "answered"


async def test_names_of_which_one_begins_the_other_are_two_people(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))
    for user in ("U99", "U9", "U99"):
        bench.mention("Hello", user=user)
        await settled()

    assert [user for user, _, _ in refusals(bench)] == ["U99", "U9"]
