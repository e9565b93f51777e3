"""A disk and a log that die at a chosen step, a history to die in, and what must hold after it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory.disk import TEMPORARY, Disk
from memory.extract import ExtractLimits, ExtractRequest, ModelEnd, ModelHow, Stage
from telemetry.events import Fact
from telemetry.memory_events import MemoryReason, MemoryRunEnded, MemoryRunStarted, MemoryStatus, MemoryTrigger
from tests.bot.recording import RecordingEmit
from tests.memory.talk import Ground, Log, cursor, keeps, rows, staged

SECOND_SESSION = "0dd5e551-aaaa-4bbb-8ccc-0123456789ab"
FAILS_ONCE, REFUSED, OVERFLOWS = "fails once", "refused for ever", "too long"


class Death(BaseException):
    """As SIGKILL: what comes after it has no effect, whoever catches it."""


class Steps:
    """`at`: the step that is not survived; 0: none."""

    def __init__(self, at: int = 0) -> None:
        self.count, self.at, self.dead = 0, at, False

    def step(self) -> None:
        self.count += 1
        if self.dead or self.count == self.at:
            self.dead = True
            raise Death


class DyingDisk(Disk):
    """Before and after each step, and in the middle of a write. Nothing is synced: it is the process that dies, not the disk."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def create(self, path: Path, content: bytes) -> None:
        self._steps.step()
        with path.open("xb", buffering=0) as file:
            file.write(content[: len(content) // 2])
            self._steps.step()
            file.write(content[len(content) // 2 :])
        self._steps.step()

    def rename(self, source: Path, target: Path) -> None:
        self._steps.step()
        source.rename(target)
        self._steps.step()

    def unlink(self, path: Path) -> None:
        self._steps.step()
        path.unlink(missing_ok=True)
        self._steps.step()

    def rmdir(self, path: Path) -> None:
        self._steps.step()
        path.rmdir()

    def mkdir(self, path: Path) -> None:
        if not path.is_dir():
            self._steps.step()
            path.mkdir(parents=True, exist_ok=True)

    def sync(self, folder: Path) -> None:
        self._steps.step()


class DyingLog(RecordingEmit):
    """Lines are appended to `lines`, which outlives the process."""

    def __init__(self, steps: Steps, lines: list[Fact]) -> None:
        super().__init__()
        self._steps, self._lines = steps, lines

    def __call__(self, fact: Fact) -> None:
        self._steps.step()
        self._lines.append(fact)
        self._steps.step()


class RuleModel:
    """What it fails at stands in the log, but for `failed`: that is forgotten by nobody."""

    name = "rule"

    def __init__(self) -> None:
        self.failed: set[str] = set()

    async def propose(self, request: ExtractRequest, stage: Stage) -> ModelEnd:
        texts = " ".join(row["text"] for row in rows(request))
        if REFUSED in texts:
            return ModelEnd(how=ModelHow.REFUSED)
        if OVERFLOWS in texts and len(rows(request)) > 2:
            return ModelEnd(how=ModelHow.OVERFLOW)
        if FAILS_ONCE in texts and request.session_id not in self.failed:
            self.failed.add(request.session_id)
            return ModelEnd(how=ModelHow.ERROR)
        return await keeps(request, stage)


class History:
    """Two sessions; several ranges; one failure, one overflow, one piece that is put aside."""

    def __init__(self, insomnia: Path) -> None:
        self.ground = Ground(insomnia, limits=ExtractLimits(tokens=400))
        self.insomnia, self.lines, self.model = insomnia, list[Fact](), RuleModel()
        self.logs = [self.ground.log, Log(insomnia, session=SECOND_SESSION, route="coder")]
        for log in self.logs:
            for n in range(2):
                log.turn(f"keep {log.route} {n}", "Noted." * 20)
            log.add("injected", "keep out of it")
        self.logs[0].turn(f"keep {FAILS_ONCE}")
        self.logs[0].turn(f"noise {OVERFLOWS}", "More noise." * 20)
        self.logs[1].add("user", f"keep what is {REFUSED} " + "." * 900)
        self.logs[1].turn("keep the last")

    def live(self, steps: Steps) -> bool:
        """One life of a process; False: it died. Recovery first, then all that is to be read."""
        try:
            asyncio.run(self._work(steps))
        except Death:
            return False
        return True

    async def _work(self, steps: Steps) -> None:
        emit = DyingLog(steps, self.lines)
        extractor = self.ground.restarted(emit=emit, model=self.model, disk=DyingDisk(steps))
        extractor.recover()
        for session in extractor.sessions():
            for _ in range(40):  # a failure ends a drain; a person tries again
                results = await extractor.drain(session, MemoryTrigger.MANUAL)
                if results[-1].reason is MemoryReason.NO_NEW_SESSION_RANGE:
                    break

    def faults(self) -> list[str]:
        return [*self._candidates(), *self._ends(), *self._ranges(), *self._remains()]

    def _candidates(self) -> list[str]:
        said = [f"keep {log.route} {n}" for log in self.logs for n in range(2)] + [f"keep {FAILS_ONCE}", "keep the last"]
        found = Counter(candidate["claim"] for candidate in staged(self.insomnia))
        lost, twice = [claim for claim in said if not found[claim]], [claim for claim, n in found.items() if n > 1]
        return [*(f"lost: {claim}" for claim in lost), *(f"twice: {claim}" for claim in twice)]

    def _ends(self) -> list[str]:
        ends: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
        for fact in self.lines:
            if isinstance(fact, MemoryRunEnded):
                ends[fact.run_id].add((fact.status, fact.reason, fact.trigger, fact.extract))
        started = [fact.run_id for fact in self.lines if isinstance(fact, MemoryRunStarted)]
        faults = [f"started {n} times" for run_id, n in Counter(started).items() if n > 1]
        return faults + [f"{len(ends[run_id])} ends: {ends[run_id]}" for run_id in {*started, *ends} if len(ends[run_id]) != 1]

    def _ranges(self) -> list[str]:
        return [fault for log in self.logs for fault in self._ranges_of(log)]

    def _ranges_of(self, log: Log) -> list[str]:
        read = {
            end.extract.range
            for end in self.lines
            if isinstance(end, MemoryRunEnded) and end.extract and end.extract.session_id == log.session and end.extract.range
            if end.status is MemoryStatus.COMPLETED or end.reason is MemoryReason.RANGE_QUARANTINED
        }
        return partition_faults(sorted(read), log.seq) + (
            [] if cursor(self.insomnia, log.session)["next"] == log.seq + 1 else ["the cursor is not at the end"]
        )

    def _remains(self) -> list[str]:
        left = [path for path in (self.insomnia / "memory").rglob("*") if path.name.startswith(TEMPORARY)]
        runs = list((self.insomnia / "memory" / "_state" / "runs").glob("*"))
        return [f"left: {path.name}" for path in left + runs]


def partition_faults(ranges: Sequence[tuple[int, int]], last: int) -> list[str]:
    begins = [1, *(end + 1 for _, end in ranges)]
    return [] if begins == [*(start for start, _ in ranges), last + 1] else [f"no partition of 1 to {last}: {ranges}"]
