"""A workspace that is killed: what was said, and what the bot had not acknowledged, is there afterwards."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.local.slack import EmbeddedSlack

pytestmark = [pytest.mark.slack, pytest.mark.kill]

SERVE = """
import asyncio, sys
from pathlib import Path
from bot.local.slack import EmbeddedSlack

async def serve():
    async with EmbeddedSlack(Path(sys.argv[1]), control_token="t") as slack:
        print(slack.control_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(serve())
"""


async def test_a_mention_that_was_said_before_the_kill_is_kept_and_delivered_after_it(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(tmp_path), cwd=Path(__file__).parents[3], stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout
        control = (await child.stdout.readline()).decode().strip()
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session,
            session.post(control + "say", json={"text": "remember", "mention": True}) as answer,
        ):
            said = await answer.json()
    finally:
        child.kill()
        await child.wait()

    async with EmbeddedSlack(tmp_path, control_token="t") as slack, aiohttp.ClientSession() as session:
        url = (await AsyncWebClient(base_url=slack.url).apps_connections_open(app_token=slack.APP_TOKEN))["url"]
        socket = await session.ws_connect(url)
        _hello, *events = [await socket.receive_json() for _ in range(3)]
        await socket.close()

    assert {e["payload"]["event"]["type"] for e in events} == {"message", "app_mention"}
    assert {e["payload"]["event"]["ts"] for e in events} == {said["ts"]}
