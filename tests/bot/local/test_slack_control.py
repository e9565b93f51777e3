"""The control API as `insomnia say` and the console use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.local.slack import EmbeddedSlack

pytestmark = pytest.mark.slack


class Hand:
    def __init__(self, slack: EmbeddedSlack, session: aiohttp.ClientSession) -> None:
        self._slack, self._session = slack, session

    async def get(self, path: str, *, status: int = 200, **query: str) -> Any:
        async with self._session.get(self._slack.control_url + path, params=query) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    async def post(self, path: str, *, status: int = 200, **body: Any) -> Any:
        async with self._session.post(self._slack.control_url + path, json=body) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="a token of 日本") as slack:
        yield slack


@pytest.fixture
async def hand(slack: EmbeddedSlack) -> AsyncIterator[Hand]:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer a token of 日本"}) as session:
        yield Hand(slack, session)


async def answer(slack: EmbeddedSlack, said: dict[str, str], part: int, parts: int) -> None:
    payload = {"message": f"{slack.team_id}/{said['channel']}/{said['ts']}", "part": part, "parts": parts}
    await AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url).chat_postMessage(
        channel=said["channel"],
        thread_ts=said["thread_ts"],
        text=f"part {part} for <@U0MIKA>",
        metadata={"event_type": "insomnia_reply", "event_payload": payload},
    )


@pytest.mark.parametrize("token", ["", "Bearer", "Bearer wrong", "Basic x"])
async def test_without_the_control_token_nothing_is_told(slack: EmbeddedSlack, token: str) -> None:
    async with (
        aiohttp.ClientSession(headers={"Authorization": token}) as session,
        session.get(slack.control_url + "threads") as answer,
    ):
        assert answer.status == 401


async def test_an_empty_control_token_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="control token is empty"):
        await EmbeddedSlack(tmp_path, control_token="").start()


async def test_threads_are_listed_newest_last_with_their_age(hand: Hand) -> None:
    everywhere, release = await hand.get("threads"), await hand.get("threads", channel="release")

    assert [r["last_ts"] for r in everywhere] == sorted(r["last_ts"] for r in everywhere)
    assert {r["channel"] for r in release} == {"release"} and len(everywhere) > len(release) > 1
    assert set(release[0]) == {"channel", "channel_id", "thread_ts", "last_ts", "age_days", "messages", "first_words"}


async def test_the_default_person_and_channel_are_told(hand: Hand) -> None:
    assert [p["name"] for p in await hand.get("people") if p["default"]] == ["mika"]
    assert [c["name"] for c in await hand.get("channels") if c["default"]] == ["general"]


async def test_what_is_said_without_more_is_said_by_the_default_person_in_the_default_channel(slack: EmbeddedSlack, hand: Hand) -> None:
    said = await hand.post("say", text="1 < 2, @tom", mention=True)

    (message,) = slack.thread("general", said["ts"])
    assert (said["channel"], said["thread_ts"]) == ("C0GENERAL", said["ts"])
    assert (message["user"], message["text"]) == ("U0MIKA", f"<@{slack.bot_user_id}> 1 &lt; 2, <@U0TOM>")


async def test_an_old_thread_is_picked_up_by_any_of_its_messages(slack: EmbeddedSlack, hand: Hand) -> None:
    old = (await hand.get("threads", channel="日本語"))[-1]
    last = slack.thread("日本語", old["thread_ts"])[-1]["ts"]

    said = await hand.post("say", text="いつでしたっけ？", channel="日本語", thread_ts=last, user="由紀")

    assert said["thread_ts"] == old["thread_ts"]
    newest = (await hand.get("threads"))[-1]
    assert (newest["thread_ts"], newest["age_days"], newest["messages"]) == (old["thread_ts"], 0, old["messages"] + 1)


async def test_in_a_direct_message_its_person_speaks(slack: EmbeddedSlack, hand: Hand) -> None:
    said = await hand.post("say", text="hello", channel="@mika")

    assert (said["channel"], slack.thread("@mika", said["ts"])[0]["user"]) == ("D0MIKA", "U0MIKA")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"channel": "geneal"}, "There is no channel 'geneal' here. There are: #general, #release"),
        ({"user": "nobody"}, "There is nobody called 'nobody' here. There are: mika, tom"),
        ({"thread_ts": "1.000000"}, "#general has no thread 1.000000. Its newest threads: "),
    ],
)
async def test_who_and_what_is_not_there_is_answered_with_what_there_is(hand: Hand, body: dict[str, str], told: str) -> None:
    found = await hand.post("say", text="x", status=404, **body)

    assert found["error"].startswith(told)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("say", {}, "text is missing."),
        ("say", {"text": 7}, "text must be a string, not 7."),
        ("fault", {"method": "auth.test", "kind": "earthquake"}, "This fault cannot be set"),
        ("fault", {"method": "auth.test", "kind": "slow", "minutes": 1}, "This fault cannot be set"),
        ("socket", {"action": "burn"}, "There is no socket action 'burn'. There are: down, up"),
    ],
)
async def test_a_request_that_makes_no_sense_is_answered_with_a_sentence(hand: Hand, path: str, body: dict[str, Any], told: str) -> None:
    assert (await hand.post(path, status=400, **body))["error"].startswith(told)


async def test_waiting_ends_with_the_last_part_of_the_answer(slack: EmbeddedSlack, hand: Hand) -> None:
    said, other = await hand.post("say", text="q", mention=True), await hand.post("say", text="other", mention=True)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        waiting = group.create_task(hand.get("wait", channel="general", ts=said["ts"], timeout="15"))
        await answer(slack, other, 1, 1)
        await answer(slack, said, 1, 2)
        await answer(slack, said, 2, 2)

    found = waiting.result()
    assert found["done"] and [m["text"][:6] for m in found["messages"]] == ["part 1", "part 2"]
    assert found["messages"][0]["metadata"]["event_payload"]["parts"] == 2
    assert found["messages"][0]["shown"] == "part 1 for @Mika" and found["messages"][0]["user_name"] == "Insomnia"


async def test_waiting_ends_in_time_with_what_there_is(slack: EmbeddedSlack, hand: Hand) -> None:
    said = await hand.post("say", text="q", mention=True)
    await answer(slack, said, 1, 2)

    found = await hand.get("wait", channel="general", ts=said["ts"], timeout="0.05")

    assert not found["done"] and len(found["messages"]) == 1


async def test_who_waits_is_answered_when_the_workspace_stops(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(20),
        aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session,
        asyncio.TaskGroup() as group,
        EmbeddedSlack(tmp_path, control_token="t") as slack,
    ):
        hand = Hand(slack, session)
        said = await hand.post("say", text="q")
        waiting = group.create_task(hand.get("wait", channel="general", ts=said["ts"], timeout="300"))
        await asyncio.sleep(0.1)

    assert not waiting.result()["done"]


async def test_replies_tell_what_came_since_with_status_and_whispers(slack: EmbeddedSlack, hand: Hand) -> None:
    said = await hand.post("say", text="q", mention=True)
    client = AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url)
    await client.assistant_threads_setStatus(channel_id="C0GENERAL", thread_ts=said["ts"], status="is reading")
    await client.chat_postEphemeral(channel="C0GENERAL", user="U0MIKA", text="psst", thread_ts=said["ts"])
    before = await hand.get("replies", channel="general", thread_ts=said["ts"])
    await answer(slack, said, 1, 1)

    after = await hand.get("replies", channel="general", thread_ts=said["ts"], after=said["ts"])

    assert (before["status"], after["status"]) == ("is reading", "")
    assert [m["user_name"] for m in before["messages"]] == ["Mika"] and [e["text"] for e in before["ephemerals"]] == ["psst"]
    assert [m["metadata"]["event_type"] for m in after["messages"]] == ["insomnia_reply"]


async def test_messages_are_edited_and_deleted_and_marked(slack: EmbeddedSlack, hand: Hand) -> None:
    said = await hand.post("say", text="one")

    await hand.post("edit", channel="general", ts=said["ts"], text="two & three")
    assert (await hand.post("react", channel="general", ts=said["ts"], name=":question:"))["changed"]
    assert slack.thread("general", said["ts"])[0]["text"] == "two &amp; three"
    await hand.post("delete", channel="general", ts=said["ts"])
    await hand.post("delete", channel="general", ts=said["ts"], status=404)


async def test_faults_and_sockets_are_scripted_and_mended(slack: EmbeddedSlack, hand: Hand) -> None:
    client = AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url, retry_handlers=[])
    assert await hand.post("fault", method="auth.test", kind="error", times=None, code="fatal_error") == {
        "method": "auth.test",
        "kind": "error",
        "times": None,
    }
    with pytest.raises(Exception, match="fatal_error"):
        await client.auth_test()
    await hand.post("socket", action="down")
    assert slack.faults.script.down

    await hand.post("clear_faults")

    assert (await client.auth_test())["ok"] and not slack.faults.script.down
