"""What both ways of delivery share: an event is taken, and the signs that others were missed become a doubt.

What must stay true: `receive` returns only when the event is on disk, and raises what hindered it. Whether an event was
delivered before is decided by what it is about, in the inbox, never by a header or an id; those only raise doubts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bot.ports import Clock
from telemetry.emit import Emit
from telemetry.events import DeliveryGap, GapReason

# Slack tries again at once, after a minute and after five. One that needs the second of these could not be delivered for a
# minute; others, whose tries ended before, may never come.
LATE_ATTEMPT = 2
LIMITED_SECONDS = 60  # Slack holds events back by the minute, and says so for each
TAKEN_REMEMBERED = 5_000  # event ids; more than a busy workspace sends within Slack's five minutes


class Doubt(Protocol):
    def __call__(self, *, until: float) -> None:
        """Events may be missing up to this time, in seconds since the epoch: now, or a little later."""


class Deliveries:
    def __init__(self, take: Callable[[Mapping[str, Any]], None], doubt: Doubt, *, clock: Clock, emit: Emit) -> None:
        self._take, self._doubt, self._clock, self._emit = take, doubt, clock, emit
        self._taken: dict[str, None] = {}

    def receive(self, body: Mapping[str, Any], *, attempt: str) -> None:
        """`body` as Slack sent it; `attempt`: which try of Slack's it is, as a header says it, "0" for the first."""
        match body.get("type"):
            case "event_callback":
                self._event(body, late=attempt.isdecimal() and int(attempt) >= LATE_ATTEMPT)
            case "app_rate_limited":
                self.doubt(GapReason.EVENTS_LIMITED, until=_end_of_minute(body.get("minute_rate_limited")))

    def _event(self, body: Mapping[str, Any], *, late: bool) -> None:
        event_id = str(body.get("event_id") or "")
        try:
            self._take(body)
        except Exception:
            self.doubt(GapReason.NOT_STORED)  # it may be given up before the disk takes it
            raise
        if late and event_id not in self._taken:  # else it is our acknowledgement that was late
            self.doubt(GapReason.LATE_DELIVERY)
        self._taken.pop(event_id, None)
        self._taken[event_id] = None  # the newest stand last
        if len(self._taken) > TAKEN_REMEMBERED:
            del self._taken[next(iter(self._taken))]

    def doubt(self, reason: GapReason, *, until: float = 0.0) -> None:
        self._emit(DeliveryGap(reason=reason))
        now = self._clock.now()
        self._doubt(until=min(max(now, until), now + LIMITED_SECONDS))


def _end_of_minute(minute: object) -> float:
    """0.0 where it does not say which minute."""
    return minute + LIMITED_SECONDS if isinstance(minute, int) else 0.0
