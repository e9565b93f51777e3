"""The reader's side of `traces.db`: finds traces by all that people have in hand, and gives them as plain values.

What must stay true: no OpenTelemetry is imported, so that a command starts at once; the file is opened to read only, while
the bot writes or not; nothing here waits for the bot; a row or span that makes no sense hides no other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telemetry.events import TraceRef
from telemetry.names import Attr
from telemetry.stored_values import MOST_WHOLE, attributes, moment_ns, text, whole
from telemetry.trace_file import TraceFileUnusable, is_damage, open_to_read
from telemetry.trace_rows import REPLY, RUN

CANDIDATES = 20  # of an ambiguous prefix; more help nobody
UNSET, OK, ERROR = range(3)
_DIGITS = 32
_SPAN_FIELDS = 7  # and the links, where there are any


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a trace is found by. Times: seconds since the epoch; `ended` is None while it runs, and after a crash."""

    trace_id: str
    kind: str
    name: str
    started: float
    ended: float | None
    outcome: str
    reason: str
    decision: str
    gate_reason: str
    route: str
    team: str
    channel: str
    ts: str
    thread_ts: str
    attempt: int = 1
    previous: str = ""

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpan:
    """Times in nanoseconds since the epoch."""

    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    status: int = UNSET
    attributes: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[TraceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """`spans` in the order in which they began; the root is missing while it runs."""

    about: Summary
    spans: tuple[StoredSpan, ...]

    @property
    def root(self) -> StoredSpan | None:
        return next((span for span in self.spans if not span.parent_id), None)

    def named(self, name: str) -> tuple[StoredSpan, ...]:
        """By the span's name, whatever its label."""
        return tuple(span for span in self.spans if span.name == name or span.name.startswith(f"{name} "))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReset:
    """`at`: seconds since the epoch."""

    trace_id: str
    at: float
    key: str
    route: str
    session_id: str
    cause: str
    how: str
    epoch: int | None
    forgotten: int | None
    pre_tokens: int | None
    post_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `insomnia traces` may ask for; "" and None: any. `since`: seconds since the epoch.

    `or_unended`: beside those with the outcome also those that have none yet.
    """

    kinds: Sequence[str] = (REPLY, RUN)
    name: str = ""
    route: str = ""
    outcome: str = ""
    or_unended: bool = False
    decision: str = ""
    since: float | None = None
    limit: int = 20


_SUMMARY = "SELECT id, trace_id, kind, name, started, ended, outcome, reason, decision, gate_reason, route, team, channel, ts, thread_ts,"
_SUMMARY += " attempt, previous FROM traces"
_OR_UNENDED = " OR (outcome='' AND ended IS NULL)"
_DATED = "typeof(started)='integer'"  # SQLite would sort anything else before the newest
_NEWEST_FIRST = " ORDER BY started DESC, id DESC LIMIT ?"


class TraceReader:
    """Raises sqlite3.Error where the file turns out to be damaged, or cannot be read (see `reading`)."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.row_factory = sqlite3.Row

    # -- one trace -----------------------------------------------------------------------------------------------------
    def trace(self, trace_id: str) -> StoredTrace | None:
        row = self._db.execute(f"{_SUMMARY} WHERE trace_id=?", (_key(trace_id),)).fetchone()
        if row is None or (about := _summary(row)) is None:
            return None
        bodies = self._db.execute("SELECT body FROM spans WHERE trace=? ORDER BY id", (row["id"],))
        spans = [span for (body,) in bodies for fields in _listed(body) if (span := _span(fields)) is not None]
        return StoredTrace(about, tuple(sorted(spans, key=lambda span: (span.start, span.end))))

    # -- found by ------------------------------------------------------------------------------------------------------
    def by_prefix(self, prefix: str) -> list[Summary]:
        """Of a trace id, lower-case hex; newest first, at most CANDIDATES."""
        low, high = prefix.ljust(_DIGITS, "0"), prefix.ljust(_DIGITS, "f")
        return self._some("WHERE trace_id BETWEEN ? AND ?", (_key(low), _key(high)), limit=CANDIDATES)

    def by_message(self, ts: str, *, channel: str = "") -> list[Summary]:
        """All attempts at one message, newest first; without a channel also those of its namesakes elsewhere."""
        return self._some("WHERE ts=? AND (channel=? OR ?='')", (ts, channel, channel), limit=CANDIDATES)

    def by_post(self, ts: str, *, channel: str = "") -> list[Summary]:
        """By a message that the bot's answer became."""
        where = "WHERE id IN (SELECT trace FROM posts WHERE posts.ts=?) AND (channel=? OR ?='')"
        return self._some(where, (ts, channel, channel), limit=CANDIDATES)

    def by_thread(self, thread_ts: str, *, channel: str = "") -> list[Summary]:
        """Replies in the thread with this root, newest first."""
        return self._some("WHERE thread_ts=? AND (channel=? OR ?='')", (thread_ts, channel, channel), limit=CANDIDATES)

    def following(self, trace_id: str) -> list[Summary]:
        """Later attempts at what this trace did not finish."""
        return self._some("WHERE previous=? AND previous IS NOT NULL", (_key(trace_id),), limit=CANDIDATES)

    def by_run(self, run_id: str) -> list[Summary]:
        """Traces of a memory run, by its id or the beginning of that, newest first: more than one where it was finished by a later
        process. Looks through all runs; that takes a tenth of a second in a store of thousands.
        """
        told = f'"{Attr.MEMORY_RUN_ID.value}":{json.dumps(run_id)[:-1]}'
        where = "WHERE kind=? AND id IN (SELECT trace FROM spans WHERE instr(body, ?) > 0)"
        return self._some(where, (RUN, told), limit=CANDIDATES)

    def listing(self, wanted: Wanted) -> list[Summary]:
        marks = ",".join("?" * len(wanted.kinds))
        where, values = f"WHERE kind IN ({marks})", list[object](wanted.kinds)
        for column in ("name", "route", "outcome", "decision"):
            if value := getattr(wanted, column):
                where += f" AND ({column}=?{_OR_UNENDED if column == 'outcome' and wanted.or_unended else ''})"
                values.append(value)
        if wanted.since is not None:
            where += " AND started >= ?"
            values.append(_ns(wanted.since))
        return self._some(where, values, limit=wanted.limit)

    # -- around a trace ------------------------------------------------------------------------------------------------
    def resets(self, key: str, *, since: float, until: float | None = None, limit: int = 100) -> list[StoredReset]:
        """Of one session, in the order in which they happened; the newest `limit` of them."""
        end = _ns(until) if until is not None else MOST_WHOLE - 1
        rows = self._db.execute(
            "SELECT resets.*, traces.trace_id FROM resets JOIN traces ON traces.id = resets.trace"
            " WHERE key=? AND at > ? AND at <= ? ORDER BY at DESC LIMIT ?",
            (key, _ns(since), end, limit),
        ).fetchall()
        return [reset for row in reversed(rows) if (reset := _reset(row)) is not None]

    def account(self, session_id: str) -> str:
        """Under which account the session's process was started last; "" where that is not known."""
        row = self._db.execute("SELECT account FROM starts WHERE session_id=? ORDER BY at DESC LIMIT 1", (session_id,)).fetchone()
        return text(row[0]) if row else ""

    def oldest(self) -> float | None:
        """Since when there are traces."""
        at = moment_ns(self._db.execute(f"SELECT min(started) FROM traces WHERE {_DATED}").fetchone()[0])
        return None if at is None else at / 1e9

    def _some(self, where: str, values: Sequence[object], *, limit: int) -> list[Summary]:
        rows = self._db.execute(f"{_SUMMARY} {where} AND {_DATED}{_NEWEST_FIRST}", (*values, min(limit, MOST_WHOLE - 1)))
        return [summary for row in rows if (summary := _summary(row)) is not None]


@contextmanager
def reading(path: Path) -> Iterator[TraceReader]:
    """Raises FileNotFoundError where no bot has written yet, TraceFileUnusable where nothing can be read, damaged or not."""
    try:
        db = open_to_read(path)
        try:
            yield TraceReader(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        if is_damage(error):
            raise TraceFileUnusable(f"it is damaged ({error})", "damaged") from error
        raise TraceFileUnusable(f"it cannot be read ({error})", "") from error


def _summary(row: sqlite3.Row) -> Summary | None:
    trace_id, started, ended = row["trace_id"], moment_ns(row["started"]), moment_ns(row["ended"])
    if not isinstance(trace_id, bytes) or started is None:
        return None
    words = ("kind", "name", "outcome", "reason", "decision", "gate_reason", "route", "team", "channel", "ts", "thread_ts")
    return Summary(
        trace_id=trace_id.hex(),
        previous=row["previous"].hex() if isinstance(row["previous"], bytes) else "",
        started=started / 1e9,
        ended=None if ended is None else ended / 1e9,
        attempt=whole(row["attempt"]) or 1,
        **{word: text(row[word]) for word in words},
    )


def _listed(body: object) -> list[Any]:
    """SQLite finds damage in its own pages, not in what they hold."""
    try:
        read = json.loads(body) if isinstance(body, str | bytes) else []
    except (ValueError, RecursionError):
        return []
    return read if isinstance(read, list) else []


def _span(fields: Any) -> StoredSpan | None:
    if not isinstance(fields, list) or len(fields) < _SPAN_FIELDS:
        return None
    start, duration = moment_ns(fields[3]), whole(fields[4])
    if start is None or duration is None:
        return None
    return StoredSpan(
        span_id=text(fields[0]),
        parent_id=text(fields[1]),
        name=text(fields[2]),
        start=start,
        end=start + duration,
        status=whole(fields[5]) or UNSET,
        attributes=attributes(fields[6]),
        links=tuple(_links(fields[7])) if len(fields) > _SPAN_FIELDS else (),
    )


def _links(links: Any) -> Iterator[TraceRef]:
    for link in links if isinstance(links, list) else ():
        if isinstance(link, list) and len(link) == 2:
            yield TraceRef(text(link[0]), text(link[1]))


def _reset(row: sqlite3.Row) -> StoredReset | None:
    if (at := moment_ns(row["at"])) is None:
        return None
    return StoredReset(
        trace_id=row["trace_id"].hex() if isinstance(row["trace_id"], bytes) else "",
        at=at / 1e9,
        key=text(row["key"]),
        route=text(row["route"]),
        session_id=text(row["session_id"]),
        cause=text(row["cause"]),
        how=text(row["how"]),
        epoch=whole(row["epoch"]),
        forgotten=whole(row["forgotten"]),
        pre_tokens=whole(row["pre_tokens"]),
        post_tokens=whole(row["post_tokens"]),
    )


def _key(trace_id: str) -> bytes:
    """Of what is no trace id, one that no trace has."""
    try:
        return bytes.fromhex(trace_id)
    except ValueError:
        return b""


def _ns(seconds: float) -> int:
    return int(min(max(seconds * 1e9, -MOST_WHOLE), MOST_WHOLE - 1024))
