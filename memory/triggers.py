"""When a worker is due, and which skips are worth a line. Pure: whoever acts brings the numbers and the time.

What must stay true: a check that does not fire is no event; what a person asked for always is one; the same skip again and
again is told once an hour, with how many went untold.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from telemetry.memory_events import MemoryReason, MemoryTrigger

# Asked for by a person or by an event in a session's life, not found by a check that comes again and again.
EXPLICIT = frozenset({MemoryTrigger.MANUAL})
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Unread since the cursor. `turns`: messages of people. `tokens`: estimated; both stop counting a little above one range."""

    turns: int = 0
    tokens: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    turns: int = 20
    tokens: int = 8_000  # below what one range takes, so that one run reads it all
    idle_seconds: float = 600.0


def due(backlog: Backlog, *, idle_seconds: float, thresholds: Thresholds = Thresholds()) -> MemoryTrigger | None:
    """What asks for an extract run now, if anything. `idle_seconds`: since the last entry."""
    if backlog.turns >= thresholds.turns:
        return MemoryTrigger.TURN_THRESHOLD
    if backlog.tokens >= thresholds.tokens:
        return MemoryTrigger.TOKEN_THRESHOLD
    if backlog.entries and idle_seconds >= thresholds.idle_seconds:
        return MemoryTrigger.IDLE
    return None


class Skips:
    """Which skips were told lately. `tell` says whether to tell this one, and how many like it were not: None is no."""

    def __init__(self, *, quiet_seconds: float = 3_600.0) -> None:
        self._quiet = quiet_seconds
        self._told: dict[Hashable, tuple[float, int]] = {}

    def tell(self, trigger: MemoryTrigger, reason: MemoryReason, about: Hashable, *, now: float) -> int | None:
        """`now` in seconds of a clock that is never set back. `about`: what else must be the same, a session for instance."""
        if trigger in EXPLICIT:
            return 0
        key = trigger, reason, about
        at, untold = self._told.get(key, (now - self._quiet, 0))
        if now - at < self._quiet:
            self._told[key] = at, untold + 1
            return None
        self._told.pop(key, None)
        if len(self._told) >= MAX_REMEMBERED:
            self._told.pop(next(iter(self._told)))
        self._told[key] = now, 0
        return untold
