"""A full disk before the commit of a consolidation fails the run and changes nothing; after it the next run finishes what was begun."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from memory.consolidation.journal import Journals
from telemetry.memory_events import MemoryReason, MemoryStatus
from tests.memory.consolidation_history import History, NoEnd
from tests.memory.dying_store import Full, FullDisk


@pytest.mark.sweep
@pytest.mark.parametrize("late", [False, True])
def test_a_disk_that_is_full_from_any_step_on_loses_nothing_and_gives_each_run_one_end(late: bool, ram: Path) -> None:
    found, outcomes = {}, list[tuple[bool, bool]]()
    for step in range(1, 600):
        history = History(ram / f"{late} {step}", phases=2, patience=1)
        history.model.failed = True  # for once its only trouble is the disk
        steps = Full(step, late=late)
        with suppress(NoEnd):
            history.live(steps, on=FullDisk(steps))
        if not steps.full:
            break

        committed = Journals(history.insomnia / "memory", disk=FullDisk(Full())).unfinished() is not None
        failed = [end.fact.reason for end in history.ends.values() if end.fact.status is not MemoryStatus.COMPLETED]
        faults = [f"failed as {failed}"] if {*failed} - {MemoryReason.DISK_FULL} else []
        outcomes.append((committed, bool(failed)))
        history.phases, history.patience = history.staged, 20
        assert history.live()
        found |= {step: all_} if (all_ := faults + history.faults(drained=True)) else {}

    assert outcomes.count((True, False)) > 15 and outcomes.count((False, True)) > 5 and (True, True) not in outcomes
    assert found == {}
