"""Socket Mode with the real Bolt and slack_sdk against the embedded workspace: nothing is lost, doubled or acknowledged too early."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from slack_bolt.request.async_request import AsyncBoltRequest

from bot import slack_socket
from bot.local.slack import EmbeddedSlack
from tests.bot.sockets import Bot, Connect, connecting, until

pytestmark = pytest.mark.slack
ACK_SECONDS = 0.5
PING_SECONDS = 0.4
FIRST_TRY = AsyncBoltRequest(mode="socket_mode", body={})
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    delays = (0.05, 0.05, 0.05)
    async with EmbeddedSlack(tmp_path, control_token="t", ack_seconds=ACK_SECONDS, retry_delays=delays, opening=False) as slack:
        yield slack


@pytest.fixture
async def connect(slack: EmbeddedSlack) -> AsyncIterator[Connect]:
    async with connecting(slack) as connect:
        yield connect


@pytest.fixture
async def bot(connect: Connect) -> Bot:
    return await connect()


@pytest.fixture
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_socket, "PING_SECONDS", PING_SECONDS)


# -- acknowledging ---------------------------------------------------------------------------------------------------
async def test_c026_both_events_of_a_mention_are_taken_and_acknowledged(slack: EmbeddedSlack, bot: Bot) -> None:
    said = slack.say("general", "mika", "hello", mention=True)

    await until(lambda: len(bot.deliveries) == 2)

    assert {event["type"] for event in bot.events} == {"message", "app_mention"}
    assert {event["ts"] for event in bot.events} == {said["ts"]}
    assert len({body["event_id"] for body in bot.stored}) == 2
    assert bot.deliveries == [(0, True)] * 2


async def test_the_whole_callback_is_taken(slack: EmbeddedSlack, bot: Bot) -> None:
    slack.say("general", "mika", "hello")

    await until(lambda: bot.stored)

    assert (bot.stored[0]["type"], bot.stored[0]["team_id"]) == ("event_callback", slack.team_id)


async def test_every_kind_of_event_is_acknowledged_at_its_first_delivery(slack: EmbeddedSlack, bot: Bot) -> None:
    root = slack.say("general", "mika", "hello")["ts"]
    reply = slack.say("general", "tom", "a reply", thread_ts=root)["ts"]
    slack.say("@mika", "mika", "in private")
    slack.say("general", "mika", "look", files=["plan.txt"])
    slack.say("general", "lighthouse", "alert", subtype="bot_message")
    slack.edit("general", root, "hello, all")
    slack.unfurl("general", root, {"text": "a page"})
    slack.workspace.react("C0GENERAL", root, "U0MIKA", "eyes")
    slack.delete("general", reply)
    slack.delete("general", root)
    slack.workspace.press_stop("C0GENERAL", root, "U0MIKA")

    await until(lambda: len(bot.deliveries) >= 11)

    kinds = {(event["type"], event.get("subtype")) for event in bot.events}
    assert {("message", None), ("message", "message_changed"), ("message", "message_deleted"), ("message", "file_share")} <= kinds
    assert {("agent_session_stopped", None), ("reaction_added", None), ("message", "bot_message")} <= kinds
    assert set(bot.deliveries) == {(0, True)} and len(bot.stored) == len(bot.deliveries)


async def test_what_the_bot_itself_says_is_acknowledged_too(slack: EmbeddedSlack, bot: Bot) -> None:
    slack.say("general", slack.bot_user_id, "an answer")

    await until(lambda: bot.deliveries)

    assert (bot.texts, bot.deliveries) == (["an answer"], [(0, True)])


async def test_the_acknowledgement_leaves_when_the_event_is_stored_and_not_before(slack: EmbeddedSlack, bot: Bot) -> None:
    acknowledged: list[bool] = []

    def look(body: Mapping[str, Any]) -> None:
        time.sleep(0.05)
        acknowledged.append(any(acked for _, acked in bot.deliveries))

    bot.before = look
    slack.say("general", "mika", "hello")
    await until(lambda: bot.deliveries)

    assert (acknowledged, bot.deliveries) == ([False], [(0, True)])


async def test_an_event_that_could_not_be_stored_is_not_acknowledged_and_comes_again(
    slack: EmbeddedSlack, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    def full(body: Mapping[str, Any]) -> None:
        tries.append(str(body["event_id"]))
        if len(tries) < 3:
            raise OSError("the disk is full")

    bot.before = full
    slack.say("general", "mika", "a word in confidence")
    await until(lambda: len(bot.deliveries) == 3)

    assert bot.deliveries == [(0, False), (1, False), (2, True)]
    assert (len(set(tries)), bot.texts) == (1, ["a word in confidence"])
    assert "the disk is full" in caplog.text and "in confidence" not in caplog.text


async def test_c028_a_first_delivery_is_taken_although_it_carries_a_retry_number(slack: EmbeddedSlack, bot: Bot) -> None:
    slack.say("general", "mika", "hello")  # Bolt makes a header `x-slack-retry-num: 0` of it

    await until(lambda: bot.deliveries)

    assert bot.texts == ["hello"]


async def test_c029_twenty_events_at_once_are_stored_in_their_order_however_slow_the_disk(slack: EmbeddedSlack, bot: Bot) -> None:
    slack.sockets._ack_seconds = 3.0  # Slack's own
    bot.before = lambda body: time.sleep(0.05)
    said = [slack.say("general", "mika", str(n))["ts"] for n in range(20)]

    await until(lambda: len(bot.deliveries) == 20)

    assert [event["ts"] for event in bot.events] == said
    assert set(bot.deliveries) == {(0, True)}


@pytest.mark.parametrize("kind", ["error", "ratelimited", "http_500", "slow"])
async def test_a_first_event_is_stored_while_slack_answers_nothing(slack: EmbeddedSlack, bot: Bot, kind: str) -> None:
    slack.faults.add("*", kind, times=None)

    for n in range(3):
        slack.say("general", "mika", str(n), deliver=True)
    await until(lambda: len(bot.deliveries) == 3)

    assert (bot.texts, set(bot.deliveries)) == (["0", "1", "2"], {(0, True)})
    assert slack.calls == [] or {call.method for call in slack.calls} == {"apps.connections.open"}


async def test_slack_is_asked_for_nothing_when_an_event_comes(slack: EmbeddedSlack, bot: Bot) -> None:
    before = len(slack.calls)
    slack.say("general", "mika", "hello")

    await until(lambda: bot.deliveries)

    assert len(slack.calls) == before


async def test_envelopes_that_are_no_events_are_acknowledged_and_not_taken(slack: EmbeddedSlack, bot: Bot) -> None:
    response = await bot.socket._store_first({"type": "block_actions", "actions": []}, FIRST_TRY)

    assert (response.status, bot.stored) == (200, [])


async def test_after_closing_nothing_is_taken_and_the_next_bot_gets_it(slack: EmbeddedSlack, bot: Bot, connect: Connect) -> None:
    await bot.socket.close()
    slack.say("general", "mika", "is anybody there?")
    response = await bot.socket._store_first({"type": "event_callback"}, FIRST_TRY)

    second = await connect()
    await until(lambda: second.stored)

    assert (response.status, bot.stored, second.texts) == (503, [], ["is anybody there?"])


# -- connections -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_a_refresh_that_slack_announces_is_no_gap(slack: EmbeddedSlack, bot: Bot, reason: str) -> None:
    for n in range(10):
        slack.say("general", "mika", str(n))
        if n == 5:
            slack.faults.disconnect(reason)
        await asyncio.sleep(0.01)
    await until(lambda: bot.reconnects and len(bot.stored) >= 10 and slack.sockets.connections == 1)

    assert sorted(map(int, bot.texts)) == list(range(10))
    assert ([r.reason for r in bot.reconnects], bot.gaps, bot.connected) == (["disconnect"], 0, [True, True])
    assert bot.reconnects[0].down_seconds < 5.0


async def test_a_connection_that_was_cut_is_a_gap_and_is_made_again(quick_pings: None, slack: EmbeddedSlack, bot: Bot) -> None:
    slack.faults.drop_sockets()
    await until(lambda: slack.sockets.connections == 0)
    slack.say("general", "mika", "meanwhile")

    await until(lambda: bot.stored and bot.reconnects)

    assert bot.texts == ["meanwhile"]
    assert ([r.reason for r in bot.reconnects], bot.gaps, bot.connected) == (["closed"], 1, [True, False, True])
    await bot.socket.close()
    assert bot.connected[3:] == [False]


async def test_a_quiet_hour_before_the_cut_does_not_count_as_down(quick_pings: None, slack: EmbeddedSlack, bot: Bot) -> None:
    bot.socket._last_frame -= 3_600  # the last event came an hour ago; pings were answered all the time
    await asyncio.sleep(2 * PING_SECONDS)
    slack.faults.drop_sockets()

    await until(lambda: bot.reconnects)

    assert bot.reconnects[0].down_seconds < 60.0


async def test_the_network_may_stay_away_longer(quick_pings: None, slack: EmbeddedSlack, bot: Bot) -> None:
    slack.faults.socket_down()
    slack.say("general", "mika", "meanwhile")
    await asyncio.sleep(2 * PING_SECONDS)
    slack.faults.socket_up()

    await until(lambda: bot.stored and bot.reconnects)

    assert (bot.texts, bot.gaps) == (["meanwhile"], 1)


async def test_an_announced_refresh_that_takes_too_long_is_a_gap(
    quick_pings: None, slack: EmbeddedSlack, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "REFRESH_SECONDS", 0.0)
    slack.faults.disconnect()

    await until(lambda: bot.reconnects)

    assert bot.gaps == 1


async def test_c034_a_socket_that_answers_no_ping_is_replaced(quick_pings: None, slack: EmbeddedSlack, bot: Bot) -> None:
    slack.faults.script.answers_pings = False
    await until(lambda: bot.reconnects)
    slack.faults.script.answers_pings = True
    slack.say("general", "mika", "hello")

    await until(lambda: bot.stored)

    assert bot.reconnects[0].reason == "stale" and bot.gaps >= 1


async def test_c034_other_connections_of_the_app_are_told_to_whoever_runs_it(
    slack: EmbeddedSlack, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    first = await connect()
    assert "connections" not in capsys.readouterr().err

    second = await connect()

    assert (first.socket.connections, second.socket.connections) == (1, 2)
    assert "Slack counts 2 connections of this app and divides the events among them" in capsys.readouterr().err


async def test_a_refresh_is_no_second_connection(slack: EmbeddedSlack, bot: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    slack.faults.script.num_connections = 2
    slack.faults.disconnect()

    await until(lambda: bot.reconnects)

    assert "connections" not in capsys.readouterr().err


async def test_an_address_that_does_not_open_is_not_tried_for_ever(
    quick_pings: None, slack: EmbeddedSlack, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library keeps to one address once it has it; each opens one socket, once, and soon expires."""
    monkeypatch.setattr(slack_socket, "ADDRESS_SECONDS", 3 * PING_SECONDS)
    good, given = slack.sockets.ticket, list[str]()

    def ticket() -> str:
        given.append("expired" if not given else good())
        return given[-1]

    monkeypatch.setattr(slack.sockets, "ticket", ticket)
    slack.faults.drop_sockets()
    slack.say("general", "mika", "meanwhile")

    await until(lambda: bot.stored)

    assert given[0] == "expired" and len(given) == 2 and bot.gaps == 1


@pytest.mark.parametrize("variable", PROXY_VARIABLES)
async def test_a_workspace_on_this_machine_is_reached_whatever_the_proxy_variables_say(
    slack: EmbeddedSlack, connect: Connect, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")

    bot = await connect()
    slack.say("general", "mika", "hello")
    await until(lambda: bot.deliveries)

    assert (bot.texts, bot.deliveries) == (["hello"], [(0, True)])
