"""A history of consolidations that outlives its processes, and what must hold after whatever befell them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memory.consolidation.consolidator import Consolidator
from memory.consolidation.run import ConsolidationLimits
from memory.cursors import Cursor, Cursors
from memory.disk import TEMPORARY, Disk, no_links
from memory.store import Store, StoreBusy
from memory.store_audit import tell_unaudited
from telemetry.emit import Emit
from telemetry.events import Fact
from telemetry.memory_events import (
    MemoryReason,
    MemoryRunEnded,
    MemoryRunStarted,
    MemoryStatus,
    MemoryTrigger,
    OperationStatus,
    RecordOp,
    RecordOperation,
    StoreCommitted,
    StoreDiscarded,
)
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import SESSION, Clock, candidate, stage, waiting
from tests.memory.consolidation_claims import CLAIMS, DEPENDS, DROPPED_BY, HELD, PHASES, FailingOnce, obeys, tokens
from tests.memory.dying import SECOND_SESSION, Death, Steps
from tests.memory.dying_store import AtOnce, Image, SteppedDisk, Watched, stepped_store

LIMITS = ConsolidationLimits(candidates=4)


def start_up(consolidator: Consolidator, store: Store, emit: Emit) -> None:
    """As the bot does it."""
    consolidator.recover()
    with suppress(OSError, StoreBusy):
        store.sweep()
        tell_unaudited(store, emit)


class NoEnd(AssertionError):
    """Whatever is tried, something waits on."""


class SteppedLog(RecordingEmit):
    def __init__(self, steps: Steps, history: History) -> None:
        super().__init__()
        self._steps, self._history = steps, history

    def __call__(self, fact: Fact) -> None:
        self._steps.step()
        self._history.hears(fact)


@dataclass
class End:
    """As it was told first. `before` and `after`: the records on disk at the end before it, and at this one."""

    fact: MemoryRunEnded
    before: dict[str, bytes]
    after: dict[str, bytes]


@dataclass
class History:
    """`phases`: how many of them are gone through; `patience`: how often a drain is tried in each. `touched`: tokens in what a person
    laid hands on; `by_hand`: somebody did.
    """

    insomnia: Path
    phases: int = len(PHASES)
    patience: int = 20
    told: list[Fact] = field(default_factory=list)
    ends: dict[str, End] = field(default_factory=dict)
    records: dict[str, bytes] = field(default_factory=dict)
    staged: int = 0
    starts: int = 0
    touched: frozenset[str] = frozenset()
    by_hand: bool = False
    model: FailingOnce = field(default_factory=lambda: FailingOnce([obeys]))

    def __post_init__(self) -> None:
        self.insomnia.mkdir(parents=True, exist_ok=True)

    def live(self, steps: Steps | None = None, *, on: Disk | None = None) -> bool:
        """One life of a process; False: it died. Recovery first, then all that waits."""
        steps = steps or Steps()
        try:
            with stepped_store(steps):
                asyncio.run(self._work(steps, on))
        except Death:
            return False
        if self.model.wrong:
            raise self.model.wrong
        return True

    def recover(self, steps: Steps | None = None) -> bool:
        """A process that does nothing else; False: it died."""
        steps = steps or Steps()
        try:
            with stepped_store(steps):
                emit, worker = self.consolidator(steps)
                start_up(worker, Store(self.insomnia), emit)
        except Death:
            return False
        return True

    def consolidator(self, steps: Steps, on: Disk | None = None) -> tuple[SteppedLog, Consolidator]:
        emit, disk = SteppedLog(steps, self), on or SteppedDisk(steps)
        return emit, Consolidator(self.insomnia, model=self.model, emit=emit, clock=Clock(), limits=LIMITS, disk=disk)

    async def _work(self, steps: Steps, on: Disk | None) -> None:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        emit, worker = self.consolidator(steps, on)
        start_up(worker, Store(self.insomnia), emit)
        while True:
            for _ in range(self.patience):  # a failure ends a drain; a person tries again
                if not worker.backlog().fresh:
                    break
                await worker.drain(MemoryTrigger.MANUAL)
            else:
                raise NoEnd
            if self.staged == self.phases:
                return
            self._stage()

    def _stage(self) -> None:
        """As extract does it; the cursor of the second session stays behind until the last phase."""
        no_links(self.insomnia / "memory")
        for scope, session, claims in PHASES[self.staged]:
            self.starts += 10
            made = [candidate(claim, scope=scope, n=self.starts + n) for n, claim in enumerate(claims)]
            stage(self.insomnia, *made, start=self.starts, session=session, read=session == SESSION)
        self.staged += 1
        if self.staged == len(PHASES):
            Cursors(self.insomnia / "memory" / "_state", disk=Disk()).advance(SECOND_SESSION, Cursor(next=self.starts, run_id="extract"))

    def moment(self) -> Moment:
        return Moment(Image.of(self.insomnia), replace(self, told=[*self.told], ends={**self.ends}, model=replace(self.model)))

    def hears(self, fact: Fact) -> None:
        self.told.append(fact)
        if isinstance(fact, MemoryRunEnded) and fact.status is not MemoryStatus.SKIPPED and fact.run_id not in self.ends:
            now = records(self.insomnia)
            self.ends[fact.run_id] = End(fact, self.records, now)
            self.records = now

    # -- what must hold --------------------------------------------------------------------------------------------------
    def faults(self, *, drained: bool = False) -> list[str]:
        """At any moment at which nothing runs. `drained`: whatever could be settled is settled."""
        return [*self._candidates(drained=drained), *self._told(), *self._counted(), *self._kept(), *self.remains(drained=drained)]

    def _candidates(self, *, drained: bool) -> list[str]:
        """Each waits, or was settled by one run, and stands where that says."""
        stands = Counter(token for text in records(self.insomnia).values() for token in tokens(text))
        waits, settled = Counter(claim.split()[1] for claim in waiting(self.insomnia)), settlements(self.insomnia)
        staged = [claim for phase in PHASES[: self.staged] for _, _, claims in phase for claim in claims]
        faults = []
        for verb, token in (claim.split()[:2] for claim in staged):
            where = f"{CLAIMS[token]}: waits {waits[token]} times, settled as {settled[token]}, stands in {stands[token]} lines"
            dropped = bool(settled[DROPPED_BY.get(token, "")])
            right = 1 if settled[token] and verb in HELD and not dropped else 0
            places = waits[token] + len(settled[token])
            if not places or (stands[token] < right and token not in self.touched):
                faults.append(f"lost: {where}")
            elif places > 1 or (stands[token] > right and (token not in self.touched or waits[token])):
                faults.append(f"twice: {where}")
            elif drained and waits[token] and verb != "never" and not (self.by_hand and verb in DEPENDS):
                faults.append(f"waits for ever: {where}")
        return faults

    def _told(self) -> list[str]:
        ends, store, faults = defaultdict[str, list[Any]](list), defaultdict[str, list[Fact]](list), list[str]()
        for fact in self.told:
            if isinstance(fact, StoreCommitted | StoreDiscarded):
                store[fact.run_id].append(fact)
            elif isinstance(fact, RecordOperation) and fact.unaudited and not self.by_hand:
                faults.append(f"taken for a person's: {fact}")
            elif isinstance(fact, MemoryRunEnded) and fact.status is not MemoryStatus.SKIPPED:
                said = [fact.status, fact.reason, fact.trigger, fact.detail, fact.model, fact.usage, fact.cost_usd, fact.consolidation]
                faults += [f"another end: {ends[fact.run_id]}, {said}"] if ends[fact.run_id] and said not in ends[fact.run_id] else []
                faults += [f"nothing on the store before: {said}"] if not _says_of_store(fact, store[fact.run_id]) else []
                ends[fact.run_id].append(said)
        started = Counter(fact.run_id for fact in self.told if isinstance(fact, MemoryRunStarted))
        faults += [f"started {n} times" for n in started.values() if n > 1]
        return faults + [f"no end: {run_id}" for run_id in started if not ends[run_id]]

    def _counted(self) -> list[str]:
        """The figures of an end are what the disk says, and every candidate of a completed run has a disposition."""
        faults = []
        for run_id, end in self.ends.items():
            work = end.fact.consolidation
            assert work
            removed = [path for path in end.before if path not in end.after]
            written = [path for path, text in end.after.items() if end.before.get(path) != text]
            ops = Counter(work.ops)
            said = ops[RecordOp.WRITE] + ops[RecordOp.EDIT] + ops[RecordOp.TRIM] + ops[RecordOp.MERGE], ops[RecordOp.DELETE]
            if said != (len(written), len(removed)) and not self.by_hand:
                faults.append(f"counted {dict(ops)}, wrote {written}, removed {removed}")
            if end.fact.status is MemoryStatus.COMPLETED and sum(work.dispositions.values()) != work.staging_count:
                faults.append(f"dispositions do not add up: {work}")
            told = {fact.path for fact in self.told if isinstance(fact, RecordOperation) and _is_applied_by(fact, run_id)}
            faults += [f"told {sorted(told)}, counted {dict(ops)}"] if len(told) != sum(said) else []
        return faults

    def _kept(self) -> list[str]:
        """Every text that a run took away lies in its trash."""
        gone = [
            (path, run_id, text)
            for run_id, end in self.ends.items()
            for path, text in end.before.items()
            if end.after.get(path) != text and not self.by_hand
        ]
        return [f"not in the trash: {path}" for path, run_id, text in gone if text not in trash_of(self.insomnia, run_id)]

    def remains(self, *, drained: bool = False) -> list[str]:
        state, staging = self.insomnia / "memory" / "_state", self.insomnia / "memory" / "_staging"
        left = [path for path in self.insomnia.rglob("*") if path.name.startswith(TEMPORARY)]
        left += [*(state / "runs").glob("*"), *state.glob("journal*")]
        if drained and self.staged == len(PHASES):
            left += [path for path in staging.glob("*") if {each.name for each in path.iterdir()} == {"batch.json"}]
        return [f"left: {path.relative_to(self.insomnia)}" for path in left]


@dataclass(frozen=True, slots=True)
class Moment:
    """What a process leaves that dies just then."""

    image: Image
    history: History

    def again(self, insomnia: Path) -> History:
        """The same, in a folder of its own."""
        old = self.history
        new = replace(old, insomnia=insomnia, told=[*old.told], ends={**old.ends}, model=replace(old.model))
        self.image.restore(insomnia)
        return new


def moments(insomnia: Path) -> list[Moment]:
    """One before each step of a whole life."""
    history, found = History(insomnia), list[Moment]()
    assert history.live(Watched(lambda _: found.append(history.moment())))
    return found


def _says_of_store(end: MemoryRunEnded, before: Sequence[Fact]) -> bool:
    """`store_commit` before the end of a run that came to it, `store_discard` before any other."""
    committed = any(isinstance(fact, StoreCommitted) for fact in before)
    if end.status is MemoryStatus.COMPLETED:
        return committed
    return bool(before) and (not committed or end.reason is MemoryReason.STORE_CONFLICT)


def _is_applied_by(fact: RecordOperation, run_id: str) -> bool:
    return fact.run_id == run_id and fact.status is OperationStatus.APPLIED


def records(insomnia: Path) -> dict[str, bytes]:
    """By path, as they lie on the disk."""
    folders = [insomnia / "knowledge", *(path for path in (insomnia / "memory").glob("[a-z]*") if path.is_dir())]
    return {str(path.relative_to(insomnia)): path.read_bytes() for folder in folders for path in sorted(folder.glob("*.md"))}


def trash_of(insomnia: Path, run_id: str) -> list[bytes]:
    return [path.read_bytes() for path in (insomnia / "memory" / "_trash" / run_id).glob("*/*.md")]


def token_of(claim: str) -> str:
    return claim.split()[1]


def settlements(insomnia: Path, *, name: Callable[[str], str] = token_of) -> dict[str, list[str]]:
    """By the name of its claim: the disposition that each run gave a candidate which has it in its trash."""
    found = defaultdict[str, list[str]](list)
    for path in (insomnia / "memory" / "_trash").glob("*/_staging/*.json"):
        read = json.loads(path.read_bytes())
        manifest = path.parent.parent / "run.json"
        told = json.loads(manifest.read_bytes())["resolutions"] if manifest.exists() else {}
        found[name(read["claim"])].append(told.get(read["id"], {}).get("disposition", "nothing"))
    return found
