"""Consolidation in the running bot, on the real CLI: what is said becomes memory by itself, and no end of a process loses any of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from memory.records import Record
from memory.store import Store
from tests.bot.filing import Filing, Talk, files_each, use
from tests.integration.story import Story, story
from tests.integration.test_memory import ends, lines, staged
from tests.integration.traces import CHAT, MODEL, Tree, chat, orphans, run_of, span, tool

pytestmark = [pytest.mark.cli, pytest.mark.slack]

SENTENCES = ["We decided to ship on Friday.", "予算の上限は300万円です。"]
SAID = " ".join(SENTENCES)
# Ten decisions in one message: as many candidates as bring consolidation on.
MUCH = " ".join(f"We decided that release {number} goes out in week {number + 30}." for number in range(1, 11))


def records(told: Story) -> list[Record]:
    return list(Store(told.workspace / ".insomnia").view().records())


def filing(told: Story) -> Filing:
    told.model.script = made = Filing(files_each)
    return made


def of_consolidation(told: Story) -> list[tuple[str, str, str]]:
    return [
        (line["trigger"], line["status"], line["reason"])
        for line in lines(told)
        if line["worker"] == "memory_consolidation" and line["status"] != "started"
    ]


def check(told: Story) -> None:
    """Every candidate that was ever staged waits, or was settled once; every run has one end, with its commit or discard before it."""
    worker = [line for line in lines(told) if line["worker"] == "memory_consolidation"]
    started = [line["run_id"] for line in worker if line["status"] == "started"]
    ended = [line["run_id"] for line in worker if line["status"] not in ("started", "skipped")]
    assert sorted(started) == sorted(ended)
    settled = [one for line in worker if line["status"] != "started" for one in line["consolidation"]["consumed_ids"]]
    waiting = [one["id"] for one in staged(told)]
    ever = [one for line in lines(told) if "extract" in line and line["status"] == "completed" for one in line["extract"]["staging_ids"]]
    assert sorted(settled + waiting) == sorted(ever)
    told_of = [line["run_id"] for event in ("store_commit", "store_discard") for line in lines(told, event)]
    assert sorted(told_of) == sorted(ended)


async def command(told: Story, worker: str, *more: str) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "bot", "memory", "run", worker, "--workspace", str(told.workspace), *more]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, env=told._environment(), stdout=pipe, stderr=pipe)
    out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


async def said_and_extracted(told: Story, said: str = SAID) -> None:
    await told.start()
    await told.ask(told.old_thread("An old plan."), said)
    await command(told, "extract")


async def test_what_was_decided_becomes_memory_when_a_person_asks_for_it(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        filing(told)
        await said_and_extracted(told)
        code, out, _ = await command(told, "consolidation")
        again = await command(told, "consolidation", "--json")
        await told.stop()

        assert (code, out.splitlines()) == (0, ["RUN   SCOPE      WHAT", "done  workspace  wrote 2; 2 adopted"])
        assert sorted(record.body for record in records(told)) == SENTENCES
        assert (again[0], [(each["status"], each["reason"]) for each in json.loads(again[1])]) == (0, [("skipped", "no_staging")])
        assert of_consolidation(told) == [("manual", "completed", "records_updated"), ("manual", "skipped", "no_staging")]
        check(told)


def write(slug: str) -> Tree:
    return tool("memory_write", memory__op__status="planned", memory__slug=slug)


async def test_a_run_is_one_trace_from_its_snapshot_to_its_commit(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        filing(told)
        await said_and_extracted(told)
        await command(told, "consolidation")
        await told.stop()

        (run,) = [line for line in lines(told) if line["worker"] == "memory_consolidation" and line["status"] == "completed"]
        query = tool("memory_query", memory__op__status="not_found")
        asked = chat("tool_use")
        assert run_of(told.collector.spans, run["trace_id"]) == span(
            "memory.run memory_consolidation",
            span("memory.snapshot", memory__candidates=2),
            span(
                "invoke_agent memory_consolidation",
                *(asked, query, asked, write("note-0"), asked, query, asked, write("note-1"), CHAT),
                operation__name="invoke_agent",
                agent__name="memory_consolidation",
                conversation__id="the worker",
            ),
            span("memory.commit"),
            memory__worker="memory_consolidation",
            memory__trigger="manual",
            memory__status="completed",
            memory__reason="records_updated",
            memory__ops__write=2,
            memory__ops__edit=0,
        )
        assert orphans(told.collector.spans) == [] and MODEL in run["model"]
        of_run = {line["trace_id"] for event in ("record_operation", "record_usage", "store_commit") for line in lines(told, event)}
        assert of_run == {run["trace_id"]}


async def test_enough_candidates_are_worked_in_by_itself_linked_to_the_reply_and_off_its_path(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        filing(told)
        await told.start()
        thread = told.old_thread("An old plan.")
        first = await told.ask(thread, MUCH)
        told.model.script.usage(160_000)
        last = await told.ask(thread, "Anything new?")
        await told.until(lambda: bool(of_consolidation(told)))
        await told.stop()

        assert of_consolidation(told) == [("staging_backlog", "completed", "records_updated")]
        assert len(records(told)) == 10 and first.outcome == last.outcome == "answered"
        runs = [one for one in told.collector.spans if one["name"].startswith("memory.run") and one["links"]]
        linked = {one["name"].split("_")[-1]: one["links"][0]["trace_id"] for one in runs}
        assert linked["consolidation"] == linked["extract"] == last.trace_id
        check(told)


async def test_where_it_is_switched_off_candidates_wait_for_a_person(tmp_path: Path) -> None:
    async with story(tmp_path, config="[memory]\nconsolidation = false\n") as told:
        filing(told)
        await said_and_extracted(told, MUCH)
        await told.until(lambda: bool(of_consolidation(told)))
        left = len(staged(told))
        code, out, _ = await command(told, "consolidation")
        await told.stop()

        assert of_consolidation(told)[0] == ("staging_backlog", "skipped", "disabled") and left == 10
        assert code == 0 and "wrote 10; 10 adopted" in out
        check(told)


async def test_without_a_running_bot_the_command_does_it_by_itself(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        filing(told)
        await said_and_extracted(told)
        await told.kill()
        code, out, errors = await command(told, "consolidation", "--json")

        (result,) = json.loads(out)
        assert (code, result["status"], result["work"]["ops"]) == (0, "completed", {"write": 2})
        assert result["work"]["scope"] == "workspace" and result["work"]["dispositions"] == {"applied": 2}
        assert len(records(told)) == 2 and "Traceback" not in errors
        check(told)


async def test_a_model_that_settles_nothing_fails_the_run_and_loses_nothing(tmp_path: Path) -> None:
    def does_nothing(_: object) -> Talk:
        yield use("staging_list")

    async with story(tmp_path) as told:
        told.model.script = Filing(does_nothing)
        await said_and_extracted(told)
        code, out, _ = await command(told, "consolidation")
        answered = await told.ask(told.old_thread("Another plan."), "Still there?")
        await told.stop()

        assert (code, answered.outcome, len(staged(told))) == (1, "answered", 2)
        assert "failed  workspace  model output invalid (no candidate was settled (calls of the tools: 1)); it had 2" in out
        check(told)


async def test_a_person_who_presses_ctrl_c_cancels_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        script = filing(told)
        await said_and_extracted(told)
        script.hangs = True
        argv = [sys.executable, "-m", "bot", "memory", "run", "consolidation", "--workspace", str(told.workspace)]
        process = await asyncio.create_subprocess_exec(*argv, env=told._environment(), stderr=asyncio.subprocess.DEVNULL)
        await told.until(lambda: script.asked)
        process.send_signal(2)
        await process.wait()
        await told.until(lambda: bool(of_consolidation(told)))
        await told.until(lambda: not told.bot.workers())
        script.hangs = False
        await command(told, "consolidation")
        await told.stop()

        assert process.returncode == 1
        assert of_consolidation(told) == [("manual", "cancelled", "user_cancelled"), ("manual", "completed", "records_updated")]
        check(told)


async def test_the_end_of_the_bot_cuts_a_run_within_the_drain_and_its_candidates_wait(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        script = filing(told)
        await said_and_extracted(told)
        script.hangs = True
        asking = asyncio.get_running_loop().create_task(command(told, "consolidation"))
        await told.until(lambda: script.asked)
        took = await told.stop()
        code, _, _ = await asking

        assert (code, took < 20.0) == (1, True)
        assert of_consolidation(told) == [("manual", "cancelled", "interrupted")] and len(staged(told)) == 2
        assert list((told.workspace / ".insomnia" / "run" / "workers").glob("*")) == []
        check(told)


async def test_a_bot_that_was_killed_in_a_run_ends_it_at_the_next_start_and_begins_again(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        script = filing(told)
        await said_and_extracted(told)
        script.hangs = True
        asking = asyncio.get_running_loop().create_task(command(told, "consolidation"))
        await told.until(lambda: script.asked)
        (orphan,) = told.bot.workers()
        await told.kill()
        await asking
        script.hangs = False
        await told.start()
        await told.until(lambda: len(of_consolidation(told)) == 2)
        await told.stop()

        await told.until(lambda: not Path(f"/proc/{orphan}").exists())
        assert of_consolidation(told) == [("manual", "failed", "interrupted"), ("startup_recovery", "completed", "records_updated")]
        assert ends(told)[-1] == ("startup_recovery", "completed", "records_updated") and len(records(told)) == 2
        check(told)
