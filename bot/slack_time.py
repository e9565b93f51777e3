"""What time it is for Slack: as its last answer said, carried on by a clock that nobody sets.

What must stay true: a machine whose clock is set forward or back by hours neither refuses what Slack has signed just now, nor
takes an old doubt for a new one. Only where Slack has told no time yet is the machine's own clock believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from bot.ports import Clock


def seconds_since_boot() -> float:
    """Runs on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SlackTime:
    """A `Clock`."""

    def __init__(self, clock: Clock, *, elapsed: Callable[[], float] = seconds_since_boot) -> None:
        self._clock, self._elapsed = clock, elapsed
        self._ahead: float | None = None  # of `elapsed`

    def told(self, date: str) -> None:
        """`date`: as in the header of an answer. It tells whole seconds; a doubt may be noted late, never early."""
        try:
            self._ahead = parsedate_to_datetime(date).timestamp() + 1.0 - self._elapsed()
        except (ValueError, TypeError):
            return  # none, or not in words that we know

    def now(self) -> float:
        return self._clock.now() if self._ahead is None else self._ahead + self._elapsed()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
