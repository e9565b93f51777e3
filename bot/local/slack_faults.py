"""Scripted faults of the Web API and of the sockets, for tests and for the demonstration of what happens then.

A fault meets the calls of its method in the order in which it was added; `times` counts down, None stays until `clear`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

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
    LOST = "lost"  # carried out, but the connection is cut before the answer


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
    """What the socket server reads. `withheld`: sockets stay open and silent (a ghost connection)."""

    down: bool = False
    withheld: bool = False
    answers_pings: bool = True
    num_connections: int | None = None  # said in hello; None: the truth
    mention_first: EventKind | None = None  # which event of a mention goes out first; None: by chance


class Faults:
    """`cut` ends all sockets as a lost network does; `goodbye` tells them to reconnect; `wake` looks at the script again."""

    def __init__(self, script: SocketScript, *, cut: Callable[[], None], goodbye: Callable[[str], None], wake: Callable[[], None]) -> None:
        self.script = script
        self.root_on_every_page = False  # sources disagree about later pages of conversations.replies
        self._faults: list[Fault] = []
        self._cut, self._goodbye, self._wake = cut, goodbye, wake

    def add(self, method: str, kind: FaultKind | str, *, times: int | None = 1, **options: Any) -> Fault:
        """`method` "*" means every method. `options` are the fields of Fault. Raises ValueError, TypeError."""
        kind = FaultKind(kind)
        fault = Fault(method=method, kind=kind, times=None if kind is FaultKind.PAGE_SIZE else times, **options)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()
        self.root_on_every_page = False
        # the very object that the sockets read
        self.script.down = self.script.withheld = False
        self.script.answers_pings, self.script.num_connections, self.script.mention_first = True, None, None
        self._wake()

    def take(self, method: str, args: Mapping[str, Any]) -> Fault | None:
        """The fault of this call, if any; it is used up by that."""
        for fault in [f for f in self._faults if f.kind is not FaultKind.PAGE_SIZE and f.meets(method, args)]:
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
        return min([limit, *(f.size for f in self._faults if f.kind is FaultKind.PAGE_SIZE and f.meets(method, args))])

    # -- sockets ------------------------------------------------------------------------------------------------------
    def socket_down(self) -> None:
        """Cuts all sockets and gives no new one."""
        self.script.down = True
        self._cut()

    def socket_up(self) -> None:
        self.script.down = False
        self._wake()

    def drop_sockets(self) -> None:
        """Cuts all sockets once; they may come back."""
        self._cut()

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """As Slack asks for a new connection: `refresh_requested`, `warning`, `too_many_websockets`, `link_disabled`."""
        self._goodbye(reason)

    def withhold(self) -> None:
        """Sockets stay open, nothing is sent on them until `release`."""
        self.script.withheld = True

    def release(self) -> None:
        self.script.withheld = False
        self._wake()
