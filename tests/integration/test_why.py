"""Whoever asks why is told: in Slack alone, on the command line with files of this machine alone, the bot running or not."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.story import ROOT, Answer, Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]


async def insomnia(told: Story, *argv: str) -> str:
    """What the command prints; it has to end well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", *argv, "--workspace", str(told.workspace)),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def as_json(told: Story, *argv: str) -> Any:
    return json.loads(await insomnia(told, *argv, "--json"))


async def whispered(told: Story, count: int) -> list[dict[str, Any]]:
    whispers = told.slack.workspace.ephemerals
    await told.until(lambda: len(whispers) >= count)
    return whispers


async def answered(told: Story) -> Answer:
    return await told.ask(told.old_thread("The vault code is walnut-4711.", "And the alarm is off."), "What is the vault code?")


async def test_in_slack_whoever_asks_is_told_alone_and_the_model_hears_nothing_of_it(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        answer = await answered(told)
        requests = told.last_request()
        thread = str(answer.thread_ts)

        told.slack.say("general", "lena", "why", thread_ts=thread, mention=True)
        await whispered(told, 1)
        told.slack.workspace.react(told.slack.workspace.conversation("general").id, answer.ts, "yuki", "question")
        by_word, by_mark = await whispered(told, 2)

        assert (by_word["user"], by_mark["user"]) == (told.slack.workspace.person("lena").id, told.slack.workspace.person("yuki").id)
        for whisper in (by_word, by_mark):
            assert whisper["thread_ts"] == thread
            assert whisper["text"].startswith(
                "The thread was read again from Slack, because there was no session yet. 2 messages read, 0 left out."
            )
            assert answer.trace_id[:8] in whisper["text"] and "walnut" not in whisper["text"]
        assert told.last_request() == requests


async def test_on_the_command_line_every_way_to_name_a_reply_finds_the_same_trace(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        answer = await answered(told)
        _, channel, ts = answer.asked.split("/")
        link = f"https://team.slack.com/archives/{channel}/p{answer.ts.replace('.', '')}?thread_ts={answer.thread_ts}&cid={channel}"

        found = [await as_json(told, "why", ref) for ref in ("last", ts, f"{channel}/{ts}", answer.ts, link, answer.trace_id[:8])]
        await told.stop()
        found.append(await as_json(told, "why", "last"))

        assert {why["trace_id"] for why in found} == {answer.trace_id}
        assert found[0]["gate"] == {"decision": "refetched", "reason": "no_session", "injection": "full", "epoch": 1}
        assert found[0]["history"] == {"read": 2, "omitted": 0, "incomplete": False}
        assert all("walnut" not in json.dumps(why) for why in found)


async def test_the_log_the_status_and_the_traces_tell_the_same_story(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        answer = await answered(told)
        while (status := await as_json(told, "status"))["queue"]["depth"]:
            pass  # the file is written twice a second at most
        lines = [json.loads(line) for line in (await insomnia(told, "logs", "bot", "--json")).splitlines()]
        traces = await as_json(told, "traces")

        of_reply = {line["event"] for line in lines if line.get("trace_id") == answer.trace_id}
        assert of_reply == {"session_started", "thread_refetched", "thread_injected", "gate_decision", "reply"}
        assert (status["bot"]["pid"], status["slack"]["connected"]) == (told.bot.pid, True)
        assert [(s["route"], s["state"], s["epoch"], s["known_threads"]) for s in status["sessions"]] == [("main", "idle", 1, 1)]
        assert [trace["trace_id"] for trace in traces if trace["kind"] == "reply"] == [answer.trace_id]
