"""What answers cost, by day and route, held against what they may cost. Fed by the facts of the money that was spent.

What must stay true: what was spent outlives the process and a lost `state.db`, so it stands in a file of its own; a day is a
date of the bot's zone, and each has its own sum, so that a clock that is set forward or back finds the right one again; a
disk that refuses the file loses nothing as long as the process lives.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from bot.ports import Clock
from telemetry.events import BudgetSpent, Fact, MoneySpent

VERSION = 1
KEPT_DAYS = 62  # of which money was spent: by their number and not by their age, whatever a clock says
CENT_PARTS = 9  # digits of a dollar; the rest is what adding up floats leaves
EVERYTHING = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """A limit that was reached. `until`: the next midnight, in seconds since the epoch."""

    limit_usd: float
    until: float


class Budgets:
    """`limits`: USD a day by route, 0 for none; `overall`: of everything together. `told` gets the fact that a limit was reached."""

    def __init__(self, path: Path, *, clock: Clock, tz: tzinfo, limits: Mapping[str, float], overall: float = 0.0) -> None:
        self._path, self._clock, self._tz = path, clock, tz
        self._limits = {**{route: usd for route, usd in limits.items() if usd}, **({EVERYTHING: overall} if overall else {})}
        self._says_failed = False
        self._days = self._read()
        self.told: Callable[[BudgetSpent], None] = lambda fact: None

    def hear(self, fact: Fact) -> None:
        """A listener of facts."""
        if isinstance(fact, MoneySpent) and fact.usd > 0:
            self._spend(fact.route, fact.usd)

    def spent_up(self, route: str) -> Spent | None:
        """None: another answer may be made. What is being made meanwhile is not known yet, so a limit is reached, not kept to."""
        for scope in (route, EVERYTHING):
            limit = self._limits.get(scope)
            if limit is not None and self.today(scope) >= limit:
                return Spent(limit, self._midnight())
        return None

    def today(self, scope: str = EVERYTHING) -> float:
        """USD spent today by a route, or by everything."""
        by_route = self._days.get(self._day(), {})
        return round(sum(by_route.values()) if scope == EVERYTHING else by_route.get(scope, 0.0), CENT_PARTS)

    def _spend(self, route: str, usd: float) -> None:
        before = {scope: self.today(scope) for scope in (route, EVERYTHING)}
        by_route = self._days.pop(day := self._day(), {})
        self._days[day] = {**by_route, route: by_route.get(route, 0.0) + usd}  # the day that was spent on last stands last
        while len(self._days) > KEPT_DAYS:
            del self._days[next(iter(self._days))]
        self._write()
        for scope, was in before.items():
            limit = self._limits.get(scope)
            if limit is not None and was < limit <= (now := self.today(scope)):
                self.told(BudgetSpent(route=scope, usd=now, limit_usd=limit))

    # -- days ----------------------------------------------------------------------------------------------------------
    def _local(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), self._tz)

    def _day(self) -> str:
        return self._local().date().isoformat()

    def _midnight(self) -> float:
        tomorrow = self._local().date() + timedelta(days=1)
        return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=self._tz).timestamp()

    # -- the file ------------------------------------------------------------------------------------------------------
    def _read(self) -> dict[str, dict[str, float]]:
        try:
            return _days_in(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as e:
            print(
                f"insomnia: {self._path} cannot be read ({type(e).__name__}); what was spent before counts for no budget", file=sys.stderr
            )
            return {}

    def _write(self) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump({"v": VERSION, "days": self._days}, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            self._says_failed = False
        except OSError as e:
            if not self._says_failed:
                print(f"insomnia: {self._path} cannot be written ({e.strerror}); budgets are counted in memory", file=sys.stderr)
            self._says_failed = True


def _days_in(told: Any) -> dict[str, dict[str, float]]:
    """Raises ValueError and its like for anything that this version did not write."""
    if told["v"] != VERSION:
        raise ValueError("another version")
    return {str(day): {str(route): max(0.0, float(usd)) for route, usd in by_route.items()} for day, by_route in told["days"].items()}
