"""Real processes on one workspace, killed at random: each entry is read once, each run that was told as started has one end."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.memory.dying import SECOND_SESSION, partition_faults
from tests.memory.kill_worker import work
from tests.memory.talk import Log, cursor, staged

pytestmark = pytest.mark.kill

ROOT = Path(__file__).parents[2]
WORKERS, KILLS, TURNS = 3, 25, 250
GUARD_SECONDS = 60.0


def start(insomnia: Path, seed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.memory.kill_worker", str(insomnia), str(seed)], cwd=ROOT)


def kill_at_random(insomnia: Path) -> int:
    chance, killed, until = random.Random(11), 0, time.monotonic() + GUARD_SECONDS
    running = [start(insomnia, seed) for seed in range(WORKERS)]
    try:
        while killed < KILLS and time.monotonic() < until:
            time.sleep(0.05 + chance.random() * 0.15)
            victim = chance.choice(running)
            if victim.poll() is not None:
                break  # all is read
            victim.kill()
            victim.wait()
            killed += 1
            running[running.index(victim)] = start(insomnia, WORKERS + killed)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return killed + len(running)


def test_processes_that_are_killed_while_they_extract_leave_nothing_out_and_nothing_twice(tmp_path: Path) -> None:
    logs = [Log(tmp_path), Log(tmp_path, session=SECOND_SESSION, route="coder")]
    for log in logs:
        for n in range(TURNS):
            log.turn(f"keep {log.route} {n}")

    killed = kill_at_random(tmp_path)
    asyncio.run(work(tmp_path, 0))

    assert killed >= 10
    claims = Counter(candidate["claim"] for candidate in staged(tmp_path))
    assert claims == Counter(f"keep {log.route} {n}" for log in logs for n in range(TURNS))
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_bytes().split(b"\n") if line]
    ends = defaultdict(set)
    for line in told:
        if line["status"] not in ("started", "skipped"):
            ends[line["run_id"]].add((line["status"], line["reason"], line["session"], str(line["range"])))
    assert {line["run_id"] for line in told if line["status"] == "started"} <= ends.keys()
    assert {run_id: said for run_id, said in ends.items() if len(said) > 1} == {}
    assert any(reason == "interrupted" for said in ends.values() for _, reason, _, _ in said)
    for log in logs:
        ranges = {
            tuple(line["range"]) for line in told if line["status"] == "completed" and line["session"] == log.session and line["range"]
        }
        assert partition_faults(sorted(ranges), log.seq) == []
        assert cursor(tmp_path, log.session)["next"] == log.seq + 1
    assert list((tmp_path / "memory" / "_state" / "runs").glob("*")) == []
