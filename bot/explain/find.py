"""Finds what a person points at, wherever it left a mark: the trace store, the inbox, the bot's log lines, in this order.

What must stay true: it only reads; it waits for a reply that is just ending, but never longer than `PATIENCE_SECONDS`; and
where nothing is found, it says where it looked and since when. A source that cannot be read does not hide the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from bot.explain.explanation import INTERRUPTED, Explanation
from bot.explain.inbox import ENDED, InboxReader, InboxRow
from bot.explain.log import explain_lines
from bot.explain.merge import of_row, with_lines, with_row, without_a_bot
from bot.explain.ref import Ref
from bot.explain.sources import Sources, explained
from bot.explain.spans import explain
from telemetry.events import DropReason
from telemetry.trace_reading import CANDIDATES, StoredTrace, Summary, TraceReader, Wanted
from telemetry.trace_rows import REPLY

PATIENCE_SECONDS = 2.0  # ten times what the store takes to write a trace that ended
POLL_SECONDS = 0.1
LONG_AGO_SECONDS = 30.0  # what ended before that has been written, or is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`began`: seconds since the epoch; None where the log alone knows of it."""

    trace_id: str
    began: float | None = None
    channel: str = ""
    ts: str = ""
    route: str = ""
    outcome: str = ""


class NotFound(Exception):
    """`searched`: each place, and since when there is something in it."""

    def __init__(self, searched: Sequence[str]) -> None:
        super().__init__("; ".join(searched))
        self.searched = tuple(searched)


class Ambiguous(Exception):
    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(f"{len(candidates)} candidates")
        self.candidates = tuple(candidates)


@dataclass(frozen=True, slots=True)
class _Look:
    """`settled`: to look again would show nothing else."""

    found: Explanation
    settled: bool


class Finder:
    def __init__(
        self,
        sources: Sources,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources, self._now, self._sleep, self._monotonic = sources, now, sleep, monotonic

    def find(self, ref: Ref) -> Explanation:
        """Raises NotFound, Ambiguous."""
        deadline = self._monotonic() + PATIENCE_SECONDS
        while not (look := self._look(ref)).settled and self._monotonic() < deadline:
            self._sleep(POLL_SECONDS)
        if ref.is_last and not look.settled and (ended := self._last_ended()):
            return ended
        return look.found

    def _look(self, ref: Ref) -> _Look:
        trace_id, row = self._which(ref)
        stored = self._sources.ask_traces(lambda traces: traces.trace(trace_id)) if trace_id else None
        if stored is not None:
            return self._of_trace(stored, row)
        if row is not None:
            lines = self._sources.lines(trace=row.trace_id, since=_day(row.accepted_at))
            return self._judged(with_row(explain_lines(lines) if lines else of_row(row), row), row)
        if (look := None if ref.is_last else self._of_log(ref)) is None:
            raise NotFound(self._sources.searched())
        return look

    # -- which one -----------------------------------------------------------------------------------------------------
    def _which(self, ref: Ref) -> tuple[str, InboxRow | None]:
        """The trace ("" for none) and the inbox's row, if there is one."""
        if ref.is_last:
            return self._newest()
        summaries = self._sources.ask_traces(lambda traces: _summaries(ref, traces)) or []
        if not summaries:
            rows = self._sources.ask_inbox(lambda inbox: _rows(ref, inbox)) or []
            _one_of([_of_inbox(row) for row in rows], by_message=bool(ref.ts))
            return (rows[0].trace_id, rows[0]) if rows else ("", None)
        _one_of([_of_summary(summary) for summary in summaries], by_message=bool(ref.ts))
        about = summaries[0]
        mine = self._sources.ask_inbox(lambda inbox: inbox.by_message(about.ts, channel=about.channel)) or [] if about.ts else []
        return about.trace_id, next(iter(mine), None)

    def _newest(self) -> tuple[str, InboxRow | None]:
        """By the inbox, which knows of a reply before the store does."""
        if rows := self._sources.ask_inbox(lambda inbox: inbox.newest_taken_up()) or []:
            return rows[0].trace_id, rows[0]
        newest = self._sources.ask_traces(lambda traces: traces.listing(Wanted(kinds=(REPLY,), limit=1))) or []
        return (newest[0].trace_id, None) if newest else ("", None)

    def _last_ended(self) -> Explanation | None:
        newest = self._sources.ask_traces(lambda traces: traces.listing(Wanted(kinds=(REPLY,), limit=CANDIDATES))) or []
        ended = next((summary.trace_id for summary in newest if summary.ended is not None), None)
        return self._look(Ref("", prefix=ended)).found if ended else None

    # -- what it is made from ------------------------------------------------------------------------------------------
    def _of_trace(self, stored: StoredTrace, row: InboxRow | None) -> _Look:
        about = stored.about
        found = self._sources.ask_traces(lambda traces: explained(stored, traces)) or explain(stored)
        if about.ended is not None or about.kind != REPLY:
            return _Look(with_row(found, row) if row else found, settled=True)
        found = with_lines(found, self._sources.lines(trace=about.trace_id, since=_day(about.started)))
        if about.outcome == INTERRUPTED:  # the store's own word, once the next process has begun
            return _Look(with_row(found, row) if row else found, settled=True)
        return self._judged(with_row(found, row) if row else found, row)

    def _judged(self, found: Explanation, row: InboxRow | None) -> _Look:
        """What has not ended may do so in a moment, as long as there is a bot."""
        runs = self._sources.bot_runs()
        long_ago = row is not None and row.state == ENDED and (row.ended_at or 0.0) < self._now() - LONG_AGO_SECONDS
        return _Look(found if runs else without_a_bot(found), settled=not runs or long_ago)

    def _of_log(self, ref: Ref) -> _Look | None:
        """A line may lead to a trace that the store has, under another message say; that one is then the whole truth."""
        since = _day(float(ref.ts)) if ref.ts else None
        lines = self._sources.lines(trace=ref.prefix, message=ref.ts, since=since, channel=ref.channel)
        traces = list(dict.fromkeys(str(line["trace_id"]) for line in lines if line.get("trace_id")))
        if ref.prefix:
            _one_of([Candidate(trace_id=trace_id) for trace_id in traces], by_message=False)
        if traces and (stored := self._sources.ask_traces(lambda reader: reader.trace(traces[-1]))) is not None:
            return self._of_trace(stored, None)
        if traces:
            return _Look(explain_lines(self._sources.lines(trace=traces[-1], since=None) or lines), settled=True)
        # That Slack delivered it once more says nothing about the first time.
        first_time = [line for line in lines if line.get("reason") != DropReason.DUPLICATE]
        return _Look(explain_lines((first_time or lines)[-1:]), settled=True) if lines else None


def _summaries(ref: Ref, traces: TraceReader) -> list[Summary]:
    """Newest first: all attempts at a message, else the answer that it is, else the newest reply in the thread that it began."""
    if ref.prefix:
        return traces.by_prefix(ref.prefix)
    found = traces.by_message(ref.ts, channel=ref.channel) or traces.by_post(ref.ts, channel=ref.channel)
    return found or traces.by_thread(ref.ts, channel=ref.channel)[:1]


def _rows(ref: Ref, inbox: InboxReader) -> list[InboxRow]:
    return inbox.by_trace(ref.prefix) if ref.prefix else inbox.by_message(ref.ts, channel=ref.channel)


def _one_of(candidates: Sequence[Candidate], *, by_message: bool) -> None:
    """Several attempts at one message are no ambiguity. Raises Ambiguous."""
    if len({(c.channel, c.ts) if by_message else (c.trace_id, "") for c in candidates}) > 1:
        raise Ambiguous(candidates)


def _of_summary(s: Summary) -> Candidate:
    return Candidate(trace_id=s.trace_id, began=s.started, channel=s.channel, ts=s.ts, route=s.route, outcome=s.outcome)


def _of_inbox(row: InboxRow) -> Candidate:
    about = {"channel": row.channel, "ts": row.ts, "route": row.route, "outcome": row.outcome or row.state}
    return Candidate(trace_id=row.trace_id, began=row.accepted_at, **about)


def _day(seconds: float) -> date:
    """Of the log's file."""
    return datetime.fromtimestamp(seconds, UTC).date()
