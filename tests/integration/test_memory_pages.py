"""What the memory did, told by its commands on what the real CLI left; and taken back beside the running bot."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.story import Story, story
from tests.integration.test_consolidation import SENTENCES, filing, records, said_and_extracted
from tests.integration.test_memory import lines

pytestmark = [pytest.mark.cli, pytest.mark.slack]


async def command(told: Story, *argv: str) -> Any:
    """`insomnia memory …`, as JSON."""
    whole = [sys.executable, "-m", "bot", "memory", *argv, "--json", "--workspace", str(told.workspace)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*whole, env=told._environment(), stdout=pipe, stderr=pipe)
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


async def test_a_run_is_told_joined_to_what_was_said_and_taken_back_while_the_bot_answers_on(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        filing(told)
        await said_and_extracted(told)
        await command(told, "run", "consolidation")

        consolidation, extract = await command(told, "runs")
        page = await command(told, "runs", consolidation["run_id"][:8])
        candidates = await command(told, "candidates")
        undone = await command(told, "undo", consolidation["run_id"][:8])
        answered = await told.ask(told.old_thread("Another plan."), "And what now?")
        undo, _, _ = await command(told, "runs")
        await told.stop()

        assert (consolidation["status"], consolidation["counts"], consolidation["given"]) == ("completed", {"written": 2}, 2)
        assert extract["read"]["route"] == "main" and extract["counts"] == {"staged": 2} and consolidation["cost_usd"] > 0
        assert [(each["tool"], each["outcome"], each["applied"]) for each in page["operations"]] == [
            ("memory_query", "not_found", None),
            ("memory_write", "planned", True),
        ] * 2
        assert [(each["disposition"], each["claim"], each["staged_by"]) for each in candidates] == [
            ("applied", said, extract["run_id"]) for said in SENTENCES
        ]
        assert all(each["evidence"][0]["reply"]["channel"] for each in candidates)
        assert undone["done"] and records(told) == []
        applied = [line for line in lines(told, "record_operation") if line.get("run_id") == undone["run_id"]]
        assert [line["status"] for line in applied] == ["applied", "applied"]
        assert (undo["run_id"], undo["undoes"]) == (undone["run_id"], consolidation["run_id"])
        assert answered
