"""The known-thread gate: what the bot does about the thread of one message. Pure; the router looks and acts.

The set alone decides what is known. Everything else here only makes a thread less known (a gap in delivery), adds what
others said, or names the reason. It is asked under the session's lock, after any rotate, so nothing slips in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.events import Decision, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that the decision may look at, read in one moment.

    `lost`: why the session lost the thread, if it once held it. `carried`: the thread had a route before this process
    began. `had_session`: the route had a session before this turn. `held_off`: the last read was incomplete and its wait
    is not over. `waiting`: how many messages, edits and deletions of others the inbox holds for the next prompt.
    """

    opens_thread: bool
    known: bool
    waiting: int = 0
    gap: bool = False
    lost: Reason | None = None
    carried: bool = False
    had_session: bool = True
    held_off: Reason | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reads`: Slack has to be read before the prompt can be made."""

    decision: Decision
    reason: Reason
    reads: bool = False


def decide(view: View) -> Verdict:
    if view.known and not view.gap:
        return Verdict(Decision.KNOWN, Reason.HELD_DELTA if view.waiting else Reason.HELD)
    if view.opens_thread:
        return Verdict(Decision.NEW, Reason.FIRST_MESSAGE)
    if view.held_off is not None:
        return Verdict(Decision.REFETCH_FAILED, view.held_off)
    return Verdict(Decision.REFETCHED, _why_read(view), reads=True)


def _why_read(view: View) -> Reason:
    if view.known:
        return Reason.DELIVERY_GAP
    if view.lost is not None:
        return view.lost
    if view.carried:
        return Reason.AFTER_RESTART
    return Reason.NOT_KNOWN if view.had_session else Reason.NO_SESSION
