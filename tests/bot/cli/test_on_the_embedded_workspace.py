"""`say` and `threads` against the embedded workspace itself; a stand-in for the bot answers with the metadata of a reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.cli import dispatch
from bot.local.slack import EmbeddedSlack
from bot.workspace import Control, RunningBot, Workspace

pytestmark = pytest.mark.slack

Insomnia = Callable[..., Awaitable[tuple[int, str, str]]]

TOKEN = "control-token"


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    async with EmbeddedSlack(workspace.local, control_token=TOKEN) as slack:
        with workspace.lock():
            control = Control(slack=slack.control_url, token=TOKEN)
            workspace.publish(RunningBot(pid=1, started_at=0.0, version="0", slack="embedded", url=slack.url, control=control))
            yield slack


@pytest.fixture
def insomnia(slack: EmbeddedSlack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Insomnia:
    async def run(*argv: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(dispatch, [*argv, "--workspace", str(tmp_path)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


async def answer(slack: EmbeddedSlack, channel: str, thread_ts: str, text: str) -> None:
    """Posts to the newest message of a thread what the bot would, once there is one that mentions it."""
    while not (asked := [m for m in slack.thread(channel, thread_ts) if f"<@{slack.bot_user_id}>" in m["text"] and "when?" in m["text"]]):
        await asyncio.sleep(0.01)
    gate = {"decision": "refetched", "reason": "not_known", "injection": "full", "messages": 2, "omitted": 0}
    payload = {
        "v": 1,
        "message": f"{slack.team_id}/{channel}/{asked[-1]['ts']}",
        "part": 1,
        "parts": 1,
        "trace_id": "1a2b3c4d" * 4,
        "outcome": "answered",
        "gate": gate,
    }
    client = AsyncWebClient(slack.BOT_TOKEN, base_url=slack.url)
    metadata = {"event_type": "insomnia_reply", "event_payload": payload}
    await client.chat_postMessage(channel=channel, thread_ts=thread_ts, text=text, metadata=metadata)


async def test_the_old_threads_are_listed(insomnia: Insomnia) -> None:
    code, out, _ = await insomnia("threads", "--json")

    rows = json.loads(out)
    assert code == 0
    assert {"channel", "thread_ts", "age_days", "messages", "first_words"} <= set(rows[0])
    assert len({row["channel"] for row in rows}) >= 3
    assert [row for row in rows if row["age_days"] >= 28]


async def test_a_question_in_an_old_thread_is_answered_there(slack: EmbeddedSlack, insomnia: Insomnia) -> None:
    thread = json.loads((await insomnia("threads", "--json"))[1])[0]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(answer(slack, thread["channel_id"], thread["thread_ts"], "on Friday"))
        code, out, err = await insomnia("say", "when?", "--thread", thread["thread_ts"])

    assert (code, err) == (0, "")
    assert out == "on Friday\nre-read 2 messages (not_known) · trace 1a2b3c4d\n"


async def test_what_is_said_without_a_mention_stands_in_the_thread(slack: EmbeddedSlack, insomnia: Insomnia) -> None:
    thread = json.loads((await insomnia("threads", "--json"))[1])[0]

    code, out, _ = await insomnia("say", "just talking", "--no-mention", "--thread", thread["thread_ts"], "--json")

    said = json.loads(out)
    assert code == 0
    assert (said["thread_ts"], said["outcome"], said["reply"], said["gate"]) == (thread["thread_ts"], None, None, None)
    assert slack.thread(thread["channel_id"], thread["thread_ts"])[-1]["text"] == "just talking"


@pytest.mark.parametrize("argv", [["threads"], ["say", "hello"]])
async def test_an_unknown_channel_is_answered_with_those_that_there_are(insomnia: Insomnia, argv: list[str]) -> None:
    code, out, err = await insomnia(*argv, "--channel", "generall")

    assert (code, out) == (1, "")
    assert "generall" in err
    assert "#general" in err


async def test_an_unknown_person_is_answered_with_those_that_there_are(insomnia: Insomnia) -> None:
    code, _, err = await insomnia("say", "hello", "--user", "nobody")

    assert code == 1
    assert "There are: " in err


async def test_a_mention_alone_can_be_said(slack: EmbeddedSlack, insomnia: Insomnia) -> None:
    thread = json.loads((await insomnia("threads", "--json"))[1])[0]

    code, _, err = await insomnia("say", "", "--thread", thread["thread_ts"], "--timeout", "0.01")

    assert code == 1
    assert "no answer within" in err
    assert slack.thread(thread["channel_id"], thread["thread_ts"])[-1]["text"].strip() == f"<@{slack.bot_user_id}>"


async def test_what_is_whispered_to_the_speaker_is_shown_as_that(slack: EmbeddedSlack, insomnia: Insomnia) -> None:
    thread = json.loads((await insomnia("threads", "--json"))[1])[0]
    whisper = slack.workspace.whisper
    where = slack.workspace.conversation(thread["channel_id"])

    async def answer() -> None:
        while not slack.thread(thread["channel_id"], thread["thread_ts"])[-1]["text"].endswith("why"):
            await asyncio.sleep(0.01)
        whisper(where, "U0TOM", {"text": "not for Mika", "thread_ts": thread["thread_ts"]})
        whisper(where, "U0MIKA", {"text": "It was read again.", "thread_ts": thread["thread_ts"]})

    (code, out, _), _ = await asyncio.gather(insomnia("say", "why", "--thread", thread["thread_ts"], "--user", "mika"), answer())

    assert code == 0
    assert out.splitlines() == ["It was read again.", "only you see this"]
