"""A context that shrank without a word is found out, and one that shrank with a word is not."""

from __future__ import annotations

import pytest

from bot.occupancy import Fall, Occupancy
from bot.ports import CallEnded, Compacting, CompactionGaveUp, StreamEvent, ToolStarted, Trimmed, Usage
from tests.bot.fakes import CLEARED, EPOCH, called, compacted

TOOL = ToolStarted(EPOCH, "t1", "Read")
NO_USAGE = CallEnded(EPOCH, "m", "<synthetic>", Usage(), "", None)


def turn(occupancy: Occupancy, *events: StreamEvent) -> Fall | None:
    occupancy.begin_turn()
    for event in events:
        occupancy.feed(event)
    return occupancy.end_turn()


@pytest.fixture
def full() -> Occupancy:
    occupancy = Occupancy()
    assert turn(occupancy, called(60_000)) is None
    return occupancy


@pytest.mark.parametrize(
    ("events", "fall"),
    [
        ((called(29_999),), Fall(60_000, 29_999)),
        ((called(30_000),), None),
        ((called(70_000), TOOL, called(8_000)), Fall(70_000, 8_000)),
        ((called(8_000), TOOL, called(70_000)), Fall(60_000, 8_000)),
        ((called(1_000, model="small"),), None),
        ((called(1_000, model="small"), called(2_000)), Fall(60_000, 2_000)),
        ((NO_USAGE,), None),
        ((Compacting(EPOCH), compacted(), called(2_000)), None),
        ((called(90_000), TOOL, compacted(), called(2_000)), None),
        ((Trimmed(EPOCH), called(8_000)), None),
        ((CLEARED, called(2_000)), None),
        ((Compacting(EPOCH), CompactionGaveUp(EPOCH), called(2_000)), None),
        ((), None),
    ],
)
def test_a_fall_by_more_than_half_that_nothing_explains(full: Occupancy, events: tuple[StreamEvent, ...], fall: Fall | None) -> None:
    assert turn(full, *events) == fall


def test_after_microcompaction_the_comparison_begins_at_the_new_size(full: Occupancy) -> None:
    assert turn(full, Trimmed(EPOCH), called(10_000)) is None

    assert turn(full, called(4_000)) == Fall(10_000, 4_000)


def test_a_fall_is_told_once(full: Occupancy) -> None:
    assert turn(full, called(5_000)) is not None

    assert turn(full, called(5_500)) is None


def test_what_a_failed_turn_reported_is_not_believed(full: Occupancy) -> None:
    full.begin_turn()
    full.feed(called(200_000))

    assert turn(full, called(61_000)) is None
    assert full.tokens == 61_000


def test_another_process_is_compared_with_nothing(full: Occupancy) -> None:
    full.begin_anew()

    assert full.tokens == 0
    assert turn(full, called(1_000)) is None


@pytest.mark.parametrize(
    ("events", "stuck"),
    [
        ((Compacting(EPOCH),), True),
        ((Compacting(EPOCH), compacted()), True),
        ((Compacting(EPOCH), compacted(), called()), False),
        ((Compacting(EPOCH), compacted(), TOOL), False),
        ((Compacting(EPOCH), CompactionGaveUp(EPOCH)), False),
        ((called(),), False),
    ],
)
def test_a_turn_is_stuck_in_its_compaction_until_something_comes_after_it(events: tuple[StreamEvent, ...], stuck: bool) -> None:
    occupancy = Occupancy()
    for event in events:
        occupancy.feed(event)

    assert occupancy.compacting is stuck
    occupancy.begin_turn()
    assert not occupancy.compacting
