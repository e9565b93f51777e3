"""Real processes on one workspace, killed at random while they extract and consolidate: no claim is lost or stands twice."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from memory.store import Store
from tests.memory.consolidating import waiting
from tests.memory.consolidation_history import records, settlements
from tests.memory.dying import SECOND_SESSION
from tests.memory.kill_consolidator import is_discarded, work
from tests.memory.talk import Log

pytestmark = pytest.mark.kill

ROOT = Path(__file__).parents[2]
GUARD_SECONDS = 1_800.0


@pytest.mark.parametrize("kills, turns", [(200, 500), pytest.param(1_000, 2_000, marks=pytest.mark.soak)], ids=["200 kills", "1000 kills"])
def test_processes_that_are_killed_while_they_consolidate_lose_nothing_and_write_nothing_twice(
    kills: int, turns: int, tmp_path: Path
) -> None:
    claims = [claim for log in logs(tmp_path) for claim in turned(log, turns)]

    nursery = [sys.executable, "-m", "tests.memory.kill_consolidator", str(tmp_path), str(kills)]
    killed = int(subprocess.run(nursery, cwd=ROOT, check=True, timeout=GUARD_SECONDS, stdout=subprocess.PIPE).stdout)
    asyncio.run(work(tmp_path, 0))

    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_bytes().split(b"\n") if line]
    print(f"{killed} processes killed, {sum(line['fact'] == 'started' for line in told)} runs, {len(claims)} claims")
    assert killed >= kills
    stands = Counter(line for text in records(tmp_path).values() for line in text.decode().split("\n") if line.startswith("keep"))
    assert stands == Counter(claim for claim in claims if not is_discarded(claim))
    settled = settlements(tmp_path, name=lambda claim: claim)
    assert {claim: settled[claim] for claim in claims} == {claim: ["discarded" if is_discarded(claim) else "applied"] for claim in claims}
    assert waiting(tmp_path) == [] and Store(tmp_path).unaudited() == () and "unaudited" not in {line["fact"] for line in told}
    assert ends_faults(told) == []
    assert any(line.get("reason") == "interrupted" for line in told)
    state = tmp_path / "memory" / "_state"
    assert [*tmp_path.rglob(".tmp-*"), *(state / "runs").glob("*"), *state.glob("journal*")] == []


def logs(insomnia: Path) -> list[Log]:
    return [Log(insomnia), Log(insomnia, session=SECOND_SESSION, route="coder")]


def turned(log: Log, turns: int) -> list[str]:
    claims = [f"keep {log.route} {n}" for n in range(turns)]
    for claim in claims:
        log.turn(claim)
    return claims


def ends_faults(told: list[dict[str, Any]]) -> list[str]:
    """Each run that was told as started has one end, with a word on the store before, and figures that add up."""
    ends, store, faults = defaultdict[str, list[dict[str, Any]]](list), defaultdict[str, set[str]](set), list[str]()
    for line in told:
        if line["fact"] in ("committed", "discarded"):
            store[line["run_id"]].add(line["fact"])
        elif line["fact"] == "end":
            before = ends[line["run_id"]]
            faults += [f"another end: {before}, {line}"] if before and line not in before else []
            before.append(line)
            right = "committed" if line["status"] == "completed" else "discarded"
            faults += [f"nothing on the store before: {line}"] if right not in store[line["run_id"]] else []
            adds_up = sum(line["dispositions"].values()) == line["given"]
            faults += [f"does not add up: {line}"] if line["status"] == "completed" and not adds_up else []
    started = [line["run_id"] for line in told if line["fact"] == "started"]
    return faults + [f"no end: {run_id}" for run_id in started if not ends[run_id]]
