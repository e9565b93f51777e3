"""A bot answers and ends whatever becomes of its telemetry. How fast: benchmarks/bench_collectors.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.collectors import Kind, story_with
from tests.integration.traces import ROOT

pytestmark = [pytest.mark.cli, pytest.mark.slack]

UNWELL = (Kind.DEAD, Kind.HANGING, Kind.FLAPPING)
COMPLAINT = "insomnia: telemetry: "
SAID_ONCE = 12  # lines at most: each kind of trouble of three signals once


@pytest.mark.parametrize("kind", Kind)
async def test_c086_replies_are_answered_and_the_bot_ends_with_each_kind_of_collector(kind: Kind, tmp_path: Path) -> None:
    async with story_with(kind, tmp_path) as told:
        vault = told.old_thread("The vault code is walnut-4711.")
        await told.start()

        answers = [await told.ask(vault, f"What is the vault code? ({number})") for number in range(5)]
        await told.stop()  # bounded by a limit of the story's own, and 0 is its exit code

        assert [answer.outcome for answer in answers] == ["answered"] * 5
        assert [answer.decided[0] for answer in answers] == ["refetched"] + ["known"] * 4
        arrived = {span["trace_id"] for span in told.collector.spans if span["name"] == ROOT}
        assert arrived <= {answer.trace_id for answer in answers}
        assert kind is not Kind.GOOD or len(arrived) == len(answers)
        complaints = told.errors.splitlines()
        assert all(line.startswith(COMPLAINT) for line in complaints) and len(complaints) <= SAID_ONCE
        assert bool(complaints) == (kind in UNWELL), told.errors
