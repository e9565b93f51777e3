"""The facts of the connection to Slack: calls, sockets, and signs that events were missed. Part of `events`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SlackOutcome(StrEnum):
    OK = "ok"
    ERROR = "error"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"


class GapReason(StrEnum):
    """Why events may have been missed: the sign of it, not its cause."""

    SOCKET_LOST = "socket_lost"
    LATE_DELIVERY = "late_delivery"  # an event came only at one of Slack's later tries
    EVENTS_LIMITED = "events_limited"  # Slack held events back, because there were too many
    NOT_STORED = "not_stored"  # an event could not be written down; Slack may give it up before it can


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackCalled:
    method: str
    outcome: SlackOutcome
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackConnection:
    """Events can arrive (`up`), or cannot any more. `connections`: how many sockets share them, as Slack counts."""

    up: bool
    connections: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackReconnected:
    """The socket is up again; `reason` = `disconnect` | `closed` | `stale` | `silent`. `down_seconds`: how long nothing could arrive."""

    reason: str
    down_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryGap:
    """Events may be missing: every thread that is held is read again before it is trusted."""

    reason: GapReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackEventSeen:
    """Any envelope arrived; feeds `insomnia.slack.last_event_age`."""


SlackFact = SlackCalled | SlackConnection | SlackReconnected | DeliveryGap | SlackEventSeen
