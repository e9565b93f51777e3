from __future__ import annotations

from typing import Any

import pytest

from bot.local.slack_faults import FaultKind, Faults, SocketScript
from bot.local.slack_records import Clock

NOW = 1_700_000_000.0


class NoSockets:
    """Nobody is connected."""

    def cut(self) -> None:
        pass

    def goodbye(self, reason: str) -> None:
        pass

    def deafen(self) -> None:
        pass

    def tell_limited(self, at: float) -> None:
        pass

    def wake(self) -> None:
        pass


def faults(clock: Clock = lambda: NOW) -> Faults:
    return Faults(SocketScript(), sockets=NoSockets(), clock=clock)


def taken(there: Faults, method: str = "auth.test", **args: Any) -> FaultKind | None:
    fault = there.take(method, args)
    return fault.kind if fault else None


def test_a_fault_is_used_up_by_as_many_calls_as_it_says() -> None:
    there = faults()
    there.add("auth.test", "error", times=2)

    assert [taken(there), taken(there, "users.info"), taken(there), taken(there)] == [FaultKind.ERROR, None, FaultKind.ERROR, None]


def test_without_a_count_a_fault_stays_until_all_are_cleared() -> None:
    there = faults()
    there.add("*", "http_502", times=None)

    assert [taken(there), taken(there, "users.info")] == [FaultKind.HTTP_502] * 2
    there.clear()
    assert taken(there) is None


def test_faults_of_one_method_come_in_the_order_in_which_they_were_added() -> None:
    there = faults()
    there.add("auth.test", "ratelimited")
    there.add("auth.test", "missing_scope")

    assert [taken(there), taken(there), taken(there)] == [FaultKind.RATELIMITED, FaultKind.MISSING_SCOPE, None]


def test_a_fault_can_wait_for_the_second_page_and_for_one_channel() -> None:
    there = faults()
    there.add("conversations.replies", "ratelimited", after=1, where={"channel": "C1"})

    calls = [taken(there, "conversations.replies", channel=c) for c in ("C2", "C1", "C2", "C1", "C1")]

    assert calls == [None, None, None, FaultKind.RATELIMITED, None]


def test_the_smallest_page_size_holds_and_is_no_fault_of_a_call() -> None:
    there = faults()
    there.add("conversations.replies", "page_size", size=15)
    there.add("*", "page_size", size=50)

    sizes = [there.page_size(m, {}, 200) for m in ("conversations.replies", "users.list", "conversations.replies")]

    assert sizes == [15, 50, 15]
    assert taken(there, "conversations.replies") is None


def test_a_fault_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError):
        faults().add("auth.test", "earthquake")
    with pytest.raises(TypeError):
        faults().add("auth.test", "slow", minutes=1)


def test_clearing_also_mends_the_sockets() -> None:
    there = faults()
    there.socket_down()
    there.withhold()
    there.script.answers_pings, there.script.mention_first, there.root_on_every_page = False, "message", True

    there.clear()

    assert there.script == SocketScript() and not there.root_on_every_page


def test_an_app_that_is_sold_reads_one_page_a_minute() -> None:
    now = NOW
    there = faults(lambda: now)
    there.add("conversations.replies", "distributed")

    first, second = there.take("conversations.replies", {}), there.take("conversations.replies", {})
    other = there.take("chat.postMessage", {})
    now += 59.5
    third = there.take("conversations.replies", {})
    now += 0.5

    assert (first, other, there.take("conversations.replies", {})) == (None, None, None)
    assert second is not None and (second.kind, second.retry_after) == (FaultKind.RATELIMITED, 60)
    assert third is not None and third.retry_after == 1
    assert there.page_size("conversations.replies", {}, 1000) == 15
