"""The traces of replies that did not simply end: refused, timed out, cancelled with the bot, or with a tool that outlived its turn."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration.story import Story, story
from tests.integration.traces import (
    CHAT,
    REPLY,
    ROOT,
    asked,
    chat,
    gate,
    inject,
    orphans,
    refetch,
    reset,
    root,
    root_of,
    start,
    told_of,
    tool,
    trace_of,
)

pytestmark = [pytest.mark.cli, pytest.mark.slack]

VAULT = ("The vault code is walnut-4711.", "And the alarm is off between two and three.")
WITH_A_TOOL = '[routes.main]\ntools = ["Bash"]\nusers = ["U0TOM"]\n'
DEAD, HUNG = "SessionDied", "TurnDeadline"
HELD = {"decision": "known", "reason": "held"}
KNOWN = gate("known", "held", epoch=1, known=1)


async def test_a_turn_that_the_model_refused(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault, other = told.old_thread(*VAULT), told.old_thread("Lunch is at noon.")
        await told.start()
        await told.ask(other, "When is lunch?")

        told.model.script.error(403)
        answer = await told.ask(vault, "What is the vault code?")
        await told.stop()

        failed = "authentication_failed"
        assert answer.outcome == "failed" and answer.trace_id[:8] in answer.text
        assert told_of(told.collector.spans, answer) == root(
            gate("refetched", "not_known", refetch(2), epoch=1, known=1),
            inject("full", "not_known", 2),
            asked(chat(error=failed), error=failed),
            REPLY,
            decision="refetched",
            reason="not_known",
            outcome="failed",
            reply__reason="model_auth",
            error="model_auth",
        )


async def test_a_tool_that_was_stopped_with_its_turn(tmp_path: Path) -> None:
    async with story(tmp_path, config=f"{WITH_A_TOOL}turn_seconds = 4.0\n") as told:
        vault = told.old_thread(*VAULT)
        await told.start()
        await told.ask(vault, "What is the vault code?")

        _endless_tool(told)
        answer = await told.ask(vault, "What is the vault code?")
        await told.stop()

        assert told_of(told.collector.spans, answer) == root(
            KNOWN,
            asked(chat("tool_use"), tool("Bash", error="tool_error"), compacted=None, error=HUNG),
            REPLY,
            **HELD,
            outcome="failed",
            reply__reason="deadline",
            error="deadline",
        )
        assert orphans(told.collector.spans) == []


@pytest.mark.kill
async def test_c087_a_tool_that_outlived_its_turn_is_marked_and_the_message_asked_again(tmp_path: Path) -> None:
    async with story(tmp_path, config=WITH_A_TOOL) as told:
        vault = told.old_thread(*VAULT)
        await told.start()
        await told.ask(vault, "What is the vault code?")

        running = _endless_tool(told)
        said = told.slack.say(vault.channel, "tom", "What is the vault code?", thread_ts=vault.ts, mention=True)
        with await asyncio.to_thread(running.open, "w"):  # opens when the tool reads
            await told.kill_session()
        answer = await told.answer_to(vault.channel, said["ts"])
        await told.stop()

        assert told_of(told.collector.spans, answer) == root(
            KNOWN,
            asked(chat("tool_use"), tool("Bash", tool__late=True), compacted=None, error=DEAD),
            start("resume"),
            reset("crash", "resume", forgotten=1, epoch=3),
            gate("refetched", "after_restart", refetch(4), epoch=3, known=0),
            inject("full", "after_restart", 4),
            asked(CHAT),
            REPLY,
            decision="refetched",
            reason="after_restart",
        )
        assert orphans(told.collector.spans) == []


async def test_what_the_end_of_the_bot_cancelled_is_answered_by_the_next_one_in_a_trace_that_links_to_the_first(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault = told.old_thread(*VAULT)
        await told.start()
        await told.ask(vault, "What is the vault code?")
        told.model.script.hang()
        asking, waiting = (told.slack.say("general", "tom", text, thread_ts=vault.ts, mention=True)["ts"] for text in ("One.", "Two."))
        await told.until(lambda: told.model.script.pending == 0)
        await told.stop()

        spans = told.collector.spans
        cut = {one["attributes"]["messaging.message.id"]: one["trace_id"] for one in spans if one["name"] == ROOT}
        trees = [trace_of(spans, cut[ts], message=told.id_of("general", ts), thread_ts=vault.ts) for ts in (asking, waiting)]
        assert trees == [
            root(KNOWN, asked(chat(error="interrupted"), compacted=None, error="cancelled"), **HELD, outcome="cancelled"),
            root(outcome="cancelled"),
        ]

        await told.start()
        first, second = await told.answer_to("general", asking), await told.answer_to("general", waiting)
        await told.stop()

        assert told_of(told.collector.spans, first) == root(
            start("resume"),
            reset("restart", "resume", forgotten=0, epoch=1),
            gate("refetched", "after_restart", refetch(5), epoch=1, known=0),  # with the bot's word that it is restarted
            inject("full", "after_restart", 5),
            asked(CHAT),
            REPLY,
            decision="refetched",
            reason="after_restart",
            reply__attempt=2,
            links=["process slack"],
        )
        assert told_of(told.collector.spans, second) == root(  # somebody may have written below it while no bot ran
            gate("refetched", "delivery_gap", refetch(7), epoch=1, known=1),
            asked(CHAT),
            REPLY,
            decision="refetched",
            reason="delivery_gap",
            reply__attempt=1,
            links=["process slack"],
        )
        links = [root_of(told.collector.spans, answer.trace_id)["links"] for answer in (first, second)]
        assert [[link["trace_id"] for link in linked] for linked in links] == [[cut[asking]], [cut[waiting]]]
        assert orphans(told.collector.spans) == []


def _endless_tool(told: Story) -> Path:
    """The next answer is a tool call that goes on until somebody writes into the pipe that it reads."""
    pipe = told.folder / "pipe"
    os.mkfifo(pipe)
    told.model.script.tool("Bash", {"command": f"cat '{pipe}'"})
    return pipe
