"""Socket Mode as the real Bolt and slack_sdk see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.local.slack import EmbeddedSlack

pytestmark = pytest.mark.slack
ACK_SECONDS = 0.3


class Heard:
    """A Bolt app that keeps what it gets. `deaf_for` deliveries fail in the middleware, before the acknowledgement."""

    def __init__(self, slack: EmbeddedSlack) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.tries = 0
        self.deaf_for = 0
        self.app = AsyncApp(client=AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url))
        self.app.middleware(self._keep)
        for kind in ("message", "app_mention", "reaction_added", "agent_session_stopped"):
            self.app.event(kind)(_nothing)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [b["event"] for b in self.bodies]

    async def _keep(self, body: dict[str, Any], next: Callable[[], Any]) -> None:
        self.tries += 1
        if self.deaf_for > 0:
            self.deaf_for -= 1
            raise OSError("the disk is full")
        self.bodies.append(body)
        await next()


async def _nothing() -> None:
    pass


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="t", ack_seconds=ACK_SECONDS, retry_delays=(0.05, 0.05, 0.05), opening=False) as slack:
        yield slack


@asynccontextmanager
async def listening(slack: EmbeddedSlack) -> AsyncIterator[Heard]:
    heard, before = Heard(slack), slack.sockets.connections
    handler = AsyncSocketModeHandler(heard.app, slack.APP_TOKEN, ping_interval=1)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    await until(lambda: slack.sockets.connections > before)
    try:
        yield heard
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


@pytest.fixture
async def heard(slack: EmbeddedSlack) -> AsyncIterator[Heard]:
    async with listening(slack) as heard:
        yield heard


async def open_socket(slack: EmbeddedSlack, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    url = (await AsyncWebClient(base_url=slack.url).apps_connections_open(app_token=slack.APP_TOKEN))["url"]
    return await session.ws_connect(url)


async def test_both_events_of_a_mention_arrive_and_are_acknowledged(slack: EmbeddedSlack, heard: Heard) -> None:
    said = slack.say("general", "mika", "hello", mention=True)

    await until(lambda: len(heard.events) == 2 and len(slack.sockets.deliveries) == 2)

    assert {e["type"] for e in heard.events} == {"message", "app_mention"}
    assert {e["ts"] for e in heard.events} == {said["ts"]}
    assert len({b["event_id"] for b in heard.bodies}) == 2
    assert {(d.attempt, d.acked) for d in slack.sockets.deliveries} == {(0, True)}
    assert slack.sockets.connections == 1 and slack.dropped == 0


async def test_events_arrive_in_the_order_in_which_they_happened(slack: EmbeddedSlack, heard: Heard) -> None:
    said = [slack.say("general", "mika", str(n))["ts"] for n in range(50)]

    await until(lambda: len(heard.events) == 50)

    assert [e["ts"] for e in heard.events] == said


async def test_an_event_that_is_not_acknowledged_comes_again(slack: EmbeddedSlack, heard: Heard) -> None:
    heard.deaf_for = 2

    slack.say("general", "mika", "hello")
    await until(lambda: len(slack.sockets.deliveries) == 3)

    assert [(d.attempt, d.acked) for d in slack.sockets.deliveries] == [(0, False), (1, False), (2, True)]
    assert len({d.event_id for d in slack.sockets.deliveries}) == 1
    assert (heard.tries, len(heard.bodies), slack.dropped) == (3, 1, 0)


async def test_after_the_last_attempt_an_event_is_given_up_and_counted(slack: EmbeddedSlack, heard: Heard) -> None:
    heard.deaf_for = 99

    slack.say("general", "mika", "hello")
    await until(lambda: slack.dropped == 1)

    assert heard.tries == 4


async def test_each_delivery_has_its_own_envelope_and_says_which_attempt_it_is(slack: EmbeddedSlack) -> None:
    async with aiohttp.ClientSession() as session:
        socket = await open_socket(slack, session)
        hello = await socket.receive_json()
        slack.say("general", "mika", "hello")
        first, second = await socket.receive_json(), await socket.receive_json()
        await socket.send_json({"envelope_id": second["envelope_id"]})
        await until(lambda: [d.acked for d in slack.sockets.deliveries] == [False, True])
        await socket.close()

    assert (hello["type"], hello["num_connections"], hello["connection_info"]) == ("hello", 1, {"app_id": slack.app_id})
    assert hello["debug_info"]["approximate_connection_time"] > 0
    assert first["envelope_id"] != second["envelope_id"] and first["payload"] == second["payload"]
    assert [(e["retry_attempt"], e["retry_reason"]) for e in (first, second)] == [(0, ""), (1, "timeout")]
    assert first["accepts_response_payload"] is False and first["type"] == "events_api"


async def test_a_ticket_opens_one_socket_once(slack: EmbeddedSlack) -> None:
    url = (await AsyncWebClient(base_url=slack.url).apps_connections_open(app_token=slack.APP_TOKEN))["url"]

    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(url)
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)
        await socket.close()


async def test_of_two_connections_each_event_goes_to_one(slack: EmbeddedSlack, heard: Heard) -> None:
    async with listening(slack) as second:
        for n in range(10):
            slack.say("general", "mika", str(n))
        await until(lambda: len(heard.events) + len(second.events) == 10)

        assert heard.events and second.events
        assert {e["text"] for e in heard.events}.isdisjoint(e["text"] for e in second.events)


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_a_bot_that_is_asked_to_reconnect_loses_and_doubles_nothing(slack: EmbeddedSlack, heard: Heard, reason: str) -> None:
    for n in range(30):
        slack.say("general", "mika", str(n))
        if n in {5, 15}:
            slack.faults.disconnect(reason)
        await asyncio.sleep(0.01)

    await until(lambda: len(heard.events) >= 30 and slack.sockets.connections == 1)
    assert sorted(int(e["text"]) for e in heard.events) == list(range(30))


async def test_a_network_that_went_away_loses_nothing(slack: EmbeddedSlack, heard: Heard) -> None:
    slack.say("general", "mika", "before")
    await until(lambda: heard.events)
    slack.faults.socket_down()
    slack.say("general", "mika", "meanwhile")
    await until(lambda: slack.sockets.connections == 0)
    assert [e["text"] for e in heard.events] == ["before"]

    slack.faults.socket_up()
    await until(lambda: [e["text"] for e in heard.events] == ["before", "meanwhile"])


async def test_while_sockets_are_down_no_connection_is_given(slack: EmbeddedSlack) -> None:
    slack.faults.socket_down()

    with pytest.raises(SlackApiError, match="internal_error"):
        await AsyncWebClient(base_url=slack.url).apps_connections_open(app_token=slack.APP_TOKEN)


async def test_an_event_waits_for_a_bot_that_is_not_there_yet(slack: EmbeddedSlack) -> None:
    slack.say("general", "mika", "anybody?")

    async with listening(slack) as heard:
        await until(lambda: heard.events)


async def test_a_ghost_connection_answers_pings_and_brings_nothing_until_it_is_released(slack: EmbeddedSlack, heard: Heard) -> None:
    slack.faults.withhold()
    slack.say("general", "mika", "held")
    await asyncio.sleep(ACK_SECONDS)
    assert heard.events == [] and slack.sockets.connections == 1

    slack.faults.release()
    await until(lambda: heard.events)


async def test_a_socket_can_be_made_to_answer_no_ping(slack: EmbeddedSlack) -> None:
    slack.faults.script.answers_pings = False
    async with aiohttp.ClientSession() as session:
        socket = await open_socket(slack, session)
        await socket.receive_json()
        await socket.ping()
        with pytest.raises(TimeoutError):
            await socket.receive(timeout=0.1)
        await socket.close()


async def test_hello_can_tell_of_other_connections(slack: EmbeddedSlack) -> None:
    slack.faults.script.num_connections = 2
    async with aiohttp.ClientSession() as session:
        socket = await open_socket(slack, session)
        assert (await socket.receive_json())["num_connections"] == 2
        await socket.close()


async def test_edits_deletions_files_reactions_and_the_stop_button_arrive(slack: EmbeddedSlack, heard: Heard) -> None:
    root = slack.say("general", "mika", "root")["ts"]
    reply = slack.say("general", "tom", "reply", thread_ts=root)["ts"]
    slack.edit("general", reply, "reply!")
    slack.delete("general", reply)
    slack.say("@mika", "mika", None, files=["plan.pdf"])
    slack.workspace.react("general", root, "tom", "question")
    slack.workspace.press_stop("general", root, "mika")

    await until(lambda: len(heard.events) == 7)

    assert [e.get("subtype", e["type"]) for e in heard.events] == [
        "message",
        "message",
        "message_changed",
        "message_deleted",
        "file_share",
        "reaction_added",
        "agent_session_stopped",
    ]


async def test_own_posts_are_delivered_and_left_out_by_bolt(slack: EmbeddedSlack, heard: Heard) -> None:
    await heard.app.client.chat_postMessage(channel="C0GENERAL", text="mine")

    await until(lambda: slack.sockets.deliveries)

    assert slack.sockets.deliveries[0].acked and heard.events == []


async def test_what_was_not_acknowledged_comes_after_a_restart(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as slack:
        said = slack.say("general", "mika", "just before the end", mention=True)

    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as slack, listening(slack) as heard:
        await until(lambda: len(heard.events) == 2)
        assert {e["ts"] for e in heard.events} == {said["ts"]}

    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as slack, listening(slack) as heard:
        slack.say("general", "mika", "new")
        await until(lambda: heard.events)
        assert [e["text"] for e in heard.events] == ["new"]
