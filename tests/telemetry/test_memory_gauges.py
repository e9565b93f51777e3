"""How the memory stands: counts as they were said last, ages that go on growing, and no claim before the first count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from telemetry import metric_names
from telemetry.memory_events import MemoryWorker, RecordKind
from telemetry.memory_gauges import MemoryGauges
from telemetry.metric_kinds import Metric
from telemetry.metric_names import MEMORY_BACKLOG_AGE, MEMORY_GAUGES, MEMORY_LAST_SUCCESS_AGE
from tests.telemetry.conftest import Recorded
from tests.telemetry.memory_facts import COUNTED, SUCCEEDED_AT

EXTRACT, CONSOLIDATION = {"worker": "memory_extract"}, {"worker": "memory_consolidation"}


class Clocks:
    """Of a machine: one that only goes forward, and one that people set."""

    def __init__(self) -> None:
        self.monotonic, self.wall = 50.0, SUCCEEDED_AT + 30.0
        self.gauges = MemoryGauges(monotonic=lambda: self.monotonic, now=lambda: self.wall)

    def pass_by(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    def read(self, metric: Metric) -> list[tuple[Mapping[str, str], float]]:
        return self.gauges.values(metric)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_before_the_first_count_nothing_is_claimed(recorded: Recorded) -> None:
    names = {metric.name for metric in MEMORY_GAUGES}

    assert [point for point in recorded.points() if point["name"] in names] == []


def test_counts_are_those_that_were_said_last(recorded: Recorded) -> None:
    recorded.emit(COUNTED)
    recorded.emit(replace(COUNTED, backlog=4, unextracted=9, records={RecordKind.LESSON: 2}))

    assert recorded.value("insomnia.memory.backlog") == 4
    assert recorded.value("insomnia.memory.unextracted_entries") == 9
    assert recorded.nonzero("insomnia.memory.records") == [({"kind": "lesson"}, 2)]
    kinds = {point["attributes"]["kind"] for point in recorded.points() if point["name"] == "insomnia.memory.records"}
    assert kinds == set(RecordKind), "a kind that has no records any more says so"


def test_the_age_of_the_backlog_grows_until_the_next_count(clocks: Clocks) -> None:
    clocks.gauges.counted(COUNTED)
    at_once = clocks.read(MEMORY_BACKLOG_AGE)
    clocks.pass_by(7.0)
    later = clocks.read(MEMORY_BACKLOG_AGE)
    clocks.gauges.counted(replace(COUNTED, oldest_seconds=1.0))

    assert (at_once, later, clocks.read(MEMORY_BACKLOG_AGE)) == ([({}, 3_600.0)], [({}, 3_607.0)], [({}, 1.0)])


def test_where_nothing_waits_nothing_ages(clocks: Clocks) -> None:
    clocks.gauges.counted(replace(COUNTED, backlog=0, oldest_seconds=0.0))
    clocks.pass_by(7.0)

    assert clocks.read(MEMORY_BACKLOG_AGE) == [({}, 0.0)]


def test_since_its_last_success_each_worker_ages_by_itself_and_one_that_never_had_any_has_no_series(clocks: Clocks) -> None:
    clocks.gauges.counted(COUNTED)
    clocks.pass_by(7.0)
    alone = clocks.read(MEMORY_LAST_SUCCESS_AGE)
    clocks.gauges.counted(replace(COUNTED, last_success={**COUNTED.last_success, MemoryWorker.EXTRACT: SUCCEEDED_AT + 36.0}))
    clocks.pass_by(1.0)

    assert alone == [(CONSOLIDATION, 37.0)]
    assert sorted(clocks.read(MEMORY_LAST_SUCCESS_AGE), key=str) == [(CONSOLIDATION, 38.0), (EXTRACT, 2.0)]


def test_a_clock_that_was_set_back_before_the_count_gives_nought_and_not_less(clocks: Clocks) -> None:
    clocks.wall = 10.0

    clocks.gauges.counted(replace(COUNTED, oldest_seconds=-86_400.0))

    assert (clocks.read(MEMORY_BACKLOG_AGE), clocks.read(MEMORY_LAST_SUCCESS_AGE)) == ([({}, 0.0)], [(CONSOLIDATION, 0.0)])


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_is_set_after_the_count_moves_no_age(clocks: Clocks, jump: float) -> None:
    clocks.gauges.counted(COUNTED)
    clocks.wall += jump
    clocks.pass_by(2.0)

    assert clocks.read(MEMORY_BACKLOG_AGE) == [({}, 3_602.0)]
    assert clocks.read(MEMORY_LAST_SUCCESS_AGE) == [(CONSOLIDATION, 32.0)]


def test_an_export_reads_each_gauge_under_its_name_and_with_its_labels(recorded: Recorded) -> None:
    recorded.emit(COUNTED)

    labels = {point["name"]: set(point["attributes"]) for point in recorded.points()}
    assert {metric.name: labels[metric.name] for metric in MEMORY_GAUGES} == {
        "insomnia.memory.backlog": set(),
        "insomnia.memory.backlog.age": set(),
        "insomnia.memory.records": {"kind"},
        "insomnia.memory.last_success_age": {"worker"},
        "insomnia.memory.unextracted_entries": set(),
    }


def test_a_metric_that_is_no_gauge_of_the_memory_is_not_read_as_one(clocks: Clocks) -> None:
    clocks.gauges.counted(COUNTED)

    with pytest.raises(KeyError):
        clocks.read(metric_names.LANE_DEPTH)
