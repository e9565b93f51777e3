"""A clock that leaps deletes nothing; days that are borne out do."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.retention import present_day

TODAY = date(2026, 3, 2)


def ago(*days: int) -> list[date]:
    return [TODAY - timedelta(days=day) for day in days]


@pytest.mark.parametrize(
    ("recorded", "present"),
    [
        ([], 0),
        ([0], 0),
        ([0, 1, 2, 3], 0),
        ([1, 2, 3], 0),
        ([0, 1, 2, 300], 0),  # three days in a row after a long rest
        ([0, 300], 300),  # or the clock is wrong
        ([0, 1, 300, 301, 302], 300),
        ([0, 7, 14, 21], 7),  # a bot that works on Mondays
        ([0, 1, 2, -3_650], 0),  # one from the future
        ([-3_650], 0),
        ([40, 41, 42], 39),  # nothing since: not newer than a day after the newest
    ],
    ids=str,
)
def test_the_day_is_the_newest_that_is_borne_out(recorded: list[int], present: int) -> None:
    assert present_day(ago(*recorded), TODAY) == ago(present)[0]


@given(days=st.sets(st.integers(0, 400), min_size=1), leap=st.integers(30, 4_000))
def test_one_leap_of_the_clock_moves_nothing(days: set[int], leap: int) -> None:
    before, leapt = ago(*days), TODAY + timedelta(days=leap)

    assert present_day([*before, leapt], leapt) <= TODAY
