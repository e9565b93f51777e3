"""Slack's time, whatever somebody does to this machine's clock."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from bot.slack_time import SlackTime, seconds_since_boot
from tests.bot.fakes import EPOCH, FakeClock


class Boot:
    seconds = 500.0

    def __call__(self) -> float:
        return self.seconds


def test_until_slack_has_told_it_is_the_machines() -> None:
    assert SlackTime(FakeClock(), elapsed=Boot()).now() == EPOCH


@pytest.mark.parametrize("hours", [-48, -3, 3, 48])
def test_afterwards_a_clock_that_is_set_changes_nothing(hours: int) -> None:
    clock, boot = FakeClock(), Boot()
    time = SlackTime(clock, elapsed=boot)
    time.told(formatdate(EPOCH + 100, usegmt=True))
    clock.elapsed += hours * 3_600
    boot.seconds += 60

    assert time.now() == EPOCH + 161, "never early: the header tells whole seconds"


def test_each_answer_tells_it_anew() -> None:
    boot = Boot()
    time = SlackTime(FakeClock(), elapsed=boot)
    time.told(formatdate(EPOCH, usegmt=True))
    time.told(formatdate(EPOCH + 7_200, usegmt=True))

    assert time.now() == EPOCH + 7_201


@pytest.mark.parametrize("date", ["", "soon", "99:99", "Tue, 99 Dec 2026"])
def test_what_is_no_date_tells_nothing(date: str) -> None:
    time = SlackTime(FakeClock(), elapsed=Boot())
    time.told(date)

    assert time.now() == EPOCH


async def test_it_waits_as_its_clock_does() -> None:
    clock = FakeClock()
    time = SlackTime(clock)

    await clock.run(time.sleep(5))

    assert time.monotonic() == 5 and seconds_since_boot() > 0
