"""Extract in the running bot, on the real CLI: each trigger leaves its lines, off the reply's path, and nothing is read twice."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memory.records import render
from tests.integration.story import Place, Story, story
from tests.memory.made_records import record
from tests.memory.secret_shapes import SECRETS

pytestmark = [pytest.mark.cli, pytest.mark.slack]

SAID = "We decided to ship on Friday. 予算の上限は300万円です。"


def lines(told: Story, event: str = "worker_lifecycle") -> list[dict[str, Any]]:
    files = sorted((told.workspace / ".insomnia" / "memory" / "_logs").glob("memory-*.log"))
    found = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in found if line["event"] == event]


def ends(told: Story) -> list[tuple[str, str, str]]:
    return [(line["trigger"], line["status"], line["reason"]) for line in lines(told) if line["status"] != "started"]


def check(told: Story) -> None:
    """Every start has one end; what completed runs read are ranges that neither overlap nor leave a hole."""
    started = Counter(line["run_id"] for line in lines(told) if line["status"] == "started")
    ended = Counter(line["run_id"] for line in lines(told) if line["status"] not in ("started", "skipped"))
    assert started == ended and set(started.values()) <= {1}
    ranges: dict[str, list[list[int]]] = {}
    for line in lines(told):
        if line["status"] == "completed":
            ranges.setdefault(line["extract"]["session_id"], []).append(line["extract"]["range"])
    for found in ranges.values():
        read = [number for first, last in sorted(found) for number in range(first, last + 1)]
        assert read == list(range(1, len(read) + 1))


def staged(told: Story) -> list[dict[str, Any]]:
    return [
        json.loads(f.read_text()) for f in sorted((told.workspace / ".insomnia/memory/_staging").glob("*/*.json")) if f.name != "batch.json"
    ]


async def command(told: Story, *more: str) -> tuple[int, str]:
    argv = [sys.executable, "-m", "bot", "memory", "run", "extract", "--workspace", str(told.workspace), *more]
    process = await asyncio.create_subprocess_exec(
        *argv, env=told._environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_a_rotation_is_followed_by_a_run_that_reads_the_old_session_while_the_next_reply_does_not_wait(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        thread = told.old_thread("An old plan.", "And what became of it.")
        told.model.script.slow(3.0, memory=True)
        await told.ask(thread, SAID)
        told.model.script.usage(160_000)
        await told.ask(thread, "Anything new?")
        await told.until(lambda: any(request.is_memory for request in told.model.requests))

        began = time.monotonic()
        answer = await told.ask(thread, "And now?")
        took = time.monotonic() - began
        still_reading = not ends(told)
        await told.until(lambda: bool(ends(told)))
        await told.stop()

        first = lines(told)[0]
        assert answer.outcome == "answered" and still_reading and took < 3.0
        assert ends(told)[0] == ("session_end", "completed", "candidates_found")
        assert first["extract"]["route"] == "main" and first["trace_id"] != answer.trace_id
        check(told)


async def test_the_run_is_one_trace_linked_to_the_reply_that_it_followed(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await told.ask(told.old_thread("An old plan."), SAID)
        code, out = await command(told)
        await told.stop()

        spans = told.collector.spans
        (run,) = (
            span
            for span in spans
            if span["name"] == "memory.run memory_extract" and span["attributes"]["insomnia.memory.status"] != "skipped"
        )
        names = {span["name"] for span in spans if span["trace_id"] == run["trace_id"]}
        assert code == 0 and "staged 2" in out
        assert {"invoke_agent memory_extract", "chat claude-opus-5-5", "execute_tool stage_candidates"} <= names
        assert {line["trace_id"] for line in lines(told) if line["run_id"] == run["attributes"]["insomnia.memory.run_id"]} == {
            run["trace_id"]
        }


async def test_the_end_of_the_bot_reads_what_is_left_and_the_next_start_finds_nothing_to_read(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await told.ask(told.old_thread("An old plan."), SAID)
        await told.stop()
        await told.start()
        await told.stop()

        assert ends(told) == [("session_end", "completed", "candidates_found")]
        assert {(c["kind"], c["scope"]) for c in staged(told)} == {("decision", "workspace"), ("constraint", "workspace")}
        check(told)


async def test_a_bot_that_was_killed_in_a_run_ends_it_at_the_next_start_and_reads_the_range_once(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        thread = told.old_thread("An old plan.")
        await told.ask(thread, SAID)
        told.model.script.hang(memory=True)
        asking = asyncio.get_running_loop().create_task(command(told))
        await told.until(lambda: any(request.is_memory for request in told.model.requests))
        (orphan,) = told.bot.workers()
        await told.kill()
        code, _ = await asking
        await told.start()
        await told.until(lambda: not Path(f"/proc/{orphan}").exists())
        await told.until(lambda: len(ends(told)) == 2)
        await told.stop()

        assert code == 1 and list((told.workspace / ".insomnia" / "run" / "workers").iterdir()) == []
        assert ends(told) == [("manual", "failed", "interrupted"), ("startup_recovery", "completed", "candidates_found")]
        check(told)


async def test_a_person_who_presses_ctrl_c_cancels_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await told.ask(told.old_thread("An old plan."), SAID)
        told.model.script.hang(memory=True)
        argv = [sys.executable, "-m", "bot", "memory", "run", "extract", "--workspace", str(told.workspace)]
        process = await asyncio.create_subprocess_exec(*argv, env=told._environment(), stderr=asyncio.subprocess.DEVNULL)
        await told.until(lambda: any(request.is_memory for request in told.model.requests))
        process.send_signal(2)
        await process.wait()
        await told.until(lambda: bool(ends(told)))
        await command(told)
        await told.stop()

        assert ends(told) == [("manual", "cancelled", "user_cancelled"), ("manual", "completed", "candidates_found")]
        check(told)


async def test_without_a_running_bot_the_command_reads_by_itself(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await told.ask(told.old_thread("An old plan."), SAID)
        await told.kill()
        code, out = await command(told, "--json")
        again, _ = await command(told)

        (result,) = json.loads(out)
        assert (code, again, result["status"], len(result["staged_ids"])) == (0, 0, "completed", 2)
        check(told)


async def test_a_model_that_is_out_of_order_costs_nothing_but_the_run(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        thread = told.old_thread("An old plan.")
        await told.ask(thread, SAID)
        told.model.script.error(403, memory=True)
        code, out = await command(told)
        answered = await told.ask(thread, "Still there?")
        await told.stop()

        assert (code, answered.outcome) == (1, "answered") and "model error (HTTP 403)" in out
        assert ends(told)[0] == ("manual", "failed", "model_error")
        check(told)


async def test_the_memory_is_asked_from_a_session_through_its_tools(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        told.model.script.tool("mcp__insomnia__memory_query", {"query": "金曜のデプロイは？"})
        answer = await told.ask(Place("general", told.old_thread("An old plan.").ts), "When do we deploy?")
        await told.stop()

        (used,) = lines(told, "record_usage")
        spans = [span for span in told.collector.spans if span["trace_id"] == answer.trace_id and "execute_tool" in span["name"]]
        assert (used["op"], used["status"], used["caller"], used["trace_id"]) == ("query", "not_found", "main", answer.trace_id)
        assert [span["name"] for span in spans] == ["execute_tool memory_query"]


async def test_a_record_that_somebody_edits_by_hand_is_told_at_the_next_start(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        folder = told.workspace / ".insomnia" / "memory" / "decision"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "by-hand.md").write_text(render(record("by-hand")), encoding="utf-8")
        await told.start()
        await told.stop()

        (line,) = lines(told, "record_operation")
        assert (line["slug"], line["status"], line["unaudited"]) == ("by-hand", "applied", True)


async def test_secrets_of_every_shape_that_people_paste_are_nowhere_in_memory_logs_and_telemetry(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        thread = told.old_thread("An old plan.", *(f"We decided to use {secret} from now on." for secret in SECRETS.values()))
        for name, secret in SECRETS.items():
            await told.ask(thread, f"We decided: the {name} is {secret} and we keep it.")
        code, out = await command(told, "--json")
        await told.stop()

        folder = told.workspace / ".insomnia"
        files = [file for place in ("memory", "logs", "telemetry") for file in sorted((folder / place).rglob("*")) if file.is_file()]
        sent = json.dumps([told.collector.spans, told.collector.logs, told.collector.metrics()], ensure_ascii=False)
        written = {str(file): file.read_bytes().decode(errors="replace") for file in files}
        written |= {"OTLP": sent, "stderr": told.errors, "command": out}
        cores = {name: _core(secret) for name, secret in SECRETS.items()}
        assert code == 0 and [*staged(told), *folder.glob("memory/*/*.md")]  # ten candidates are worked in at once
        assert [(where, name) for where, text in written.items() for name, core in cores.items() if core in text] == []


def _core(secret: str) -> str:
    """A piece of its middle, which is nothing but secret."""
    longest = max(secret.split(), key=len)
    return longest[len(longest) // 3 : len(longest) // 3 + 12]
