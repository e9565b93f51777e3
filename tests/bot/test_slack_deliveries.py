"""Which signs make delivery doubtful, and that an event is taken whatever its headers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from bot.slack_deliveries import LIMITED_SECONDS, TAKEN_REMEMBERED, Deliveries
from telemetry.emit import Emit
from telemetry.events import DeliveryGap, Fact, GapReason
from tests.bot.fakes import EPOCH, FakeClock


class Case:
    def __init__(self) -> None:
        self.clock, self.taken, self.doubts, self.facts = FakeClock(), list[Mapping[str, Any]](), list[float](), list[Fact]()
        self.broken: Exception | None = None
        self.deliveries = Deliveries(self._take, self._doubt, clock=self.clock, emit=cast(Emit, self.facts.append))

    def _take(self, body: Mapping[str, Any]) -> None:
        if self.broken:
            raise self.broken
        self.taken.append(body)

    def _doubt(self, *, until: float) -> None:
        self.doubts.append(until)

    def event(self, event_id: str = "Ev1", *, attempt: str = "0") -> None:
        self.deliveries.receive({"type": "event_callback", "event_id": event_id}, attempt=attempt)

    @property
    def gaps(self) -> list[GapReason]:
        return [fact.reason for fact in self.facts if isinstance(fact, DeliveryGap)]


@pytest.mark.parametrize(
    ("attempt", "late"), [("0", False), ("1", False), ("2", True), ("3", True), ("", False), ("many", False), ("²", False)]
)
def test_an_event_that_first_comes_at_a_later_try_is_taken_and_a_gap(attempt: str, late: bool) -> None:
    case = Case()

    case.event(attempt=attempt)

    assert (len(case.taken), case.gaps, case.doubts) == (1, [GapReason.LATE_DELIVERY] * late, [EPOCH] * late)


def test_a_later_try_of_what_was_taken_already_is_no_gap() -> None:
    case = Case()

    case.event()
    case.event(attempt="3")

    assert (len(case.taken), case.gaps) == (2, [])


def test_what_could_not_be_stored_was_not_taken() -> None:
    case = Case()
    case.broken = OSError("full")
    for attempt in ("0", "1"):
        with pytest.raises(OSError, match="full"):
            case.event(attempt=attempt)
    case.broken = None

    case.event(attempt="2")

    assert (len(case.taken), case.gaps) == (1, [GapReason.NOT_STORED, GapReason.NOT_STORED, GapReason.LATE_DELIVERY])


def test_ids_do_not_pile_up_and_the_newest_are_kept() -> None:
    case = Case()
    for number in range(TAKEN_REMEMBERED + 1):
        case.event(f"Ev{number}")

    case.event(f"Ev{TAKEN_REMEMBERED}", attempt="2")
    assert case.gaps == []
    case.event("Ev0", attempt="2")

    assert case.gaps == [GapReason.LATE_DELIVERY] and len(case.deliveries._taken) == TAKEN_REMEMBERED


@pytest.mark.parametrize(
    ("minute", "until"),
    [
        (int(EPOCH) - 20, EPOCH + 40),
        (int(EPOCH) - 3_600, EPOCH),  # long over
        (10**30, EPOCH + LIMITED_SECONDS),  # nobody is doubted for ever
        (None, EPOCH),
        ("soon", EPOCH),
    ],
)
def test_too_many_events_are_a_gap_until_that_minute_is_over(minute: object, until: float) -> None:
    case = Case()

    case.deliveries.receive({"type": "app_rate_limited", "minute_rate_limited": minute}, attempt="0")

    assert (case.taken, case.gaps, case.doubts) == ([], [GapReason.EVENTS_LIMITED], [until])


def test_what_is_no_event_is_not_taken() -> None:
    case = Case()

    case.deliveries.receive({"type": "block_actions"}, attempt="0")
    case.deliveries.receive({}, attempt="0")

    assert (case.taken, case.gaps) == ([], [])
