"""Sockets that are open and bring nothing, and events that somebody else gets: noticed, and nothing is lost that Slack still has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot import slack_socket
from bot.local.slack import EmbeddedSlack
from telemetry.events import DeliveryGap, GapReason, SlackConnection
from tests.bot.sockets import Bot, Connect, connecting, until

pytestmark = pytest.mark.slack
ACK_SECONDS = 0.1
SILENT_SECONDS = 0.6
LATER = (0.0, 0.2, 1.0)  # Slack's tries: at once, within the silence, and after it


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="t", ack_seconds=ACK_SECONDS, retry_delays=LATER, opening=False) as slack:
        yield slack


@pytest.fixture
async def connect(slack: EmbeddedSlack, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    monkeypatch.setattr(slack_socket, "SILENT_SECONDS", SILENT_SECONDS)
    async with connecting(slack) as connect:
        yield connect


def gaps(bot: Bot) -> list[GapReason]:
    return [fact.reason for fact in bot.facts if isinstance(fact, DeliveryGap)]


def reasons(bot: Bot) -> list[str]:
    return [reconnect.reason for reconnect in bot.reconnects]


async def test_c034_what_a_deaf_socket_swallowed_arrives_on_its_successor_and_is_a_gap(slack: EmbeddedSlack, connect: Connect) -> None:
    bot = await connect()
    slack.faults.deafen()
    slack.say("general", "mika", "is anybody there?")

    await until(lambda: bot.stored)

    assert (bot.texts, gaps(bot), slack.dropped) == (["is anybody there?"], [GapReason.LATE_DELIVERY], 0)
    assert set(reasons(bot)) == {"silent"} and bot.deliveries[-1] == (len(LATER), True)


async def test_a_quiet_workspace_is_no_gap_and_never_down(slack: EmbeddedSlack, connect: Connect) -> None:
    bot = await connect()

    await until(lambda: len(bot.reconnects) >= 2)
    await until(lambda: slack.sockets.connections == 1)
    slack.say("general", "mika", "good morning")
    await until(lambda: bot.stored)

    assert (bot.texts, gaps(bot), set(reasons(bot)), set(bot.connected)) == (["good morning"], [], {"silent"}, {True})
    assert bot.deliveries == [(0, True)]


async def test_a_socket_that_brings_events_is_kept(slack: EmbeddedSlack, connect: Connect) -> None:
    bot = await connect()

    for number in range(8):
        slack.say("general", "mika", str(number))
        await asyncio.sleep(SILENT_SECONDS / 4)

    assert (len(bot.stored), bot.reconnects) == (8, [])


async def test_where_slack_gives_no_new_address_the_old_socket_serves_on(
    slack: EmbeddedSlack, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    bot = await connect()
    slack.faults.add("apps.connections.open", "http_500")
    await until(lambda: any(call.method == "apps.connections.open" and not call.ok for call in slack.calls))

    slack.say("general", "mika", "hello")
    await until(lambda: bot.stored)

    assert (bot.texts, bot.reconnects, gaps(bot)) == (["hello"], [], [])
    await until(lambda: bot.reconnects)
    assert reasons(bot) == ["silent"]
    caplog.clear()


async def test_a_socket_that_was_cut_is_lost_and_not_silent(
    slack: EmbeddedSlack, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "PING_SECONDS", 1.5 * SILENT_SECONDS)  # the silence is noticed before the loss is
    bot = await connect()
    await until(lambda: bot.reconnects)
    before = len(bot.reconnects)

    slack.faults.drop_sockets()
    await until(lambda: len(bot.reconnects) > before)

    assert (reasons(bot)[before], gaps(bot)) == ("closed", [GapReason.SOCKET_LOST])


async def test_c034_a_second_bot_with_the_same_token_takes_its_share_and_is_told_with_the_connection(
    slack: EmbeddedSlack, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    slack.faults.connect_another()
    bot = await connect()
    for number in range(10):
        slack.say("general", "mika", str(number))

    await until(lambda: len(bot.stored) == 5)

    assert [fact.connections for fact in bot.facts if isinstance(fact, SlackConnection)] == [2]
    assert "Slack counts 2 connections of this app" in capsys.readouterr().err


async def test_too_many_events_are_a_gap_over_a_socket_too(slack: EmbeddedSlack, connect: Connect) -> None:
    bot = await connect()
    slack.faults.limit_events()

    await until(lambda: gaps(bot))

    assert (gaps(bot), bot.stored, bot.deliveries) == ([GapReason.EVENTS_LIMITED], [], [(0, True)])
