"""What Slack puts off is not asked again before its time: a method in a workspace, posts in a channel; nothing else waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from bot.local.slack import EmbeddedSlack
from bot.ports import SlackError
from bot.slack import SlackWeb
from telemetry.emit import Emit
from telemetry.events import SlackCalled
from tests.bot.fakes import FakeClock

pytestmark = pytest.mark.slack


@dataclass
class Web:
    slack: SlackWeb
    workspace: EmbeddedSlack
    clock: FakeClock
    facts: list[SlackCalled] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)

    def asked(self, method: str) -> int:
        return sum(call.method == method for call in self.workspace.calls)


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as workspace, aiohttp.ClientSession() as session:
        clock, facts = FakeClock(), list[SlackCalled]()
        adapter = SlackWeb(workspace.BOT_TOKEN, api_url=workspace.url, session=session, clock=clock, emit=cast(Emit, facts.append))
        roots = [workspace.say(channel, "mika", "hello")["ts"] for channel in ("general", "general", "release")]
        yield Web(adapter, workspace, clock, facts, roots)


async def put_off(call: Any) -> float:
    with pytest.raises(SlackError) as error:
        await call
    assert error.value.code == "ratelimited"
    return error.value.retry_after


def channels(workspace: EmbeddedSlack) -> tuple[str, str]:
    return workspace.workspace.conversation("general").id, workspace.workspace.conversation("release").id


async def test_a_method_that_is_put_off_is_put_off_for_every_thread_and_asked_once(web: Web) -> None:
    general, release = channels(web.workspace)
    web.workspace.faults.add("conversations.replies", "ratelimited", retry_after=30)

    first = await put_off(web.slack.replies(general, web.roots[0]))
    web.clock.advance(10.0)
    second = await put_off(web.slack.replies(general, web.roots[1]))
    third = await put_off(web.slack.replies(release, web.roots[2]))

    assert (first, second, third, web.asked("conversations.replies")) == (30.0, 20.0, 20.0, 1)


async def test_it_is_asked_again_when_its_time_has_come(web: Web) -> None:
    general, _ = channels(web.workspace)
    web.workspace.faults.add("conversations.replies", "ratelimited", retry_after=30)
    await put_off(web.slack.replies(general, web.roots[0]))

    web.clock.advance(29.98)  # a clock that wakes a little early

    assert len((await web.slack.replies(general, web.roots[0])).messages) == 1


async def test_other_methods_do_not_wait(web: Web) -> None:
    general, _ = channels(web.workspace)
    web.workspace.faults.add("conversations.replies", "ratelimited", retry_after=30)
    await put_off(web.slack.replies(general, web.roots[0]))

    assert (await web.slack.post(general, "an answer", thread_ts=web.roots[0])).thread_ts == web.roots[0]
    assert await web.slack.user_name("U0TOM") == "Tom"


async def test_posts_are_put_off_in_their_channel_only(web: Web) -> None:
    general, release = channels(web.workspace)
    web.workspace.faults.add("chat.postMessage", "ratelimited", retry_after=5)
    await put_off(web.slack.post(general, "one", thread_ts=web.roots[0]))

    there = await web.slack.post(release, "two", thread_ts=web.roots[2])
    here = await put_off(web.slack.post(general, "three", thread_ts=web.roots[1]))

    assert (there.thread_ts, here, web.asked("chat.postMessage")) == (web.roots[2], 5.0, 2)


async def test_a_refusal_that_names_no_time_puts_nothing_off(web: Web) -> None:
    general, _ = channels(web.workspace)
    web.workspace.faults.add("conversations.replies", "ratelimited_200")
    await put_off(web.slack.replies(general, web.roots[0]))

    assert len((await web.slack.replies(general, web.roots[0])).messages) == 1


async def test_what_is_not_asked_is_no_call(web: Web) -> None:
    general, _ = channels(web.workspace)
    web.workspace.faults.add("conversations.replies", "ratelimited", retry_after=30)

    for _ in range(3):
        await put_off(web.slack.replies(general, web.roots[0]))

    assert [fact.method for fact in web.facts] == ["conversations.replies"]
