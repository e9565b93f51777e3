"""The embedded model keeps a memory through the real CLI: what its rules decide arrives, call by call, and the run ends by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.claude_consolidation import MAX_CALLS, ClaudeConsolidationModel
from bot.local.model import EmbeddedModel
from memory.consolidation.consolidator import Consolidator
from memory.consolidation.outcome import Result
from memory.records import Status
from memory.store import Store
from telemetry.memory_events import Disposition, MemoryTrigger
from tests.bot.cli_workers import WorkerGround
from tests.bot.local.consolidating_embedded import MOST_REQUESTS
from tests.memory.consolidating import Clock, candidate, stage

pytestmark = pytest.mark.cli
D = Disposition


class Ground(WorkerGround):
    async def run(self) -> Result:
        asking = ClaudeConsolidationModel(self.worker, model="claude-opus-5-5")
        consolidator = Consolidator(self.folder, model=asking, emit=self.emit, clock=Clock())
        return await consolidator.run(MemoryTrigger.MANUAL)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with EmbeddedModel(control_token="made-up-token") as model:
        made = Ground(tmp_path / "state", model)
        made.folder.mkdir()
        yield made


def test_the_bot_allows_as_many_requests_as_the_tests_of_the_rules_count_on() -> None:
    assert MAX_CALLS == MOST_REQUESTS


async def test_two_wordings_and_a_change_leave_one_record_that_holds(ground: Ground) -> None:
    """C073."""
    first, again, later = (
        "The deploy freeze starts on Friday at 15:00.",
        "デプロイ凍結は金曜日の15時に始まります。",
        "The deploy freeze starts on Thursday at 17:00.",
    )
    stage(ground.folder, candidate(first), candidate(f"Please note: {first}", n=2), candidate(again, n=3))
    told = await ground.run()
    stage(ground.folder, candidate(later), candidate(again, n=2), start=5)
    changed = await ground.run()

    records = {each.body: each for each in Store(ground.folder).view().records()}
    assert told.work.dispositions == {D.APPLIED: 2, D.ALREADY_COVERED: 1}
    assert changed.work.dispositions == {D.APPLIED: 1, D.DUPLICATE: 1} and (told.detail, changed.detail) == ("", "")
    assert [each.status for each in (records[first], records[again], records[later])] == [Status.REPLACED, Status.ACTIVE, Status.ACTIVE]
    assert records[first].replaced_by == records[later].slug and len(records) == 3


async def test_a_whole_snapshot_is_settled_in_one_run(ground: Ground) -> None:
    claims = [f"Room {n} of building {n} belongs to team-{n}." for n in range(40)]
    stage(ground.folder, *(candidate(claim, n=n) for n, claim in enumerate(claims, 1)))

    told = await ground.run()

    assert told.work.dispositions == {D.APPLIED: 12, D.DEFERRED: 28} and told.detail == ""
