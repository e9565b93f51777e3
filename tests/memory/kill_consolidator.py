"""Processes that extract and consolidate on one workspace, and are killed: `python -m tests.memory.kill_consolidator INSOMNIA KILLS`.

This one is their nursery: it forks them, kills one at random again and again and forks another in its place, which costs a few
milliseconds. It prints how many it has killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory.consolidation.consolidator import Consolidator
from memory.consolidation.run import ConsolidationLimits
from memory.extract import ExtractLimits, Extractor
from memory.model_end import ModelEnd
from memory.store import Store, StoreBusy
from memory.store_audit import tell_unaudited
from telemetry.events import Fact
from telemetry.memory_events import (
    MemoryReason,
    MemoryRunEnded,
    MemoryRunStarted,
    MemoryTrigger,
    MemoryWorker,
    RecordOperation,
    StoreCommitted,
    StoreDiscarded,
)
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Hand, RuleModel
from tests.memory.kill_worker import RealClock, SlowModel

WORKERS = 4
LIFE_SECONDS = 0.02, 0.12  # until the next is killed; a commit takes some ten milliseconds
MANUAL = MemoryTrigger.MANUAL


class LineEmit(RecordingEmit):
    """Each fact about a consolidation is one write of one line."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, fact: Fact) -> None:
        match fact:
            case MemoryRunStarted(worker=MemoryWorker.CONSOLIDATION):
                self._write({"fact": "started", "run_id": fact.run_id})
            case MemoryRunEnded(worker=MemoryWorker.CONSOLIDATION) if fact.status != "skipped" and fact.consolidation:
                work = fact.consolidation
                counts = {"ops": dict(work.ops), "dispositions": dict(work.dispositions), "given": work.staging_count}
                self._write({"fact": "end", "run_id": fact.run_id, "status": fact.status, "reason": fact.reason, **counts})
            case StoreCommitted():
                self._write({"fact": "committed", "run_id": fact.run_id})
            case StoreDiscarded():
                self._write({"fact": "discarded", "run_id": fact.run_id})
            case RecordOperation(unaudited=True):
                self._write({"fact": "unaudited", "path": fact.path})

    def _write(self, fields: dict[str, Any]) -> None:
        os.write(self._fd, json.dumps(fields).encode() + b"\n")


def is_discarded(claim: str) -> bool:
    return int(claim.split()[-1]) % 7 == 3


async def files(hand: Hand) -> ModelEnd | None:
    """Ten claims in a row are the lines of a record; the last of each twenty makes one of two. Some are thrown away."""
    for one in await hand.candidates():
        claim, route, number = one["claim"], one["claim"].split()[1], int(one["claim"].split()[-1])
        if is_discarded(claim):
            await hand("staging_resolve", candidate=one["id"], disposition="discarded", reason="So it was asked.")
        elif number % 20 != 19 or not await _merged(hand, one["id"], claim, f"{route}-{number // 20}", f"{route}-{number // 10}"):
            await _added(hand, one["id"], claim, f"{route}-{number // 10}", f"{route}-alone-{number}")
    return None


async def _added(hand: Hand, one: str, claim: str, slug: str, alone: str) -> None:
    lines = await _lines(hand, slug)
    said = {"old_text": lines[-1], "new_text": f"{lines[-1]}\n{claim}", "candidates": [one]} if lines else {}
    if not lines:
        await hand.write(slug, one, content=claim)
    elif "error" in await hand("memory_edit", kind="decision", slug=slug, **said):
        await hand.write(alone, one, content=claim)


async def _merged(hand: Hand, one: str, claim: str, into: str, last: str) -> bool:
    route, _, decade = last.rpartition("-")
    sources = [f"{route}-{int(decade) - 1}", last]
    bodies = [await _lines(hand, slug) for slug in sources]
    content = "\n".join([*bodies[0], *bodies[1], claim])
    said = {"slug": f"{into}-both", "from_": sources, "content": content, "candidates": [one]}
    return all(bodies) and "error" not in await hand("memory_merge", kind="decision", **said)


async def _lines(hand: Hand, slug: str) -> list[str]:
    read = await hand("memory_read", kind="decision", slug=slug)
    return str(read["content"]).split("\n") if "content" in read else []


async def work(insomnia: Path, seed: int) -> None:
    """Until nothing is left to do."""
    emit, chance = LineEmit(insomnia / "told.jsonl"), random.Random(seed)
    extractor = Extractor(insomnia, model=SlowModel(seed), emit=emit, clock=RealClock(), limits=ExtractLimits(tokens=300))
    limits = ConsolidationLimits(candidates=8)
    consolidator = Consolidator(insomnia, model=RuleModel([files]), emit=emit, clock=RealClock(), limits=limits)
    consolidator.recover()
    with suppress(OSError, StoreBusy):
        Store(insomnia).sweep()
        tell_unaudited(Store(insomnia), emit)
    extractor.recover()
    while True:
        read = [await extractor.run(session, MANUAL) for session in chance.sample(list(extractor.sessions()), 2)]
        done = await consolidator.run(MANUAL)
        if done.reason is MemoryReason.NO_STAGING and all(each.reason is MemoryReason.NO_NEW_SESSION_RANGE for each in read):
            return


def start(insomnia: Path, seed: int) -> int:
    """Its process id."""
    if child := os.fork():
        return child
    try:
        asyncio.run(work(insomnia, seed))
    finally:
        os._exit(0)


def kill_at_random(insomnia: Path, kills: int) -> int:
    """How many, until that many are killed or one of them has found nothing to do."""
    chance, killed = random.Random(11), 0
    running = [start(insomnia, seed) for seed in range(WORKERS)]
    while killed < kills:
        time.sleep(chance.uniform(*LIFE_SECONDS))
        victim = chance.randrange(WORKERS)
        if os.waitpid(running[victim], os.WNOHANG)[0]:
            running.pop(victim)
            break
        os.kill(running[victim], signal.SIGKILL)
        os.waitpid(running[victim], 0)
        killed += 1
        running[victim] = start(insomnia, WORKERS + killed)
    for process in running:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return killed + len(running)


if __name__ == "__main__":
    print(kill_at_random(Path(sys.argv[1]), int(sys.argv[2])))
