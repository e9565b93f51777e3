"""Candidates for a terminal: one line each, or one of them as a page. Pure: plain values → lines.

Claims and excerpts are texts of people: whoever prints the lines takes control characters out of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from bot.explain.candidates import Evidence, TracedCandidate
from bot.explain.page import LABEL, ago
from bot.explain.run_words import DISPOSITIONS
from bot.explain.runs import Reply
from bot.explain.wrapping import whole, wrap
from memory.consolidation.due import USUAL_DEFERRALS
from memory.consolidation.fates import Fate, State
from memory.consolidation.pending import Candidate
from telemetry.actionbar import age

SHORT_ID = 8
HEADINGS = ("CANDIDATE", "STATE", "KIND", "SAID", "BY", "WHERE", "CLAIM")
WIDE_ONLY = ("WHERE", "KIND", "BY", "SAID")  # left out in this order where there is no room


# -- a line ------------------------------------------------------------------------------------------------------------
def row(one: TracedCandidate, *, now: float) -> tuple[str, ...]:
    candidate = one.fate.candidate
    if candidate is None:
        return (
            one.fate.id,
            one.state,
            "",
            "",
            "",
            "",
            f"({one.fate.problem}: {one.fate.path})" if one.fate.path else f"({one.fate.problem})",
        )
    said = f"{candidate.said_at.astimezone():%Y-%m-%d %H:%M}"
    by = ", ".join(dict.fromkeys(each.by for each in one.evidence if each.by))
    return (one.fate.id, _state(one, now), candidate.kind, said, by, _place(one), candidate.claim)


def _state(one: TracedCandidate, now: float) -> str:
    fate = one.fate
    if fate.state is not State.WAITING or fate.candidate is None:
        return f"{one.state}{', taken back' if fate.undone_by else ''}"
    put_off = f", put off {fate.deferrals}x" if fate.deferrals else ""
    return f"waiting {age(now - fate.candidate.staged_at.timestamp())}{put_off}"


def _place(one: TracedCandidate) -> str:
    """Of the latest passage of which the store knows it."""
    known = [each.reply for each in one.evidence if each.reply and each.reply.channel]
    return f"{known[-1].channel}/{known[-1].thread_ts or known[-1].ts}" if known else ""


def summary(fates: Sequence[Fate]) -> str:
    waiting, settled, invalid = (sum(fate.state is state for fate in fates) for state in State)
    broken = f", cannot be read: {invalid}" if invalid else ""
    return f"Of {len(fates)} candidates wait: {waiting}, are settled: {settled}{broken}."


# -- a page ------------------------------------------------------------------------------------------------------------
def page(one: TracedCandidate, *, width: int, now: float, zone: tzinfo | None) -> list[str]:
    """`now`: seconds since the epoch; `zone` None: the machine's own."""
    lines = wrap(f"Candidate {one.fate.id}: {_head(one.fate)}", width)
    lines.append("")
    for label, told in _facts(one, now=now, zone=zone):
        if told:
            lines += wrap(told, width, label=f"{label:{LABEL}}")
    if one.evidence:
        lines += ["", "It was said:"]
    for each in one.evidence:
        lines += wrap(_who(each, zone), width, label="  ", indent=4)
        lines += wrap(each.excerpt, width, label="    | ", indent=6) if each.excerpt else []
        lines += wrap(_reply(each.reply), width, label="    ", indent=4) if each.reply else []
    return lines


def _head(fate: Fate) -> str:
    match fate.state:
        case State.WAITING:
            return "it waits for a consolidation run"
        case State.INVALID:
            return "it cannot be read, and was put aside" if fate.is_put_aside else "it cannot be read; the next run puts it aside"
    disposition = fate.resolution.disposition if fate.resolution else ""
    return f"{disposition}, {DISPOSITIONS.get(disposition, 'settled')}"


def _facts(one: TracedCandidate, *, now: float, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    fate, candidate = one.fate, one.fate.candidate
    if candidate:
        yield "Claim", candidate.claim
        yield "Useful", candidate.why_useful
        yield "Kind", f"{candidate.kind}, said by: {candidate.trust}, confidence {candidate.confidence:g}, for the scope {candidate.scope}"
    yield "Problem", fate.problem
    yield "Waits", _waits(fate, candidate, now) if candidate and fate.state is State.WAITING else ""
    yield "Settled", _settled(fate, zone) if fate.state is State.SETTLED else ""
    if fate.resolution:
        yield (
            "Record",
            f"{fate.resolution.record}: {whole(f'insomnia memory show {fate.resolution.record}')}" if fate.resolution.record else "",
        )
        yield "Reason", fate.resolution.reason
    if candidate:
        yield "Staged", f"{_local(candidate.staged_at, zone)} from {_entries(candidate)}{_by_run(fate)}"
    yield "File", f".insomnia/{fate.path}" if fate.path else ""


def _waits(fate: Fate, candidate: Candidate, now: float) -> str:
    parts = [f"staged {ago(now - candidate.staged_at.timestamp())}"]
    if fate.deferrals or fate.resolution:
        last = f", last by run {fate.run_id} ({_see(fate)})" if fate.resolution else ""
        parts.append(f"put off {_times(max(fate.deferrals, 1))}{last}")
    if fate.deferrals >= USUAL_DEFERRALS:
        parts.append("it asks for no run of its own any more, and is taken along by others")
    if fate.failed:
        parts.append(f"{fate.failed} {'run that it was in has' if fate.failed == 1 else 'runs that it was in have'} failed")
    return "; ".join(parts)


def _settled(fate: Fate, zone: tzinfo | None) -> str:
    when = f"{datetime.fromtimestamp(fate.at, zone).astimezone(zone):%Y-%m-%d %H:%M}"
    run = f"by run {fate.run_id}, {when} ({_see(fate)})"
    undone = f"that run was taken back by {fate.undone_by}; the candidate stays settled" if fate.undone_by else ""
    return "; ".join(filter(None, (run, undone)))


def _see(fate: Fate) -> str:
    return whole(f"insomnia memory runs {fate.run_id[:SHORT_ID]}")


def _entries(candidate: Candidate) -> str:
    first, last = candidate.entries
    where = f"entry {first}" if first == last else f"entries {first} to {last}"
    return f"{where} of the session {candidate.session_id} (route {candidate.route})"


def _by_run(fate: Fate) -> str:
    return f", by run {fate.staged_by}" if fate.staged_by else ""


def _who(each: Evidence, zone: tzinfo | None) -> str:
    try:
        when = f", {_local(datetime.fromisoformat(each.said_at), zone)}"
    except (ValueError, OverflowError):
        when = ""
    return f"entry {each.number}, by {each.by or 'somebody'}{f' ({each.trust})' if each.trust else ''}{when}"


def _reply(reply: Reply) -> str:
    if not reply.ts:
        return f"in the trace {reply.trace_id}, which the trace store does not have (any more)"
    thread = f", thread {reply.thread_ts}" if reply.thread_ts not in ("", reply.ts) else ""
    return f"in {reply.channel}, message {reply.ts}{thread}: {whole(f'insomnia why {reply.trace_id[:SHORT_ID]}')}"


def _local(moment: datetime, zone: tzinfo | None) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
