"""Bugs of comparable products around what Slack delivers, as cases that ours must not have; the numbers are our list's."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.events import DropReason, MessageDropped
from tests.bot.bench import MENTION, Bench, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import GENERAL, ME, settled

BURST = 300


def deliver(bench: Bench, message: dict[str, Any], *, kind: str = "message") -> None:
    """One event of a message; an `app_mention` does not tell the kind of channel."""
    event = {**message, "type": kind, "channel": GENERAL, "event_ts": message["ts"]}
    bench.intake.take({"team_id": bench.slack.team, "event": event if kind == "app_mention" else {**event, "channel_type": "channel"}})


def dropped(bench: Bench) -> list[DropReason]:
    return [fact.reason for fact in bench.emit.of(MessageDropped)]


@pytest.mark.parametrize("kinds", [("message", "app_mention"), ("app_mention", "message"), ("app_mention",)])
@pytest.mark.parametrize("apart", [0.0, 0.5])
async def test_c026_a_mention_is_answered_once_whichever_of_its_events_come(bench: Bench, kinds: tuple[str, ...], apart: float) -> None:
    message = bench.slack.put(GENERAL, MENTION + "hello")

    for kind in kinds:
        deliver(bench, message, kind=kind)
        await settled()
        bench.clock.advance(apart)
    await bench.ended()

    assert (len(bench.asked(message["ts"]).posts), len(bench.claude.prompts)) == (1, 1)
    assert dropped(bench) == [DropReason.DUPLICATE] * (len(kinds) - 1)


async def test_c030_an_edit_of_what_was_answered_is_told_in_the_next_prompt_and_answers_nothing(bench: Bench) -> None:
    asked = await bench.ask("when is the release?")
    bench.edit(GENERAL, asked.ts, MENTION + "when is the big release?")
    deliver(bench, bench.slack.messages[GENERAL, asked.ts], kind="app_mention")
    unfurled = {**bench.slack.messages[GENERAL, asked.ts], "attachments": [{"from_url": "https://x", "text": "a page"}]}
    before = bench.slack.messages[GENERAL, asked.ts]
    bench.deliver(GENERAL, {"type": "message", "subtype": "message_changed", "message": unfurled, "previous_message": before})
    await bench.ended()
    assert (len(bench.claude.prompts), bench.slack.count("post")) == (1, 1)

    after = await bench.ask("well?", thread=asked.ts)

    assert quoted(after.prompt) == ["[edited]: when is the big release?"]
    assert after.gate == ("known", "held_delta", "delta")


async def test_c035_whichever_event_tells_of_an_added_mention_first_it_is_answered_once_with_the_edited_text(bench: Bench) -> None:
    ts = bench.write("when is the release?")
    bench.clock.advance(60.0)
    before = dict(bench.slack.messages[GENERAL, ts])
    after = bench.slack.messages[GENERAL, ts] = {**before, "text": MENTION + "when is it?", "edited": {"ts": f"{bench.clock.now():.6f}"}}

    deliver(bench, after, kind="app_mention")
    bench.deliver(GENERAL, {"type": "message", "subtype": "message_changed", "message": after, "previous_message": before})
    await bench.ended()
    for text in ("when exactly is it?", "when, exactly?"):
        bench.edit(GENERAL, ts, MENTION + text)
    await bench.ended()

    assert (len(bench.claude.prompts), len(bench.asked(ts).posts)) == (1, 1)
    assert "when is it?" in bench.claude.prompts[0]


async def test_an_edit_of_a_mention_that_was_never_heard_answers_nothing(bench: Bench) -> None:
    ts = bench.slack.put(GENERAL, MENTION + "said before the bot was there")["ts"]

    bench.edit(GENERAL, ts, MENTION + "said before the bot was there, and mended")
    await bench.ended()

    assert (bench.claude.prompts, dropped(bench)) == ([], [DropReason.NOT_ADDRESSED])


# -- streams of edits --------------------------------------------------------------------------------------------------
async def test_a_stream_of_edits_costs_no_call_no_turn_and_one_row(bench: Bench) -> None:
    """Another bot that writes its answer by editing it, in a thread that the session holds."""
    asked = await bench.ask("what is new?")
    streamed = bench.slack.put(GENERAL, "…", user="U5", bot_id="B5", thread_ts=asked.ts)
    bench.deliver(GENERAL, streamed)
    calls, turns = len(bench.slack.calls), len(bench.claude.prompts)

    for number in range(BURST):
        bench.edit(GENERAL, streamed["ts"], "word " * number)
    await bench.ended()

    assert (len(bench.slack.calls), len(bench.claude.prompts)) == (calls, turns)
    assert bench.db.execute("SELECT count(*) FROM said").fetchone()[0] == 1
    after = await bench.ask("and now?", thread=asked.ts)
    assert quoted(after.prompt) == [("word " * (BURST - 1)).strip()] and bench.reads == 0


async def test_a_stream_of_edits_of_a_question_is_one_answer(bench: Bench) -> None:
    ts = bench.mention("when")

    for number in range(BURST):
        bench.edit(GENERAL, ts, f"{MENTION}when {number}")
        if number % 50 == 0:
            await settled()
    await bench.ended()

    assert (len(bench.claude.prompts), len(bench.asked(ts).posts)) == (1, 1)


async def test_a_message_that_slack_streams_is_taken_when_it_is_whole(make_bench: Make) -> None:
    bench = make_bench(bots=("B5",))
    message = bench.slack.put(GENERAL, "", user="U5", bot_id="B5", streaming_state="in_progress")
    deliver(bench, message)
    for number in range(BURST):
        grown = {**message, "text": f"{MENTION}tell me {number}"}
        bench.deliver(GENERAL, {"type": "message", "subtype": "message_changed", "message": grown, "previous_message": message})
        message = grown
    await bench.ended()
    assert (bench.claude.prompts, bench.slack.calls) == ([], [])

    whole = {**message, "streaming_state": "completed"}
    bench.deliver(GENERAL, {"type": "message", "subtype": "message_changed", "message": whole, "previous_message": message})
    await bench.ended()

    assert (len(bench.claude.prompts), len(bench.asked(whole["ts"]).posts)) == (1, 1)


async def test_the_bots_own_updates_are_nothing_to_it(bench: Bench) -> None:
    asked = await bench.ask("what is new?")
    own = asked.posts[0]
    assert own["user"] == ME.user_id

    for number in range(BURST):
        bench.edit(GENERAL, own["ts"], f"answer {number}")
    await bench.ended()

    assert (len(bench.claude.prompts), bench.db.execute("SELECT count(*) FROM said").fetchone()[0]) == (1, 0)
    assert set(dropped(bench)) == {DropReason.OWN_MESSAGE}


async def test_a_question_mark_that_is_delivered_again_is_answered_once(bench: Bench) -> None:
    asked = await bench.ask("what is new?")
    item = {"type": "message", "channel": GENERAL, "ts": asked.posts[0]["ts"]}
    reaction = {"type": "reaction_added", "reaction": "question", "user": "U1", "item_user": ME.user_id, "item": item}

    for event_id in ("Ev1", "Ev1", "Ev2"):
        bench.intake.take({"team_id": bench.slack.team, "event_id": event_id, "event": reaction})
        await settled()

    assert bench.slack.count("whisper") == 2
