"""What the embedded workspace posts to a request URL, as a server of somebody else's making sees it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bot.local.slack import EmbeddedSlack

pytestmark = pytest.mark.slack
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NO_RETRY = {"X-Slack-No-Retry": "1"}


@dataclass
class Endpoint:
    """`answers`: status and headers of the next requests; then 200. 0: no answer in time."""

    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    challenge: bool = True

    async def handle(self, request: web.Request) -> web.Response:
        raw = await request.read()
        body = json.loads(raw)
        if body["type"] == "url_verification":
            return web.json_response({"challenge": body["challenge"] if self.challenge else "?"})
        self.requests.append((dict(request.headers), raw))
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        if not status:
            await asyncio.sleep(1.0)
        return web.Response(status=status or 200, headers=headers)

    @property
    def tries(self) -> list[tuple[str, str]]:
        return [(h.get("X-Slack-Retry-Num", "0"), h.get("X-Slack-Retry-Reason", "")) for h, _ in self.requests]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(raw) for _, raw in self.requests]


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def url(endpoint: Endpoint) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/slack/events", endpoint.handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/slack/events"))


@pytest.fixture
async def slack(tmp_path: Path, url: str) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="t", ack_seconds=0.3, retry_delays=(0.0, 0.05, 0.05), opening=False) as slack:
        yield slack


async def until_delivered(slack: EmbeddedSlack, count: int) -> list[tuple[int, bool]]:
    async with asyncio.timeout(10.0):
        while len(slack.sockets.deliveries) < count:
            await asyncio.sleep(0.01)
    return [(d.attempt, d.acked) for d in slack.sockets.deliveries]


async def test_an_event_is_signed_over_its_time_and_its_very_bytes(slack: EmbeddedSlack, endpoint: Endpoint, url: str) -> None:
    assert await slack.deliver_to(url, SECRET)
    slack.say("general", "mika", "日本語")

    assert await until_delivered(slack, 1) == [(0, True)]
    headers, raw = endpoint.requests[0]
    base = f"v0:{headers['X-Slack-Request-Timestamp']}:".encode() + raw
    assert headers["X-Slack-Signature"] == "v0=" + hmac.new(SECRET.encode(), base, hashlib.sha256).hexdigest()
    assert "X-Slack-Retry-Num" not in headers and endpoint.bodies[0]["event"]["text"] == "日本語"


async def test_it_is_tried_three_times_more_with_number_and_reason_and_the_same_event_id(
    slack: EmbeddedSlack, endpoint: Endpoint, url: str
) -> None:
    await slack.deliver_to(url, SECRET)
    endpoint.answers = [(500, {}), (0, {}), (404, {}), (500, {})]
    slack.say("general", "mika", "hello")

    assert await until_delivered(slack, 4) == [(0, False), (1, False), (2, False), (3, False)]
    assert endpoint.tries == [("0", ""), ("1", "http_error"), ("2", "http_timeout"), ("3", "http_error")]
    assert len({body["event_id"] for body in endpoint.bodies}) == 1
    await asyncio.sleep(0)
    assert slack.dropped == 1


async def test_an_answer_can_ask_for_no_other_try(slack: EmbeddedSlack, endpoint: Endpoint, url: str) -> None:
    await slack.deliver_to(url, SECRET)
    endpoint.answers = [(403, NO_RETRY)]
    slack.say("general", "mika", "hello")

    await until_delivered(slack, 1)
    await asyncio.sleep(0.2)

    assert endpoint.tries == [("0", "")]


async def test_nobody_there_is_tried_again(slack: EmbeddedSlack, endpoint: Endpoint, url: str, unused_tcp_port: int) -> None:
    assert await slack.deliver_to(url, SECRET)
    there = slack.sockets.request_url
    assert there is not None
    there.url = f"http://127.0.0.1:{unused_tcp_port}/"
    slack.say("general", "mika", "hello")
    await until_delivered(slack, 2)
    there.url = url

    assert (await until_delivered(slack, 3))[-1][1] and endpoint.tries[0][1] == "connection_failed"


async def test_a_url_that_does_not_return_the_challenge_is_not_taken(
    slack: EmbeddedSlack, endpoint: Endpoint, url: str, unused_tcp_port: int
) -> None:
    endpoint.challenge = False

    assert not await slack.deliver_to(url, SECRET) and slack.sockets.request_url is None
    assert not await slack.deliver_to(f"http://127.0.0.1:{unused_tcp_port}/", SECRET)


async def test_of_a_shared_channel_the_team_is_the_writers_and_the_installation_ours(
    slack: EmbeddedSlack, endpoint: Endpoint, url: str
) -> None:
    await slack.deliver_to(url, SECRET)
    slack.add_person("vera", team="T0OTHER")
    slack.add_channel("partners", shared=True)
    slack.say("partners", "vera", "hello")
    await until_delivered(slack, 1)

    (body,) = endpoint.bodies
    assert (body["team_id"], body["context_team_id"], body["authorizations"][0]["team_id"]) == ("T0OTHER", slack.team_id, slack.team_id)
    assert (body["is_ext_shared_channel"], body["event"]["user_team"], body["event"]["team"]) == (True, "T0OTHER", "T0OTHER")


async def test_people_and_channels_of_others_are_there_after_a_restart(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as slack:
        slack.add_person("vera", team="T0OTHER")
        slack.add_channel("partners", shared=True)

    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as again:
        assert again.workspace.person("vera").team == "T0OTHER" and again.workspace.conversation("partners").shared
