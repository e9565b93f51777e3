"""The Web API as the real slack_sdk sees it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.local.slack import EmbeddedSlack
from bot.messages import ChannelKind

pytestmark = pytest.mark.slack


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as slack:
        yield slack


@pytest.fixture
def client(slack: EmbeddedSlack) -> AsyncWebClient:
    return AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url, retry_handlers=[])


def thread(slack: EmbeddedSlack, replies: int) -> list[str]:
    root = slack.say("general", "mika", "root", deliver=False)["ts"]
    said = [slack.say("general", "tom", f"reply {n}", thread_ts=root, deliver=False)["ts"] for n in range(replies)]
    return [root, *said]


async def refused(call: Any) -> Any:
    with pytest.raises(SlackApiError) as caught:
        await call
    return caught.value.response


async def test_the_bot_learns_who_it_is_and_what_it_may(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    me = await client.auth_test()

    assert (me["user_id"], me["bot_id"], me["team_id"]) == (slack.bot_user_id, slack.bot_id, slack.team_id)
    assert "channels:history" in me.headers["x-oauth-scopes"].split(",")


@pytest.mark.parametrize(
    ("token", "method", "error"),
    [
        ("", "auth.test", "not_authed"),
        ("nonsense", "auth.test", "invalid_auth"),
        ("xapp-1", "auth.test", "not_allowed_token_type"),
        ("xoxb-1", "apps.connections.open", "not_allowed_token_type"),
        ("nonsense", "apps.connections.open", "invalid_auth"),
        ("xoxb-1", "no.such.method", "unknown_method"),
    ],
)
async def test_tokens_and_methods_are_refused_in_slacks_words(slack: EmbeddedSlack, token: str, method: str, error: str) -> None:
    client = AsyncWebClient(token or None, base_url=slack.url, retry_handlers=[])

    assert (await refused(client.api_call(method)))["error"] == error


async def test_a_thread_of_2500_replies_comes_in_13_pages_oldest_first(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    said = thread(slack, 2500)

    found = await client.conversations_replies(channel="C0GENERAL", ts=said[7], limit=200)
    pages = [(p["messages"], p["has_more"]) async for p in found]  # the SDK gives the same object for each page

    assert [(len(messages), more) for messages, more in pages] == [(200, True)] * 12 + [(101, False)]
    assert [m["ts"] for messages, _ in pages for m in messages] == said
    assert pages[0][0][0]["reply_count"] == 2500


async def test_the_root_is_repeated_whatever_oldest_says(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    said = thread(slack, 5)

    async def read(**window: Any) -> list[str]:
        found = await client.conversations_replies(channel="C0GENERAL", ts=said[0], **window)
        return [m["ts"] for m in found["messages"]]

    assert await read(oldest=said[3]) == [said[0], said[4], said[5]]
    assert await read(oldest=said[3], inclusive=True) == [said[0], *said[3:]]
    assert await read(latest=said[2]) == said[:2]
    assert await read(latest=said[2], limit=1) == said[:1]
    assert await read(oldest=said[5]) == said[:1]


async def test_the_root_can_be_made_to_come_on_every_page(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    said = thread(slack, 3)
    slack.faults.root_on_every_page = True

    pages = [p["messages"] async for p in await client.conversations_replies(channel="C0GENERAL", ts=said[0], limit=2)]

    assert [[m["ts"] for m in p] for p in pages] == [said[:2], [said[0], *said[2:]]]


async def test_a_reading_that_cannot_be_is_refused_in_slacks_words(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    (ts,) = thread(slack, 0)
    private = slack.add_channel("secret", kind=ChannelKind.PRIVATE, bot=False).id
    public = slack.add_channel("elsewhere", bot=False).id
    good = {"channel": "C0GENERAL", "ts": ts}

    for change, error in (
        ({"channel": "C0NOWHERE"}, "channel_not_found"),
        ({"channel": private}, "channel_not_found"),
        ({"channel": public}, "not_in_channel"),
        ({"ts": "1.000000"}, "thread_not_found"),
        ({"ts": ""}, "invalid_arguments"),
        ({"cursor": "nonsense"}, "invalid_cursor"),
        ({"oldest": "yesterday"}, "invalid_ts_oldest"),
        ({"latest": "tomorrow"}, "invalid_ts_latest"),
        ({"limit": "many"}, "invalid_limit"),
    ):
        given: dict[str, Any] = {**good, **change}
        assert (await refused(client.conversations_replies(**given)))["error"] == error


async def test_history_is_newest_first_and_without_replies(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    roots = [thread(slack, 2)[0] for _ in range(5)]

    pages = [p["messages"] async for p in await client.conversations_history(channel="C0GENERAL", limit=2)]

    assert [m["ts"] for p in pages for m in p] == roots[::-1]


async def test_metadata_is_kept_and_shown_only_when_asked_for(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    root, metadata = thread(slack, 0)[0], {"event_type": "reply", "event_payload": {"part": 1, "who": "日本"}}
    as_json = await client.chat_postMessage(channel="C0GENERAL", text="a", thread_ts=root, metadata=metadata)
    form = {"channel": "C0GENERAL", "text": "b", "thread_ts": root, "metadata": json.dumps(metadata)}
    as_form = await client.api_call("chat.postMessage", data=form)

    with_it = await client.conversations_replies(channel="C0GENERAL", ts=root, include_all_metadata=True)
    without = await client.conversations_replies(channel="C0GENERAL", ts=root)

    assert [m.get("metadata") for m in with_it["messages"]] == [None, metadata, metadata]
    assert not any("metadata" in m for m in without["messages"])
    assert as_json["message"]["metadata"] == metadata and as_form["message"]["thread_ts"] == root


async def test_a_post_is_kept_as_it_was_sent_and_cut_at_40000(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    sent = await client.chat_postMessage(channel="C0GENERAL", text="**bold** &amp; <@U0TOM>\n```x```")
    long = await client.chat_postMessage(channel="C0GENERAL", text="x" * 40_001)

    assert sent["message"]["text"] == "**bold** &amp; <@U0TOM>\n```x```" and "warning" not in sent.data
    assert len(long["message"]["text"]) == 40_000 and long["warning"] == "message_truncated"


async def test_an_update_takes_4000_characters_and_only_of_own_messages(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    theirs = thread(slack, 0)[0]
    posted = await client.chat_postMessage(channel="C0GENERAL", text="a", blocks=[{"type": "divider"}])
    own: dict[str, Any] = {"channel": "C0GENERAL", "ts": posted["ts"]}

    updated = await client.chat_update(**own, text="x" * 4_000)

    assert "blocks" not in updated["message"] and updated["message"]["edited"]["user"] == slack.bot_user_id
    assert (await refused(client.chat_update(**own, text="x" * 4_001)))["error"] == "msg_too_long"
    assert (await refused(client.chat_update(channel="C0GENERAL", ts=theirs, text="x")))["error"] == "cant_update_message"
    assert (await refused(client.chat_update(channel="C0GENERAL", ts="1.000000", text="x")))["error"] == "message_not_found"
    await client.chat_delete(**own)
    assert (await refused(client.chat_delete(**own)))["error"] == "message_not_found"
    assert (await refused(client.chat_delete(channel="C0GENERAL", ts=theirs)))["error"] == "cant_delete_message"


async def test_a_post_that_cannot_be_is_refused_in_slacks_words(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    for content, error in (
        ({}, "no_text"),
        ({"text": "a", "markdown_text": "b"}, "markdown_text_conflict"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"text": "a", "blocks": "{"}, "invalid_blocks_format"),
        ({"text": "a", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}]}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "markdown", "text": "x" * 7_000}] * 2}, "msg_blocks_too_long"),
        ({"text": "a", "metadata": "{"}, "invalid_metadata_format"),
        ({"text": "a", "metadata": {"event_type": "x"}}, "invalid_metadata_schema"),
        ({"text": "a", "channel": "C0NOWHERE"}, "channel_not_found"),
    ):
        given: dict[str, Any] = {"channel": "C0GENERAL", **content}
        assert (await refused(client.api_call("chat.postMessage", json=given)))["error"] == error


async def test_a_reply_to_a_deleted_thread_stands_in_the_channel(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    root = thread(slack, 0)[0]
    slack.delete("general", root)

    posted = await client.chat_postMessage(channel="C0GENERAL", text="late", thread_ts=root)

    assert "thread_ts" not in posted["message"]
    assert (await refused(client.conversations_replies(channel="C0GENERAL", ts=root)))["error"] == "thread_not_found"


async def test_people_and_channels_are_listed_in_pages(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    slack.add_channel("elsewhere", bot=False)

    people = [m async for p in await client.users_list(limit=3) for m in p["members"]]
    everywhere = [c async for p in await client.conversations_list(limit=2) for c in p["channels"]]
    own = (await client.users_conversations(types="public_channel,private_channel,im"))["channels"]

    assert {p["name"]: p["is_bot"] for p in people}["lighthouse"] is True
    assert {c["name"]: c["is_member"] for c in everywhere} == {"general": True, "release": True, "日本語": True, "elsewhere": False}
    assert {c["id"] for c in own} == {"C0GENERAL", "C0RELEASE", "C0NIHONGO", "G0HIRING", "D0MIKA"}


async def test_a_person_has_the_names_that_a_bot_reads(client: AsyncWebClient) -> None:
    user = (await client.users_info(user="U0HARU"))["user"]

    assert (user["profile"]["display_name"], user["real_name"], user["is_bot"]) == ("陽斗", "山本 陽斗", False)
    assert (await client.bots_info(bot="B0LIGHT"))["bot"]["name"] == "Lighthouse"
    assert (await refused(client.users_info(user="U0NOBODY")))["error"] == "user_not_found"


async def test_a_conversation_tells_what_it_is(client: AsyncWebClient) -> None:
    kinds = [(await client.conversations_info(channel=c))["channel"] for c in ("C0GENERAL", "G0HIRING", "D0MIKA")]

    assert [(k.get("is_channel"), k.get("is_private"), k.get("is_im")) for k in kinds] == [
        (True, False, False),
        (False, True, False),
        (False, True, True),
    ]
    assert kinds[2]["user"] == "U0MIKA"


async def test_a_direct_message_is_opened_once(client: AsyncWebClient) -> None:
    first = await client.conversations_open(users="U0TOM")
    again = await client.conversations_open(users="U0TOM")

    assert first["channel"]["id"].startswith("D") and again["already_open"]
    assert first["channel"]["id"] == again["channel"]["id"]
    assert (await client.conversations_open(users="U0MIKA"))["channel"]["id"] == "D0MIKA"


async def test_reactions_and_statuses(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    ts = thread(slack, 0)[0]
    where: dict[str, str] = {"channel": "C0GENERAL", "timestamp": ts, "name": "eyes"}

    await client.reactions_add(**where)
    assert (await refused(client.reactions_add(**where)))["error"] == "already_reacted"
    await client.reactions_remove(**where)
    assert (await refused(client.reactions_remove(**where)))["error"] == "no_reaction"
    await client.assistant_threads_setStatus(channel_id="C0GENERAL", thread_ts=ts, status="is reading")
    await client.agents_sessions_setStatus(channel_id="C0GENERAL", thread_ts=ts, status="processing")

    assert slack.workspace.status("C0GENERAL", ts) == "is reading"
    assert slack.workspace.session_statuses == {("C0GENERAL", ts): "processing"}


async def test_what_is_said_to_one_person_is_in_no_history(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    ts = thread(slack, 0)[0]

    await client.chat_postEphemeral(channel="C0GENERAL", user="U0MIKA", text="psst", thread_ts=ts)

    assert [e["text"] for e in slack.workspace.ephemerals] == ["psst"]
    assert len((await client.conversations_replies(channel="C0GENERAL", ts=ts))["messages"]) == 1


async def test_scripted_faults_are_what_the_sdk_sees(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    ts = thread(slack, 30)[0]

    async def failing(kind: str, **options: Any) -> Any:
        slack.faults.add("conversations.replies", kind, **options)
        return await refused(client.conversations_replies(channel="C0GENERAL", ts=ts))

    limited = await failing("ratelimited", retry_after=30)
    scope = await failing("missing_scope")
    assert (limited.status_code, limited["error"], limited.headers["Retry-After"]) == (429, "ratelimited", "30")
    assert ((await failing("ratelimited_200")).status_code, scope["error"], scope["needed"]) == (200, "missing_scope", "channels:history")
    assert "channels:history" not in scope["provided"]
    assert [(await failing(k)).status_code for k in ("http_500", "http_502")] == [500, 502]
    assert (await failing("error", code="fatal_error"))["error"] == "fatal_error"
    assert (await failing("thread_gone"))["error"] == "thread_not_found"
    slack.faults.add("conversations.replies", "page_size", size=15)
    pages = [p["messages"] async for p in await client.conversations_replies(channel="C0GENERAL", ts=ts)]
    assert [len(p) for p in pages] == [15, 15, 1]


async def test_a_lost_answer_was_carried_out(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    slack.faults.add("chat.postMessage", "lost")

    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel="C0GENERAL", text="heard by nobody")

    assert [m["text"] for m in slack.workspace.store.timeline("C0GENERAL")] == ["heard by nobody"]


async def test_a_thread_that_is_gone_for_a_post_puts_it_into_the_channel(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    ts = thread(slack, 1)[0]
    slack.faults.add("chat.postMessage", "thread_gone")

    posted = await client.chat_postMessage(channel="C0GENERAL", text="late", thread_ts=ts)

    assert "thread_ts" not in posted["message"]


async def test_calls_are_noted_without_a_token(slack: EmbeddedSlack, client: AsyncWebClient) -> None:
    await client.api_call("users.info", params={"user": "U0TOM", "token": "xoxb-in-the-query"})
    await refused(client.users_info(user="U0NOBODY"))

    assert slack.calls == [("users.info", {"user": "U0TOM"}, True), ("users.info", {"user": "U0NOBODY"}, False)]


@pytest.mark.parametrize(("body", "error"), [(b"{", "invalid_json"), (b"[]", "json_not_object")])
async def test_a_body_that_is_no_object_is_refused(slack: EmbeddedSlack, body: bytes, error: str) -> None:
    headers = {"Authorization": "Bearer xoxb-1", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(slack.url + "chat.postMessage", data=body) as answer,
    ):
        assert (await answer.json())["error"] == error


@pytest.mark.parametrize("header", [{"Origin": "https://elsewhere.example"}, {"Host": "elsewhere.example"}])
async def test_no_web_page_reaches_the_workspace(slack: EmbeddedSlack, header: dict[str, str]) -> None:
    async with aiohttp.ClientSession(headers=header) as session:
        for url in (slack.url + "auth.test", slack.control_url + "threads"):
            async with session.post(url, data={"token": "xoxb-1"}) as answer:
                assert answer.status == 403
