"""Scripted faults of the Web API and of the sockets, for tests and for the demonstration of what happens then.

A fault meets the calls of its method in the order in which it was added; `times` counts down, None stays until `clear`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

from bot.local.slack_records import Clock

EventKind = Literal["message", "app_mention"]


class FaultKind(StrEnum):
    RATELIMITED = "ratelimited"  # HTTP 429 with Retry-After: retry_after
    RATELIMITED_200 = "ratelimited_200"  # HTTP 200, ok false, ratelimited
    HTTP_500 = "http_500"
    HTTP_502 = "http_502"
    SLOW = "slow"  # answers after `seconds`
    ERROR = "error"  # ok false with `code` (and `needed`)
    MISSING_SCOPE = "missing_scope"  # with `needed` (default: what the method needs) and the granted ones
    PAGE_SIZE = "page_size"  # no page holds more than `size`; stays
    THREAD_GONE = "thread_gone"  # reads: thread_not_found; posts: at the channel's root
    DISTRIBUTED = "distributed"  # one page of `size`, then 429 for the rest of a minute: as apps that are sold are treated; stays
    LOST = "lost"  # carried out, but the connection is cut before the answer


STAYS = frozenset({FaultKind.PAGE_SIZE, FaultKind.DISTRIBUTED})
MINUTE_SECONDS = 60


@dataclass(slots=True, kw_only=True)
class Fault:
    """`after` lets that many matching calls pass first; `where` limits it to calls with these arguments."""

    method: str
    kind: FaultKind
    times: int | None = 1
    after: int = 0
    where: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 1.0
    retry_after: int = 1
    code: str = "internal_error"
    needed: str = ""
    size: int = 15  # what Slack gives to commercially distributed apps

    def meets(self, method: str, args: Mapping[str, Any]) -> bool:
        return self.method in {"*", method} and all(str(args.get(k, "")) == v for k, v in self.where.items())


@dataclass(slots=True, kw_only=True)
class SocketScript:
    """What the socket server reads. `withheld`: sockets stay open, and events wait. `other_connections`: bots elsewhere with
    the same token, which take their share of the events. `events_limited`: there were too many, and they are let go."""

    down: bool = False
    withheld: bool = False
    answers_pings: bool = True
    other_connections: int = 0
    events_limited: bool = False
    num_connections: int | None = None  # said in hello; None: the truth
    mention_first: EventKind | None = None  # which event of a mention goes out first; None: by chance


class Sockets(Protocol):
    """What can be done to connections; see `slack_socket`."""

    def cut(self) -> None: ...

    def goodbye(self, reason: str) -> None: ...

    def deafen(self) -> None: ...

    def tell_limited(self, at: float) -> None: ...

    def wake(self) -> None:
        """Looks at the script again."""


class Faults:
    def __init__(self, script: SocketScript, *, sockets: Sockets, clock: Clock) -> None:
        self.script = script
        self.root_on_every_page = False  # sources disagree about later pages of conversations.replies
        self._faults: list[Fault] = []
        self._sockets, self._clock = sockets, clock
        self._read_at: dict[str, float] = {}  # by methods that are limited to one call a minute

    def add(self, method: str, kind: FaultKind | str, *, times: int | None = 1, **options: Any) -> Fault:
        """`method` "*" means every method. `options` are the fields of Fault. Raises ValueError, TypeError."""
        kind = FaultKind(kind)
        fault = Fault(method=method, kind=kind, times=None if kind in STAYS else times, **options)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()
        self.root_on_every_page = False
        self._read_at.clear()
        fresh = SocketScript()
        for each in fields(SocketScript):  # the very object that the sockets read
            setattr(self.script, each.name, getattr(fresh, each.name))
        self._sockets.wake()

    def take(self, method: str, args: Mapping[str, Any]) -> Fault | None:
        """The fault of this call, if any; it is used up by that."""
        for fault in [f for f in self._faults if f.kind is not FaultKind.PAGE_SIZE and f.meets(method, args)]:
            if fault.kind is FaultKind.DISTRIBUTED:
                if limited := self._once_a_minute(method, fault):
                    return limited
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
            return fault
        return None

    def page_size(self, method: str, args: Mapping[str, Any], limit: int) -> int:
        return min([limit, *(f.size for f in self._faults if f.kind in STAYS and f.meets(method, args))])

    def _once_a_minute(self, method: str, fault: Fault) -> Fault | None:
        now = self._clock()
        left = self._read_at.get(method, now - MINUTE_SECONDS) + MINUTE_SECONDS - now
        if left > 0:
            return replace(fault, kind=FaultKind.RATELIMITED, retry_after=math.ceil(left))
        self._read_at[method] = now
        return None

    # -- sockets ------------------------------------------------------------------------------------------------------
    def socket_down(self) -> None:
        """Cuts all sockets and gives no new one."""
        self.script.down = True
        self._sockets.cut()

    def socket_up(self) -> None:
        self.script.down = False
        self._sockets.wake()

    def drop_sockets(self) -> None:
        """Cuts all sockets once; they may come back."""
        self._sockets.cut()

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """As Slack asks for a new connection: `refresh_requested`, `warning`, `too_many_websockets`, `link_disabled`."""
        self._sockets.goodbye(reason)

    def withhold(self) -> None:
        """Sockets stay open, nothing is sent on them until `release`."""
        self.script.withheld = True

    def release(self) -> None:
        self.script.withheld = False
        self._sockets.wake()

    def deafen(self) -> None:
        """Sockets that are open stay so and answer pings, but what is sent on them is lost; new ones are good."""
        self._sockets.deafen()

    def connect_another(self) -> None:
        """Somebody starts a second bot with the same token."""
        self.script.other_connections += 1

    def limit_events(self) -> None:
        """There were too many events: the app is told once, and they are let go until `free_events`."""
        self._sockets.tell_limited(self._clock())
        self.script.events_limited = True

    def free_events(self) -> None:
        self.script.events_limited = False
