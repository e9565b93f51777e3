"""What `state.db` does not take now, because the disk is full or refuses, is tried again until it does, or until the bot ends.

What must stay true: nothing that was accepted is let go because of a disk; the trouble is told once each time it begins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.ports import Clock
from bot.state_db import disk_refusal
from telemetry.emit import Emit
from telemetry.events import StateTrouble, StateTroubled

PAUSE_SECONDS = 5.0
T = TypeVar("T")


class GivenUp(Exception):
    """The bot ends before the disk took it; the next one tries again."""


class Patience:
    def __init__(self, *, clock: Clock, emit: Emit) -> None:
        self._clock, self._emit, self._ending = clock, emit, False

    def end(self) -> None:
        """The bot is about to end, and nothing is waited for any more."""
        self._ending = True

    async def insist(self, act: Callable[[], T], *, trouble: StateTrouble, tell: Callable[[], Awaitable[None]] | None = None) -> T:
        """Raises GivenUp; whatever else goes wrong in `act` goes through. `tell`: once, before the first wait."""
        told = False
        while True:
            try:
                return act()
            except Exception as e:
                if not (refusal := disk_refusal(e)):
                    raise
            if not told:
                told = True
                self._emit(StateTroubled(trouble=trouble, error=refusal))
                if tell is not None:
                    await tell()
            if self._ending:
                raise GivenUp
            await self._clock.sleep(PAUSE_SECONDS)
