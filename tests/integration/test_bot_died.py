"""The real bot is killed over one message: between a post and the end of its row, and each time that it tries."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bot.messages import MOST_DEATHS
from tests.integration.story import Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack, pytest.mark.kill]


async def test_a_bot_that_dies_between_two_parts_of_an_answer_leaves_the_rest_to_the_next_one(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        text = "\n".join("y" * 99 for _ in range(90))
        told.model.script.say(text)
        told.slack.faults.add("chat.postMessage", "lost", after=1)  # the bot does not hear of its second part, and waits a second
        said = told.slack.say("general", "tom", "A long story?", mention=True)
        await told.until(lambda: len(_parts(told)) == 2)

        await told.kill()
        await told.start()
        answer = await told.answer_to("general", said["ts"])
        await told.stop()

        assert [(part["part"], part["parts"]) for part in _parts(told)] == [(1, 3), (2, 3), (3, 3)]
        assert answer.text == text and len(told.prompts()) == 1
        (second,) = (span for span in told.collector.spans if span["name"] == "process slack")
        (posting,) = (span for span in told.collector.spans if span["name"] == "slack.reply" and span["trace_id"] == second["trace_id"])
        assert posting["attributes"]["insomnia.reply.found"] == 2 and len(posting["attributes"]["insomnia.reply.ts"]) == 3
        assert second["attributes"]["insomnia.reply.attempt"] == 2
        assert [link["trace_id"] for link in second["links"]] == [answer.trace_id]  # the parts name the attempt that made them


async def test_what_kills_the_bot_each_time_is_given_up_told_and_counted(tmp_path: Path) -> None:
    async with story(tmp_path, config="[memory]\nextract = false\n") as told:
        told.model.script.hang(times=MOST_DEATHS, match="kills")
        await told.start()
        said = told.slack.say("general", "tom", "A question that kills?", mention=True)
        for attempt in range(1, MOST_DEATHS + 1):
            await told.until(lambda attempt=attempt: len(told.prompts()) == attempt)
            await _kill_all(told)
            await told.start()

        answer = await told.answer_to("general", said["ts"])
        other = told.slack.say("general", "tom", "A harmless one.", mention=True)
        harmless = await told.answer_to("general", other["ts"])
        await told.stop()

        assert (answer.outcome, harmless.outcome) == ("failed", "answered")
        assert answer.text.startswith("Sorry, I broke down 3 times while I was answering this") and answer.trace_id[:8] in answer.text
        assert len(told.prompts()) == MOST_DEATHS + 1
        failed = {key: n for key, n in told.counted("insomnia.messages", "outcome", "reason").items() if key[0] == "failed"}
        assert failed == {("failed", "bot_died"): 1}
        assert "is given up: the bot died 3 times over it" in told.errors


def _parts(told: Story) -> list[dict[str, Any]]:
    messages = told.slack.workspace.store.messages(told.slack.workspace.conversation("general").id)
    return [message["metadata"]["event_payload"] for message in messages if "metadata" in message]


async def _kill_all(told: Story) -> None:
    """Its sessions too: an orphan would only make the next start wait."""
    children = told.bot.children()
    await told.kill()
    for child in children:
        os.kill(child, signal.SIGKILL)
