"""When extract is due, and which skips are told."""

from __future__ import annotations

import pytest

from memory.triggers import Backlog, Skips, due
from telemetry.memory_events import MemoryReason, MemoryTrigger

T, R = MemoryTrigger, MemoryReason


@pytest.mark.parametrize(
    ("backlog", "idle", "expected"),
    [
        (Backlog(), 9_999, None),
        (Backlog(turns=19, tokens=7_999, entries=40), 599, None),
        (Backlog(turns=20, tokens=10, entries=40), 0, T.TURN_THRESHOLD),
        (Backlog(turns=1, tokens=8_000, entries=2), 0, T.TOKEN_THRESHOLD),
        (Backlog(turns=1, tokens=5, entries=1), 600, T.IDLE),
        (Backlog(turns=30, tokens=9_000, entries=60), 900, T.TURN_THRESHOLD),
    ],
)
def test_what_asks_for_a_run(backlog: Backlog, idle: float, expected: MemoryTrigger | None) -> None:
    assert due(backlog, idle_seconds=idle) is expected


def test_the_same_skip_is_told_once_an_hour_with_how_many_were_not() -> None:
    skips = Skips()

    told = [skips.tell(T.IDLE, R.BACKOFF, "s1", now=minute * 60.0) for minute in range(121)]

    assert [(minute, n) for minute, n in enumerate(told) if n is not None] == [(0, 0), (60, 59), (120, 59)]


def test_another_reason_session_or_trigger_is_another_skip() -> None:
    skips = Skips()
    skips.tell(T.IDLE, R.BACKOFF, "s1", now=0.0)

    others = [(T.IDLE, R.DISABLED, "s1"), (T.IDLE, R.BACKOFF, "s2"), (T.SESSION_END, R.BACKOFF, "s1")]

    assert [skips.tell(*other, now=1.0) for other in others] == [0, 0, 0]


def test_what_a_person_asked_for_is_always_told() -> None:
    skips = Skips()

    assert [skips.tell(T.MANUAL, R.NO_NEW_SESSION_RANGE, "s1", now=0.0) for _ in range(3)] == [0, 0, 0]
