"""Several processes, killed at random, across midnight: what was reported written is there, whole, and `tail -F` shows it."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.log_files import DAY, NEXT_DAY
from tests.telemetry.log_writers import CHILDREN, KILLS, LINES, WRITERS

pytestmark = pytest.mark.kill

ROOT = Path(__file__).parents[2]
GUARD_SECONDS = 60.0  # it takes a tenth of that; a machine may be busy


def run(what: str, folder: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.telemetry.log_writers", what, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
        check=True,
    )
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


@contextmanager
def tail(link: Path, shown: Path) -> Iterator[None]:
    with shown.open("wb") as out:
        process = subprocess.Popen(["tail", "-n", "+1", "-F", "-s", "0.1", str(link)], stdout=out, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def wait_for(size: int, shown: Path) -> None:
    until = time.monotonic() + GUARD_SECONDS
    while shown.stat().st_size < size and time.monotonic() < until:
        time.sleep(0.05)


def parsed(raw: bytes) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Lines, and what is none."""
    whole, broken = [], []
    for line in filter(None, raw.split(b"\n")):
        try:
            whole.append(json.loads(line))
        except ValueError:
            broken.append(line)
    return whole, broken


def test_eight_processes_killed_at_random_through_a_day_change_lose_no_line_and_tail_shows_every_one(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with tail(tmp_path / "logs" / "current.log", tmp_path / "shown"):
        told = run("burst", tmp_path)
        days = [(tmp_path / "logs" / f"bot-{day}.log").read_bytes() for day in (DAY, NEXT_DAY)]
        wait_for(len(b"".join(days)), tmp_path / "shown")
    shown = (tmp_path / "shown").read_bytes()

    reported = (tmp_path / "reported").read_text().split()
    lines, broken = parsed(b"".join(days))
    found = collections.Counter(line["n"] for line in lines if "n" in line)
    assert told == {"killed": KILLS} and len(reported) >= WRITERS * LINES
    assert [n for n in reported if found[n] != 1] == []
    assert sum(found.values()) - len(reported) <= KILLS, "more than a killed writer's last line was not reported"
    assert len(broken) <= 2 * KILLS, "more than what the killed left"
    assert sum(line["event"] == "log_repaired" for line in lines) > 0
    assert [{line["ts"][:10] for line in parsed(day)[0]} for day in days] == [{DAY}, {NEXT_DAY}]
    assert max(map(len, b"".join(days).split(b"\n"))) < 2 * 32 * 1024 and len(days[1]) > len(days[0]) // 2
    assert shown == b"".join(days)
    assert os.readlink(tmp_path / "logs" / "current.log") == f"bot-{NEXT_DAY}.log"


def test_a_child_writes_at_once_whatever_the_threads_of_its_parent_hold(tmp_path: Path) -> None:
    told = run("forks", tmp_path)

    lines, broken = parsed((tmp_path / "logs" / f"bot-{DAY}.log").read_bytes())
    children = [line for line in lines if line["by"] == "child"]
    assert told["ended"] == [0] * CHILDREN and broken == []
    assert sorted(line["n"] for line in children) == list(range(CHILDREN))
    assert {line["seq"] for line in children} == {1}
    assert len({line["pid"] for line in lines}) == CHILDREN + 1
