"""How messages reach their lane over the real SDK: in the order in which they were said, and none without its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.story import story

pytestmark = [pytest.mark.cli, pytest.mark.slack]


async def test_messages_that_arrive_together_keep_their_order_while_slack_is_slow_to_authorize(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        told.slack.faults.add("auth.test", "slow", seconds=0.3, times=2)  # both events of the first message

        said = [told.slack.say("general", "tom", f"number {number}", mention=True)["ts"] for number in range(4)]
        answers = [await told.answer_to("general", ts) for ts in said]

        assert [answer.thread_ts for answer in answers] == said
        assert sorted(answers, key=lambda answer: answer.ts) == answers


@pytest.mark.parametrize("refused", ["ratelimited", "http_500", "error"])
async def test_a_message_is_not_lost_when_slack_refuses_to_authorize_its_events(refused: str, tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        told.slack.faults.add("auth.test", refused, times=None)

        said = told.slack.say("general", "tom", "hello", mention=True)["ts"]
        answer = await told.answer_to("general", said)

        assert answer.outcome == "answered"
