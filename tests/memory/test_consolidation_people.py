"""People who work on the files while a run goes on: what they write stays as they wrote it, and nothing is lost by it."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory.disk import NotOurs
from memory.lint_rules import Rule
from telemetry.memory_events import MemoryReason, MemoryRunEnded, RecordOperation, StoreDiscarded
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Bench, Hand, candidate, stage, writes_all
from tests.memory.consolidation_history import History, NoEnd, records
from tests.memory.dying_store import Image, SteppedAfter, Watched
from tests.memory.people import Deed, committed, does_something

OUTSIDE_OF_COMMITS = 20  # lives in which somebody acts while nothing is committed


@dataclass
class Somebody:
    """Acts once, before a step."""

    history: History
    at: int
    chance: random.Random
    deed: Deed | None = None
    during_commit: bool = False
    ends: int = 0

    def watch(self, step: int) -> None:
        if step == self.at:
            self.during_commit = bool(committed(self.history.insomnia))
            self.deed = does_something(self.history, self.chance, self.history.insomnia / "outside")
            self.ends = len(self.history.ends)

    def faults(self) -> list[str]:
        """What they left is there when the run that was committing ends, and later there or in the trash of a run that had seen it."""
        if self.deed is None:
            return []
        path, content = self.deed.path, self.deed.content
        ends, now = list(self.history.ends.items())[self.ends :], records(self.history.insomnia)
        there = ends[0][1].after.get(path) if self.during_commit else content
        kept = [text for run_id, _ in ends[self.during_commit :] for text in trash(self.history.insomnia, run_id)]
        faults = [] if there == content else [f"{path} is not what they left"]
        lost = content is not None and now.get(path) != content and content not in kept
        return faults + ([f"{path} is nowhere"] if lost else [])


def trash(insomnia: Path, run_id: str) -> list[bytes]:
    return [path.read_bytes() for path in (insomnia / "memory" / "_trash" / run_id).glob("*/*.md")]


@pytest.mark.sweep
def test_what_somebody_does_between_any_two_steps_is_theirs_and_costs_nothing(ram: Path) -> None:
    """At every second step of every commit, and at some of the others."""
    whole, commits = History(ram / "whole"), list[int]()
    assert whole.live(Watched(lambda step: commits.append(step) if committed(whole.insomnia) else None))
    chance, found, conflicts = random.Random(8), {}, 0
    for step in sorted({*commits[::2], *chance.sample(range(1, commits[-1]), OUTSIDE_OF_COMMITS)}):
        history = History(ram / str(step))
        somebody = Somebody(history, step, chance)

        assert history.live(Watched(somebody.watch))

        conflicts += any(isinstance(fact, RecordOperation) and fact.lint == (Rule.STALE,) for fact in history.told)
        found |= {step: faults} if (faults := somebody.faults() + history.faults(drained=True)) else {}
    assert len(commits) > 150 and conflicts > 10
    assert found == {}


# -- folders that lead elsewhere -----------------------------------------------------------------------------------------
FOLDERS = ("memory", "memory/decision", "memory/_staging", "memory/_state", "memory/_trash")


class Leading:
    """Puts a link in place of a folder after a step; what lies behind it looks the same."""

    def __init__(self, insomnia: Path, folder: str, at: int) -> None:
        self.folder, self.at = insomnia / folder, at
        self.away, self.behind = insomnia.with_name(f"{insomnia.name}-away"), insomnia.with_name(f"{insomnia.name}-behind")
        self.image: Image | None = None

    def watch(self, step: int) -> None:
        if step == self.at and self.folder.is_dir():
            shutil.copytree(self.folder, self.behind)
            self.folder.rename(self.away)
            self.folder.symlink_to(self.behind)
            self.image = Image.of(self.behind)

    def mend(self) -> None:
        self.folder.unlink()
        self.away.rename(self.folder)
        shutil.rmtree(self.behind)


@pytest.mark.sweep
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_becomes_a_link_during_a_run_is_not_followed_and_the_run_says_so(folder: str, ram: Path) -> None:
    """After every ninth step; once the folder is back nothing is lost, half done or told twice."""
    found, said = {}, 0
    for step in range(4 + FOLDERS.index(folder), 300, 9):
        history = History(ram / folder / str(step), phases=2, patience=3, by_hand=True)
        leading = Leading(history.insomnia, folder, step)
        steps = Watched(leading.watch)

        with suppress(NoEnd, NotOurs):
            history.live(steps, on=SteppedAfter(steps))
        if leading.image is None:
            continue

        faults = [] if Image.of(leading.behind) == leading.image else [f"something was written behind {folder}"]
        failed = [end.fact for end in history.ends.values() if end.fact.reason is MemoryReason.IO_ERROR]
        said += bool(failed)
        faults += [f"failed without a clear reason: {end.detail}" for end in failed if f"{folder} in .insomnia" not in end.detail]
        leading.mend()
        history.patience = 20
        assert history.live()
        found |= {step: all_} if (all_ := faults + history.faults(drained=True)) else {}
    assert said > 2
    assert found == {}


@pytest.mark.parametrize("folder", ["memory/decision", "memory/_trash", "memory/_staging"])
def test_a_folder_that_is_a_link_before_the_commit_fails_the_run_which_says_which(folder: str, tmp_path: Path) -> None:
    insomnia, emit = tmp_path / "insomnia", RecordingEmit()
    bench = Bench(insomnia, emit=emit)
    stage(insomnia, candidate("The first."))
    bench.ran()
    stage(insomnia, candidate("The second."), start=5)
    leading = Leading(insomnia, folder, 1)

    async def leads(hand: Hand) -> None:
        await writes_all(hand)
        leading.watch(1)

    bench.model.rules = [leads, writes_all]
    failed = bench.ran()

    assert failed.reason is MemoryReason.IO_ERROR and f"{folder} in .insomnia" in failed.detail
    assert emit.of(MemoryRunEnded)[-1].run_id == failed.run_id == emit.of(StoreDiscarded)[-1].run_id
    assert Image.of(leading.behind) == leading.image and committed(insomnia) == []
    leading.mend()
    assert bench.ran().reason is MemoryReason.RECORDS_UPDATED and bench.bodies() == ["The first.", "The second."]
