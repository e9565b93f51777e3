"""Threads side by side in one session: which text belongs to which, and what must not fall between two of their questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.story import Place, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]


async def test_two_threads_of_one_ts_in_two_channels_are_two_threads(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault = told.old_thread("The vault code is walnut-4711.")
        told.slack.say("release", "lena", "We ship on Friday.", deliver=False, ts=vault.ts)
        await told.start()
        await told.ask(vault, "What is the vault code?")

        other = await told.ask(Place("release", vault.ts), "When do we ship?")

        assert other.decided == ("refetched", "not_known", "full")
        assert "“We ship on Friday.”" in other.text and "walnut" not in other.text


async def test_several_questions_at_once_in_an_unknown_thread_read_it_once(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.start()

        said = [told.slack.say("general", "tom", f"number {n}", thread_ts=place.ts, mention=True)["ts"] for n in range(4)]
        answers = [await told.answer_to("general", ts) for ts in said]

        assert [answer.decided[0] for answer in answers] == ["refetched", "known", "known", "known"]
        assert told.reads() == 1
        assert told.prompts()[-1].messages_text.count(": The vault code is walnut-4711.") == 1


async def test_a_thread_that_could_not_be_read_is_read_by_the_next_question(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.start()
        told.slack.faults.add("conversations.replies", "missing_scope")

        failed = await told.ask(place, "What is the vault code?")
        mended = await told.ask(place, "What is the vault code?")

        assert failed.decided[:2] == ("refetch_failed", "missing_scope") and "walnut" not in failed.text
        assert mended.decided[0] == "refetched" and "walnut-4711" in mended.text


async def test_an_answer_younger_than_the_question_behind_it_survives_a_compaction(tmp_path: Path) -> None:
    """It is part of the reading for the second question, though it stands below it in Slack: the compaction took it from the context."""
    async with story(tmp_path) as told:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.start()
        for number in range(2):
            await told.ask(place, f"Warming up, {number}.")
        told.model.script.say("It is forty-two.", match="the first")
        told.model.script.tool("no_such_tool", {}, usage=90_000, match="the second")

        said = [told.slack.say("general", "tom", text, thread_ts=place.ts, mention=True)["ts"] for text in ("the first", "the second")]
        first, second = [await told.answer_to("general", ts) for ts in said]
        await told.ask(place, "What did you answer?")

        assert first.ts > said[1] and second.decided == ("refetched", "after_compaction", "full")
        assert told.prompts()[-1].messages_text.count(", you): It is forty-two.") == 1
