"""The embedded workspace as a whole: it starts, it stops, and it keeps what was said."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.local.slack import EmbeddedSlack, PortTaken
from bot.local.slack_journal import JournalInUse

pytestmark = pytest.mark.slack


async def test_a_restart_keeps_everything_that_was_said(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t") as slack:
        root = slack.say("release", "mika", "remember me")["ts"]
        posted = await AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url).chat_postMessage(
            channel="C0RELEASE", text="I do", thread_ts=root, metadata={"event_type": "x", "event_payload": {"a": 1}}
        )
        threads = len(slack.workspace.store.timeline("C0RELEASE"))

    async with EmbeddedSlack(tmp_path, control_token="t") as slack:
        thread = slack.thread("release", root)
        assert [m["text"] for m in thread] == ["remember me", "I do"]
        assert thread[1]["metadata"] == posted["message"]["metadata"]
        assert len(slack.workspace.store.timeline("C0RELEASE")) == threads


async def test_it_listens_on_loopback_and_frees_port_and_folder_when_it_stops(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t") as slack:
        address = urlsplit(slack.url)
        assert address.hostname == "127.0.0.1" and slack.control_url.endswith("/control/")

    async with EmbeddedSlack(tmp_path, control_token="t", port=address.port or 0) as again:
        assert again.url == slack.url
    await again.stop()


async def test_a_port_that_is_taken_is_named_and_leaves_the_folder_free(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path / "a", control_token="t") as first:
        port = urlsplit(first.url).port or 0
        with pytest.raises(PortTaken, match=f"port {port} .* choose another port"):
            await EmbeddedSlack(tmp_path / "b", control_token="t", port=port).start()

        async with EmbeddedSlack(tmp_path / "b", control_token="t"):
            pass


async def test_a_folder_has_one_workspace_at_a_time(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t"):
        with pytest.raises(JournalInUse):
            await EmbeddedSlack(tmp_path, control_token="t").start()


async def test_a_clock_that_stands_still_still_gives_every_message_its_own_ts(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t", clock=lambda: 1_790_000_000.0, opening=False) as slack:
        general = [slack.say("general", "mika", "x")["ts"] for _ in range(5)]
        release = slack.say("release", "mika", "x")["ts"]

    assert sorted(set(general)) == general
    assert release in general


async def test_a_message_object_of_any_shape_can_be_put(tmp_path: Path) -> None:
    async with EmbeddedSlack(tmp_path, control_token="t", opening=False) as slack:
        slack.put("general", {"type": "message", "user": "U0TOM", "text": None, "blocks": None, "ts": "1700000000.000100"})

        page = await AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url).conversations_replies(channel="C0GENERAL", ts="1700000000.000100")

        assert page["messages"][0]["text"] is None
