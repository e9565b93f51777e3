"""Puts together what several sources say of one reply. Pure.

A trace that ended is the whole truth of its reply; what is added to it is only who asked. Of one that did not end, the
inbox knows how the message stands, and the log what happened after the last span that was stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bot.explain.explanation import INTERRUPTED, OK, ROOT, RUNNING, WAITING, AskedMessage, Explanation, History, Part, Session
from bot.explain.inbox import ANSWERING, ENDED, InboxRow
from bot.explain.inbox import WAITING as STILL_WAITING
from bot.explain.log import Line, at, explain_lines, moment
from telemetry.events import Outcome

_OPEN = frozenset({"", RUNNING, WAITING, INTERRUPTED})
CUT_MS = 1.0  # a line's time is cut to the millisecond: it may seem to come before the span that it belongs to


def of_row(row: InboxRow) -> Explanation:
    """There is nothing else."""
    return with_row(Explanation(trace_id=row.trace_id, source="inbox", began=row.accepted_at), row)


def with_row(e: Explanation, row: InboxRow) -> Explanation:
    """Who asked, how the message stands, and what the trace does not say itself."""
    e = replace(
        e,
        message=AskedMessage(team=row.team, channel=row.channel, ts=row.ts, thread_ts=row.thread_ts, user=row.user, name=row.name),
        session=replace(e.session, route=e.session.route or row.route, key=e.session.key or row.key),
    )
    if row.trace_id != e.trace_id or e.outcome not in _OPEN:
        return e
    outcome, reason = _stands(row)
    seconds = e.seconds if row.ended_at is None else row.ended_at - row.accepted_at
    e = replace(e, outcome=outcome, reason=reason, seconds=seconds, ahead=row.ahead, attempt=row.attempt)
    return replace(e, parts=_with_whole(e))


def _stands(row: InboxRow) -> tuple[str, str]:
    if row.state == ENDED:
        return row.outcome, row.reason
    return {STILL_WAITING: WAITING, ANSWERING: RUNNING}.get(row.state, row.state), ""


def _with_whole(e: Explanation) -> tuple[Part, ...]:
    """The first part is the whole, and says how it ended."""
    status = OK if e.outcome == Outcome.ANSWERED else e.reason or e.outcome
    ms = None if e.seconds is None else round(e.seconds * 1000, 1)
    return (Part(name=e.parts[0].name if e.parts else ROOT, start_ms=0.0, ms=ms, status=status), *e.parts[1:])


def with_lines(e: Explanation, lines: Sequence[Line]) -> Explanation:
    """`lines` of its trace: those of moments after the last stored span, and what no stored span tells."""
    if not lines or e.began is None:
        return e
    told, began = explain_lines(lines), e.began
    stored = max((part.start_ms + (part.ms or 0.0) for part in e.parts), default=0.0)
    later = tuple(moment(line, began=began) for line in lines if (at(line) - began) * 1000 > stored + CUT_MS)
    return replace(
        e,
        source="log" if later else e.source,
        gate=replace(e.gate, injection=e.gate.injection or told.gate.injection) if e.gate.decision else told.gate,
        history=e.history if e.history != History() else told.history,
        session=_filled(e.session, told.session),
        parts=(*e.parts, *later),
    )


def _filled(session: Session, told: Session) -> Session:
    return replace(
        session,
        route=session.route or told.route,
        key=session.key or told.key,
        id=session.id or told.id,
        account=session.account or told.account,
        resets=session.resets or told.resets,
    )


def without_a_bot(e: Explanation) -> Explanation:
    """Nothing is being answered where no bot runs; what waits goes on waiting."""
    if e.outcome in ("", RUNNING):
        e = replace(e, outcome=INTERRUPTED)
        e = replace(e, parts=_with_whole(e))
    return replace(e, bot_runs=False)
