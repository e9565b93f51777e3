"""The demo, whole: every step is observed, in its order, under the names that people and CI grep for."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cli, pytest.mark.slack]

STEPS = """
old_thread_refetched answer_from_old_thread second_message_known others_messages_injected rotate_resets auto_compaction_resets
compaction_inside_turn_asks_again resume_resets failed_fetch_not_marked trace_complete why_explains_reply bot_log_line status_line
extract_staged audit_lines actionbar_follows consolidation_wrote memory_answers_elsewhere log_is_not_input hostile_model_contained
account_switch_resets hibernate_resets inferred_compaction_resets
"""
SECONDS = 300.0


async def test_every_step_of_the_demo_is_observed(tmp_path: Path) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    argv = [sys.executable, "-m", "bot", "demo", "--json", "--workspace", str(tmp_path / "demo")]

    process = await asyncio.create_subprocess_exec(
        *argv, env={**kept, "HOME": str(tmp_path)}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        out, errors = await process.communicate()

    steps = [json.loads(line) for line in out.decode().splitlines()]
    assert [(step["step"], step["evidence"]) for step in steps if not step["ok"]] == []
    assert [step["step"] for step in steps] == STEPS.split()
    assert (process.returncode, errors) == (0, b"")
    assert not (tmp_path / "demo").exists()
