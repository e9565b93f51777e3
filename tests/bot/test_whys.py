"""Somebody asks in Slack why the bot answered as it did: they alone are told, and the model hears nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from bot.explain.explainer import Why
from bot.ports import SlackError
from bot.slack_events import Ignored, Wondered, read_event
from bot.words import Language
from telemetry.events import DropReason, MessageDropped
from telemetry.names import Attr
from tests.bot.bench import Bench, quoted
from tests.bot.fakes import GENERAL, ME, SlackCall, settled

BECAUSE = "The thread was read again from Slack (trace 1a2b3c4d)."


def reacted(bench: Bench, ts: str, **more: Any) -> dict[str, Any]:
    event = {"type": "reaction_added", "user": "U2", "reaction": "question", "item_user": ME.user_id, "event_ts": "9.9"}
    return {"team_id": bench.slack.team, "event": {**event, "item": {"type": "message", "channel": GENERAL, "ts": ts}, **more}}


async def answered(bench: Bench) -> tuple[str, str]:
    """(root, the answer's ts)"""
    root = bench.old_thread("The code is walnut.")
    asked = await bench.ask("What is the code?", thread=root)
    return root, str(asked.posts[0]["ts"])


@pytest.mark.parametrize("word", ["why", " Why ", "なぜ"])
async def test_the_word_alone_in_a_thread_is_told_to_whoever_wrote_it(bench: Bench, word: str) -> None:
    root, _ = await answered(bench)
    bench.explains.known[root] = Why(BECAUSE, root)
    prompts = len(bench.claude.prompts)

    bench.mention(word, thread=root, user="U2")
    await settled()

    assert bench.slack.of("whisper") == [SlackCall("whisper", GENERAL, root, BECAUSE, user="U2")]
    assert len(bench.claude.prompts) == prompts and bench.slack.count("post") == 1
    assert [f.reason for f in bench.emit.of(MessageDropped)] == [DropReason.ASKED_WHY]


@pytest.mark.parametrize("text", ["why?", "why not", "なぜ？", "whyever"])
async def test_anything_more_is_a_question_for_the_model(bench: Bench, text: str) -> None:
    root, _ = await answered(bench)

    asked = await bench.ask(text, thread=root)

    assert asked.outcome == "answered" and bench.slack.count("whisper") == 0


async def test_outside_of_a_thread_there_is_no_answer_to_explain(bench: Bench) -> None:
    asked = await bench.ask("why")

    assert asked.outcome == "answered" and bench.slack.count("whisper") == 0


async def test_who_asks_why_was_still_heard_by_the_next_prompt(bench: Bench) -> None:
    root, _ = await answered(bench)
    bench.mention("why", thread=root, user="U2")
    await settled()

    assert quoted((await bench.ask("And now?", thread=root)).prompt) == ["why"]


@pytest.mark.parametrize("mark", ["question", "grey_question"])
async def test_a_question_mark_on_an_answer_is_told_to_whoever_put_it_there(bench: Bench, mark: str) -> None:
    root, answer = await answered(bench)
    bench.explains.known[answer] = Why(BECAUSE, root)

    bench.intake.take(reacted(bench, answer, reaction=mark))
    await settled()

    assert bench.slack.of("whisper") == [SlackCall("whisper", GENERAL, root, BECAUSE, user="U2")]


async def test_what_is_not_known_any_more_is_said_so(bench: Bench) -> None:
    _, answer = await answered(bench)

    bench.intake.take(reacted(bench, answer))
    await settled()

    assert [w.text for w in bench.slack.of("whisper")] == ["I have no record of that answer any more."]


async def test_it_is_told_in_the_language_in_which_it_was_asked(make_bench: Any) -> None:
    bench = make_bench(language="auto")
    root, _ = await answered(bench)
    bench.mention("なぜ", thread=root)
    bench.mention("why", thread=root)
    await settled()

    assert bench.explains.languages == [Language.JAPANESE, Language.ENGLISH]


async def test_a_whisper_that_slack_refuses_is_told_to_the_operator_and_stops_nothing(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    root, answer = await answered(bench)
    bench.slack.fail("whisper", SlackError("chat.postEphemeral", "user_not_in_channel"))

    bench.intake.take(reacted(bench, answer))
    await settled()

    assert "could not tell U2 in C1 why (user_not_in_channel)" in capsys.readouterr().err
    assert (await bench.ask("And now?", thread=root)).outcome == "answered"


async def test_whatever_goes_wrong_in_explaining_ends_there(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    root, answer = await answered(bench)
    bench.explains.broken = RecursionError("a secret")

    asking = bench.mention("なぜ", thread=root, user="U2")
    bench.intake.take(reacted(bench, answer))
    await settled()

    assert {w.text for w in bench.slack.of("whisper")} == {"I have no record of that answer any more."}
    assert capsys.readouterr().err.splitlines() == ["insomnia: a reply could not be explained (RecursionError)"] * 2
    assert bench.explains.asked_by == [asking, ""], "the message that asks is not the one to be explained"
    assert (await bench.ask("And now?", thread=root)).outcome == "answered"


async def test_the_root_of_a_message_that_asks_why_says_that_it_was_dropped(bench: Bench) -> None:
    root, _ = await answered(bench)

    bench.mention("why", thread=root)
    await settled()

    about = bench.replies[-1].attributes
    assert (about[Attr.REPLY_OUTCOME], about[Attr.REPLY_REASON]) == ("dropped", "asked_why")


async def test_who_may_not_talk_to_the_bot_is_told_nothing(make_bench: Any) -> None:
    bench = make_bench(users=("U1",))
    root, answer = await answered(bench)

    bench.intake.take(reacted(bench, answer))
    bench.mention("why", thread=root, user="U2")
    await settled()

    assert [w.text for w in bench.slack.of("whisper") if "may not answer you" not in w.text] == []


@pytest.mark.parametrize(
    "more",
    [
        {"reaction": "thumbsup"},
        {"reaction": ["question"]},
        {"item_user": "U1"},
        {"user": ME.user_id},
        {"user": None},
        {"item": None},
        {"item": {"type": "message", "channel": GENERAL, "ts": "soon"}},
    ],
    ids=str,
)
def test_no_other_reaction_asks_anything(bench: Bench, more: dict[str, Any]) -> None:
    read = read_event(reacted(bench, "1761000000.000000", **more), ME)

    assert isinstance(read, Ignored) and read.reason is DropReason.IGNORED_EVENT
    assert isinstance(read_event(reacted(bench, "1761000000.000000"), ME), Wondered)
