"""Time as the memory workers ask for it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch; may go back."""

    def monotonic(self) -> float: ...
