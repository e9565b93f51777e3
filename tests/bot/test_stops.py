"""Somebody wants no answer after all: by a word, by a sign on the question, by Slack's button. Nothing else is lost by it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.ports import Answer, Interrupted, SlackError
from bot.slack_events import Ignored, StopAsked, asks_stop, read_event
from telemetry.events import DropReason, MessageDropped, MoneySpent, Outcome
from telemetry.names import Attr
from tests.bot.bench import Bench, quoted, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, DIRECT, EPOCH, GENERAL, ME, SlackCall, settled


def reacted(bench: Bench, ts: str, *, user: str = "U1", reaction: str = "x", channel: str = GENERAL, **more: Any) -> dict[str, Any]:
    item = {"type": "message", "channel": channel, "ts": ts}
    event = {"type": "reaction_added", "user": user, "reaction": reaction, "item_user": "U1", "item": item, "event_ts": "9.9", **more}
    return {"team_id": bench.slack.team, "event_id": f"Ev{ts}{user}", "event": event}


def pressed(bench: Bench, thread: str, *, user: str = "U1", event_id: str = "EvStop") -> dict[str, Any]:
    event = {"type": "agent_session_stopped", "channel": GENERAL, "thread_ts": thread, "user": user, "streaming_message_ts": []}
    return {"team_id": bench.slack.team, "event_id": event_id, "event": event}


async def asking(bench: Bench, text: str = "Something long", **where: Any) -> tuple[str, asyncio.Event]:
    """A question whose turn goes on until the event is set, or it is stopped."""
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    ts = bench.mention(text, **where)
    await settled()
    return ts, goes_on


def drops(bench: Bench) -> list[DropReason]:
    return [f.reason for f in bench.emit.of(MessageDropped)]


# -- by a word ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("word", "language", "said"),
    [("stop", "auto", "Stopped."), ("Stop!", "auto", "Stopped."), ("止めて", "ja", "止めました。"), ("ストップ。", "ja", "止めました。")],
)
async def test_the_word_alone_in_the_thread_ends_the_turn_and_a_short_word_is_posted(
    make_bench: Make, word: str, language: str, said: str
) -> None:
    bench = make_bench(language=language)
    root = bench.old_thread("The code is walnut.")
    asked, _ = await asking(bench, thread=root)

    bench.mention(word, thread=root)
    await settled()

    stopped = bench.asked(asked, thread=root)
    assert (stopped.text, stopped.outcome) == (said, "cancelled")
    assert bench.open_messages == 0 and bench.outcomes == [("cancelled", "stopped")]
    assert drops(bench) == [DropReason.ASKED_STOP] and len(bench.claude.prompts) == 1


async def test_anybody_who_is_allowed_may_stop_it(bench: Bench) -> None:
    asked, _ = await asking(bench)

    bench.mention("stop", thread=asked, user="U2")
    await settled()

    assert bench.asked(asked).text == "Stopped."


async def test_who_may_not_talk_to_the_bot_stops_nothing(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))
    asked, goes_on = await asking(bench)

    bench.mention("stop", thread=asked, user="U9")
    bench.intake.take(reacted(bench, asked, user="U9"))
    bench.intake.take(pressed(bench, asked, user="U9"))
    await settled()
    goes_on.set()
    await bench.ended()

    assert bench.asked(asked).text == "answer 1"


async def test_nor_does_whom_the_route_does_not_admit(make_bench: Make) -> None:
    bench = make_bench(settings=routes(users=("U1",)))
    asked, goes_on = await asking(bench)

    bench.intake.take(reacted(bench, asked, user="U2"))
    bench.intake.take(pressed(bench, asked, user="U2"))
    await settled()
    goes_on.set()
    await bench.ended()

    assert bench.asked(asked).text == "answer 1"


@pytest.mark.parametrize("text", ["stop it from raining", "why stop?", "don't stop", "止めてもいい？", "bus stop"])
async def test_more_than_the_word_is_a_question_for_the_model(bench: Bench, text: str) -> None:
    first = await bench.ask("Hello")

    second = await bench.ask(text, thread=first.ts)

    assert second.text == "answer 2"


async def test_where_nothing_is_answered_only_who_asked_is_told(bench: Bench) -> None:
    first = await bench.ask("Hello")

    bench.mention("stop", thread=first.ts, user="U2")
    await settled()

    (told,) = bench.slack.of("whisper")
    assert (told.user, told.thread_ts) == ("U2", first.ts) and "nothing to stop" in told.text
    assert bench.slack.count("post") == 1


async def test_another_thread_of_the_same_lane_goes_on(bench: Bench) -> None:
    asked, goes_on = await asking(bench)
    other = bench.mention("Another thread")
    await settled()

    bench.mention("stop", thread=other)
    await settled()
    goes_on.set()
    await bench.ended()

    assert bench.asked(asked).text == "answer 1" and bench.asked(other).text == "Stopped."
    assert len(bench.claude.prompts) == 1


async def test_what_waits_in_the_thread_is_not_asked_either_and_one_word_does_for_all(bench: Bench) -> None:
    asked, _ = await asking(bench)
    for n in range(2):
        bench.mention(f"And {n}", thread=asked)
        await settled()

    bench.mention("stop", thread=asked)
    await settled()

    assert [call.text for call in bench.slack.of("post")] == ["Stopped."]
    assert bench.outcomes == [("cancelled", "stopped")] * 3 and bench.open_messages == 0
    assert len(bench.claude.prompts) == 1


async def test_in_a_direct_message_the_word_needs_no_thread_and_no_mention(bench: Bench) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    asked = bench.write("Something long", channel=DIRECT)
    await settled()

    bench.write("stop", channel=DIRECT)
    await settled()

    assert bench.asked(asked, channel=DIRECT).text == "Stopped."


async def test_outside_of_a_thread_of_a_channel_it_is_a_question(bench: Bench) -> None:
    assert (await bench.ask("stop")).text == "answer 1"


# -- by a sign, by the button ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sign", ["x", "negative_squared_cross_mark", "octagonal_sign"])
async def test_a_cross_on_the_question_ends_its_turn(bench: Bench, sign: str) -> None:
    asked, _ = await asking(bench)

    bench.intake.take(reacted(bench, asked, user="U2", reaction=sign))
    await settled()

    assert bench.asked(asked).text == "Stopped."


async def test_a_cross_is_for_its_own_question_alone(bench: Bench) -> None:
    asked, goes_on = await asking(bench)
    second = bench.mention("And this?", thread=asked)
    await settled()

    bench.intake.take(reacted(bench, second))
    await settled()
    goes_on.set()
    await bench.ended()

    assert bench.asked(asked).text == "answer 1" and bench.asked(second, thread=asked).text == "Stopped."
    assert bench.outcomes == [("cancelled", "stopped"), ("answered", None)]


@pytest.mark.parametrize(
    "more", [{"reaction": "thumbsup"}, {"item_user": ME.user_id}, {"user": ME.user_id}, {"item": {}}, {"user": None}], ids=str
)
def test_no_other_reaction_stops_anything(bench: Bench, more: dict[str, Any]) -> None:
    event = {**reacted(bench, "1761000000.000000"), "event": {**reacted(bench, "1761000000.000000")["event"], **more}}

    assert isinstance(read_event(event, ME), Ignored)
    assert isinstance(read_event(reacted(bench, "1761000000.000000"), ME), StopAsked)


async def test_slacks_own_button_ends_what_is_answered_in_its_thread(bench: Bench) -> None:
    asked, _ = await asking(bench)

    bench.intake.take(pressed(bench, asked))
    await settled()

    assert bench.asked(asked).text == "Stopped."
    working = [(call.thread_ts, call.text) for call in bench.slack.of("set_working")]
    assert working == [(asked, "processing"), (asked, "active")], "or the button would stand there for ever"


async def test_a_button_that_is_left_over_is_taken_away(bench: Bench) -> None:
    first = await bench.ask("Hello")
    before = bench.slack.count("set_working")

    bench.intake.take(pressed(bench, first.ts))
    await settled()

    assert [call.text for call in bench.slack.of("set_working")[before:]] == ["active"]


@pytest.mark.parametrize("missing", ["channel", "thread_ts", "user"])
def test_a_button_of_which_nobody_knows_where_it_is_does_nothing(bench: Bench, missing: str) -> None:
    event = pressed(bench, "1761000000.000000")
    del event["event"][missing]

    assert isinstance(read_event(event, ME), Ignored)


async def test_a_press_that_is_delivered_again_does_not_stop_the_next_question(bench: Bench) -> None:
    asked, _ = await asking(bench)
    bench.intake.take(pressed(bench, asked))
    await settled()
    _, goes_on = await asking(bench, "Something else", thread=asked)

    bench.intake.take(pressed(bench, asked))
    await settled()
    goes_on.set()
    await bench.ended()

    assert bench.outcomes == [("cancelled", "stopped"), ("answered", None)]


# -- what a stop costs -------------------------------------------------------------------------------------------------
async def test_the_process_lives_on_and_no_other_thread_is_forgotten(bench: Bench) -> None:
    known = await bench.ask("Hello")
    asked, _ = await asking(bench)

    bench.mention("stop", thread=asked)
    await settled()

    assert not bench.claude.process.closed and bench.resets == []
    assert (await bench.ask("And?", thread=known.ts)).gate == ("known", "held", None)


async def test_the_question_that_was_stopped_is_known_to_the_next_one(bench: Bench) -> None:
    root = bench.old_thread("The code is walnut.")
    await asking(bench, "What is the code?", thread=root)
    bench.mention("stop", thread=root)
    await settled()

    again = await bench.ask("Try again", thread=root)

    assert again.gate != ("known", "held", None) and "What is the code?" in quoted(again.prompt)


async def test_what_the_turn_cost_until_then_is_counted(bench: Bench) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(Interrupted(EPOCH, {"model-1": 0.25}), goes_on, Answer(text="never"))
    asked = bench.mention("Something long")
    await settled()
    bench.mention("stop", thread=asked)
    await settled()

    assert [(f.route, f.usd) for f in bench.emit.of(MoneySpent)] == [("main", 0.25)]


async def test_a_turn_that_reads_its_thread_can_be_stopped_too(bench: Bench) -> None:
    root = bench.old_thread("The code is walnut.")
    bench.slack.fail("replies", asyncio.Event())
    asked = bench.mention("What is the code?", thread=root)
    await settled()

    bench.mention("stop", thread=root)
    await settled()

    assert bench.asked(asked, thread=root).text == "Stopped." and bench.claude.prompts == []
    assert (await bench.ask("What is the code?", thread=root)).text == "answer 1"


async def test_a_session_that_starts_can_be_stopped_too(bench: Bench) -> None:
    bench.claude.start_gate = asyncio.Event()
    asked = bench.mention("Hello")
    await settled()
    bench.mention("stop", thread=asked)
    await settled()
    bench.claude.start_gate = None

    assert bench.asked(asked).text == "Stopped."
    assert (await bench.ask("Hello")).text == "answer 1"


async def test_an_answer_that_is_being_posted_is_posted_whole(bench: Bench) -> None:
    posting = asyncio.Event()
    bench.slack.fail("post", posting)
    asked = bench.mention("Hello")
    await settled()

    bench.mention("stop", thread=asked)
    await settled()
    posting.set()
    await bench.ended()

    assert bench.asked(asked).text == "answer 1" and bench.outcomes == [("answered", None)]


async def test_stopping_twice_stops_once(bench: Bench) -> None:
    asked, _ = await asking(bench)

    bench.intake.take(reacted(bench, asked))
    bench.intake.take(reacted(bench, asked, user="U2"))
    bench.mention("stop", thread=asked)
    await settled()

    assert [call.text for call in bench.slack.of("post")] == ["Stopped."]
    assert (await bench.ask("Hello")).outcome == "answered"


async def test_a_word_that_slack_does_not_take_is_no_trouble(bench: Bench) -> None:
    asked, _ = await asking(bench)
    bench.slack.fail("post", SlackError("chat.postMessage", "is_archived"))

    bench.mention("stop", thread=asked)
    await settled()

    assert bench.outcomes == [("cancelled", "stopped")] and bench.open_messages == 0


async def test_the_status_is_cleared_and_the_trace_says_what_happened(bench: Bench) -> None:
    asked, _ = await asking(bench)
    bench.mention("stop", thread=asked)
    await settled()

    assert bench.slack.of("set_status")[-1] == SlackCall("set_status", GENERAL, asked, "")
    root = bench.replies[0]
    assert (root.attributes[Attr.REPLY_OUTCOME], root.attributes[Attr.REPLY_REASON]) == (Outcome.CANCELLED, "stopped")
    assert root.error is None, "nothing failed"


async def test_a_stop_in_one_channel_leaves_the_others_alone(bench: Bench) -> None:
    asked, goes_on = await asking(bench)
    elsewhere = bench.mention("Something else", channel=CODE)
    bench.claude.turn(asyncio.Event())
    await settled()

    bench.intake.take(reacted(bench, asked, channel=CODE))
    await settled()
    goes_on.set()
    await settled()

    assert bench.asked(asked).text == "answer 1"
    bench.intake.take(reacted(bench, elsewhere, channel=CODE))
    await settled()
    assert bench.asked(elsewhere, channel=CODE).text == "Stopped."


@pytest.mark.parametrize("text", ["stop", " STOP. ", "<@U0BOT> cancel", "やめて！", "停止"])
def test_words_that_stop(text: str) -> None:
    assert asks_stop({"text": text}, ME)


@pytest.mark.parametrize("text", ["", "!", "stopp", "stop the build", "<@U2> stop"])
def test_words_that_do_not(text: str) -> None:
    assert not asks_stop({"text": text}, ME)
