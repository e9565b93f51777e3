"""The bot is stopped while it answers, and people go on writing: what is under way ends, and nothing that comes meanwhile is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.story import Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]


async def test_a_turn_under_way_ends_and_what_is_said_meanwhile_is_answered_by_the_next_bot(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        thread = told.old_thread("The vault code is walnut-4711.")
        await told.start()
        await told.ask(thread, "Hello?")
        asked = told.last_request()
        told.model.script.slow(5.0, match="slow")

        slow = told.slack.say("general", "tom", "A slow one?", thread_ts=thread.ts, mention=True)
        waiting = told.slack.say("general", "mika", "One that waits?", thread_ts=thread.ts, mention=True)
        await told.until(lambda: told.last_request() > asked)
        stopping = asyncio.get_running_loop().create_task(told.stop())
        await told.until(lambda: not told.slack.sockets.connections)
        meanwhile = [told.slack.say("general", "lena", f"Number {n}?", thread_ts=thread.ts, mention=True) for n in range(3)]
        await stopping
        answered_by_the_first = _answered(told)
        later = told.slack.say("general", "lena", "While nobody ran?", thread_ts=thread.ts, mention=True)
        await told.start()
        answers = [await told.answer_to("general", said["ts"]) for said in (slow, waiting, *meanwhile, later)]
        await told.stop()

        assert answered_by_the_first in (2, 3)  # the slow one, and perhaps the next, which it had while its socket was being closed
        assert {answer.outcome for answer in answers} == {"answered"} and _answered(told) == 7
        posts = [answer.ts for answer in answers]
        assert posts[0] < min(posts[1:]) and posts[1] < min(posts[2:])


async def test_a_turn_that_takes_longer_than_that_is_told_in_the_thread_and_answered_by_the_next_bot(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        told.model.script.hang()
        said = told.slack.say("general", "tom", "Something endless?", mention=True)
        await told.until(lambda: told.last_request() > 0)

        await told.stop()

        place = told.slack.workspace.conversation("general").id
        (beside,) = (m for m in told.slack.workspace.store.messages(place) if m["text"].startswith("I am being restarted"))
        assert beside["thread_ts"] == said["ts"] and told.slack.workspace.status(place, said["ts"]) == ""
        await told.start()
        answer = await told.answer_to("general", said["ts"])
        await told.stop()
        first, second = (span for span in told.collector.spans if span["name"] == "process slack")
        assert (answer.outcome, _answered(told)) == ("answered", 1)
        assert first["attributes"]["insomnia.reply.outcome"] == "cancelled"
        assert [link["trace_id"] for link in second["links"]] == [first["trace_id"]]
        assert second["attributes"]["insomnia.reply.attempt"] == 2


def _answered(told: Story) -> int:
    """Answers, all of them short enough for one part."""
    messages = told.slack.workspace.store.messages(told.slack.workspace.conversation("general").id)
    return sum("metadata" in message for message in messages)
