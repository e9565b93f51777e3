"""The whole bot on events over HTTP: the real process, its real port, and signed requests of the embedded workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.integration.story import SIGNING_SECRET, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]


async def test_an_old_thread_is_read_in_and_the_next_question_costs_nothing(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.listen_over_http()
        await told.start()
        assert await told.verify()

        first = await told.ask(place, "What is the vault code?")
        second = await told.ask(place, "Once more?")

        assert first.decided == ("refetched", "no_session", "full") and "walnut-4711" in first.text
        assert second.decided[:2] == ("known", "held") and told.reads() == 1
        assert {call.method for call in told.slack.calls}.isdisjoint({"apps.connections.open"})
        assert "Slack (HTTP)" in told.outputs and SIGNING_SECRET not in told.outputs + told.errors


async def test_replayed_and_retried_deliveries_are_one_answer(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.listen_over_http()
        await told.start()
        assert await told.verify()
        ts = told.slack.say("general", "tom", "hello", mention=True)["ts"]
        answer = await told.answer_to("general", ts)
        url = told.slack.sockets.request_url
        assert url is not None
        sent = list(url.sent)

        async with aiohttp.ClientSession() as session:
            for headers, body, _ in sent:
                async with session.post(url.url, data=body, headers=headers) as replayed:
                    assert replayed.status == 403
                again = {**url.signed(body, at=float(headers["X-Slack-Request-Timestamp"]) + 1), "X-Slack-Retry-Num": "1"}
                async with session.post(url.url, data=body, headers=again) as retried:
                    assert retried.status == 200
        later = await told.ask(told.old_thread("Another thread."), "Go on.")
        await told.stop()

        assert (answer.outcome, later.outcome) == ("answered", "answered")
        assert [request.newest_user_text.count("hello") for request in told.prompts()] == [1, 0]
        assert (
            told.counted("insomnia.messages", "outcome", "reason")["dropped", "duplicate"] == len(sent) + 2
        )  # and one of each mention that came as it should


async def test_an_event_that_comes_while_the_bot_is_down_is_answered_when_it_is_up_and_health_tells(tmp_path: Path) -> None:
    async with story(tmp_path) as told, aiohttp.ClientSession() as session:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.listen_over_http()
        await told.start()
        assert await told.verify()
        health = told.request_url.replace("/slack/events", "/healthz")
        async with session.get(health) as response:
            assert response.status == 200
        await told.ask(place, "What is the vault code?")
        await told.stop()
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(health)

        told.slack.sockets._retry_delays = (0.1, 5.0, 5.0)
        ts = told.slack.say("general", "tom", "Once more?", thread_ts=place.ts, mention=True)["ts"]
        await told.start()
        answer = await told.answer_to("general", ts)

        assert answer.decided[:2] == ("refetched", "after_restart")


async def test_a_taken_port_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.listen_over_http()
        port = int(told.request_url.split(":")[2].split("/")[0])
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", port)
        async with server:
            with pytest.raises(AssertionError, match=f"slack.listen is 127.0.0.1:{port}, but nothing can listen there"):
                await told.start()

        assert told.bot.process.returncode in (None, 1) and "Traceback" not in told.errors
