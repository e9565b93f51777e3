"""A process that extracts until it is killed, or all is read: `python -m tests.memory.kill_worker INSOMNIA SEED`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

from memory.extract import ExtractLimits, Extractor, ExtractRequest, ModelEnd, Stage
from telemetry.events import Fact
from telemetry.memory_events import MemoryRunEnded, MemoryRunStarted, MemoryTrigger
from tests.bot.recording import RecordingEmit
from tests.memory.talk import keeps


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class LineEmit(RecordingEmit):
    """Each start and end is one write of one line."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, fact: Fact) -> None:
        if isinstance(fact, MemoryRunStarted):
            self._write({"run_id": fact.run_id, "status": "started"})
        elif isinstance(fact, MemoryRunEnded):
            read = list(fact.extract.range) if fact.extract and fact.extract.range else None
            said = {"session": fact.extract.session_id if fact.extract else "", "range": read}
            self._write({"run_id": fact.run_id, "status": fact.status, "reason": fact.reason, **said})

    def _write(self, fields: dict[str, object]) -> None:
        os.write(self._fd, json.dumps(fields).encode() + b"\n")


class SlowModel:
    name = "slow"

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    async def propose(self, request: ExtractRequest, stage: Stage) -> ModelEnd:
        await asyncio.sleep(self._chance.random() * 0.02)
        return await keeps(request, stage)


def extractor(insomnia: Path, seed: int) -> Extractor:
    emit = LineEmit(insomnia / "told.jsonl")
    return Extractor(insomnia, model=SlowModel(seed), emit=emit, clock=RealClock(), limits=ExtractLimits(tokens=300))


async def work(insomnia: Path, seed: int) -> None:
    worker = extractor(insomnia, seed)
    while True:
        worker.recover()
        results = [result for session in worker.sessions() for result in await worker.drain(session, MemoryTrigger.MANUAL)]
        if all(result.reason == "no_new_session_range" for result in results):
            return


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
