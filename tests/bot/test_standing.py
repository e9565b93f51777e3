"""What stands in Slack, asked of the embedded workspace by the real library: posts of which nobody heard what became of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from bot import replying, slack
from bot.clock import SystemClock
from bot.local.slack import EmbeddedSlack
from bot.messages import Channel, ChannelKind, Message
from bot.outbox import Outbox
from bot.patience import Patience
from bot.replying import Delivered, Replies
from bot.slack import SlackWeb
from bot.state_db import open_state
from telemetry.events import Outcome, Thread
from tests.bot.recording import RecordingEmit

pytestmark = pytest.mark.slack
CHANNEL = "C0GENERAL"


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="made-up-token", opening=False) as workspace:
        yield workspace


@pytest.fixture
async def web(workspace: EmbeddedSlack) -> AsyncIterator[SlackWeb]:
    async with aiohttp.ClientSession() as session:
        yield SlackWeb(EmbeddedSlack.BOT_TOKEN, api_url=workspace.url, session=session, clock=SystemClock(), emit=RecordingEmit())


async def post(workspace: EmbeddedSlack, web: SlackWeb, folder: Path, text: str) -> Delivered:
    asked = workspace.say("general", "mika", "When?", mention=True)["ts"]
    message = Message(
        row=1,
        thread=Thread(workspace.team_id, CHANNEL, asked),
        ts=asked,
        user="U0MIKA",
        body={},
        channel=Channel(id=CHANNEL, name="general", kind=ChannelKind.PUBLIC),
        route="main",
        key="main",
        accepted_at=0.0,
    )
    db = open_state(folder / "state.db")
    try:
        clock, emit = SystemClock(), RecordingEmit()
        replies = Replies(web, Outbox(db), me=await web.start(), clock=clock, emit=emit, patience=Patience(clock=clock, emit=emit))
        return await replies.post(message, text, outcome=Outcome.ANSWERED, trace_id="abc", gate=None)
    finally:
        db.close()


def own(workspace: EmbeddedSlack) -> list[tuple[str, str]]:
    return [(m["ts"], m["text"]) for m in workspace.workspace.store.messages(CHANNEL) if m.get("user") == workspace.bot_user_id]


@pytest.mark.parametrize("fault", ["lost", "http_500", "slow"])
async def test_an_answer_of_which_slack_did_not_say_what_became_of_it_stands_there_once(
    workspace: EmbeddedSlack, web: SlackWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(slack, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(replying, "ARRIVAL_PAUSES", (0.1,))
    monkeypatch.setattr(replying, "LATE_ARRIVAL_PAUSES", (0.1, 0.4))
    workspace.faults.add("chat.postMessage", fault, after=1, seconds=0.5)
    text = "\n".join("y" * 99 for _ in range(90))

    delivered = await post(workspace, web, tmp_path, text)

    posted = own(workspace)
    assert "".join(text for _, text in posted) == text
    assert delivered.parts == tuple(ts for ts, _ in posted) and len(posted) == 3


async def test_metadata_is_read_where_it_is_asked_for_and_only_below_a_message(workspace: EmbeddedSlack, web: SlackWeb) -> None:
    root = workspace.say("general", "mika", "0")["ts"]
    told = {"event_type": "insomnia_reply", "event_payload": {"message": "会議", "part": 1, "gate": None}}
    posts = [await web.post("C0GENERAL", str(n), thread_ts=root, metadata=told) for n in range(3)]

    plain = await web.replies("C0GENERAL", root)
    with_metadata = await web.replies("C0GENERAL", root, oldest=posts[0].ts, metadata=True)

    assert [m.get("metadata") for m in plain.messages] == [None] * 4
    assert [(m["text"], m.get("metadata")) for m in with_metadata.messages] == [("0", None), ("1", told), ("2", told)]
