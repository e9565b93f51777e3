"""Reactions and the working status against the embedded workspace: what the app was not given is counted once and missed by nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from bot.clock import SystemClock
from bot.eyes import EYES
from bot.local.slack import EmbeddedSlack
from bot.ports import SlackError
from bot.slack import SlackWeb
from telemetry.emit import Emit
from telemetry.events import SlackCalled

pytestmark = pytest.mark.slack


@dataclass
class Web:
    slack: SlackWeb
    workspace: EmbeddedSlack
    channel: str
    ts: str
    facts: list[SlackCalled] = field(default_factory=list)

    def calls(self, method: str) -> int:
        return sum(fact.method == method for fact in self.facts)

    @property
    def reactions(self) -> list[str]:
        (message,) = self.workspace.thread("general", self.ts)
        return [r["name"] for r in message.get("reactions", [])]

    async def react(self, *, on: bool) -> None:
        await self.slack.react(self.channel, self.ts, EYES, on=on)

    async def work(self, *, on: bool) -> None:
        await self.slack.set_working(self.channel, self.ts, on=on)

    @property
    def status(self) -> str | None:
        return self.workspace.workspace.session_statuses.get((self.channel, self.ts))


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as workspace, aiohttp.ClientSession() as session:
        facts: list[SlackCalled] = []
        adapter = SlackWeb(workspace.BOT_TOKEN, api_url=workspace.url, session=session, clock=SystemClock(), emit=cast(Emit, facts.append))
        said = workspace.say("general", "mika", "hello")
        yield Web(adapter, workspace, workspace.workspace.conversation("general").id, said["ts"], facts)


async def test_a_reaction_is_put_there_and_taken_away(web: Web) -> None:
    await web.react(on=True)
    assert web.reactions == [EYES]

    await web.react(on=False)

    assert web.reactions == []


async def test_what_is_there_or_gone_already_is_no_trouble(web: Web) -> None:
    for on in (False, True, True, False, False):
        await web.react(on=on)

    web.workspace.delete("general", web.ts)
    await web.react(on=False)


async def test_while_it_works_slack_is_told_so(web: Web) -> None:
    await web.work(on=True)
    assert web.status == "processing"

    await web.work(on=False)

    assert web.status == "active"


@pytest.mark.parametrize("method", ["reactions.add", "agents.sessions.setStatus"])
async def test_what_the_app_was_not_given_is_counted_once_and_not_tried_again(web: Web, method: str) -> None:
    act = web.react if method == "reactions.add" else web.work
    web.workspace.faults.add(method, "missing_scope", times=None)

    for _ in range(5):
        await act(on=True)

    assert web.calls(method) == 1


async def test_a_workspace_without_the_feature_is_left_alone_too(web: Web) -> None:
    web.workspace.faults.add("agents.sessions.setStatus", "error", code="unknown_method", times=None)

    for _ in range(3):
        await web.work(on=True)

    assert web.calls("agents.sessions.setStatus") == 1


async def test_what_passes_is_tried_again(web: Web) -> None:
    web.workspace.faults.add("reactions.add", "error", code="internal_error")
    with pytest.raises(SlackError, match="internal_error"):
        await web.react(on=True)

    await web.react(on=True)

    assert web.reactions == [EYES]


async def test_history_is_newest_first_without_replies(web: Web) -> None:
    web.workspace.say("general", "tom", "a reply", thread_ts=web.ts)
    newest = web.workspace.say("general", "tom", "more")["ts"]

    page = await web.slack.history(web.channel, limit=10)

    assert [m["ts"] for m in page.messages] == [newest, web.ts] and page.messages[1]["reply_count"] == 1


async def test_each_answer_tells_slacks_time(web: Web) -> None:
    before = web.slack.time.now()
    await web.slack.start()

    assert abs(web.slack.time.now() - before) < 3 and web.slack.time._ahead is not None and web.slack.team == web.workspace.team_id
