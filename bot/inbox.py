"""The durable inbox: every accepted message once, and what others said in threads that the bot takes part in.

A row is on disk before its event is acknowledged. Messages are found again by (team, channel, ts), the only identity
that all deliveries, both events of a mention and every restart share. What was said waits here until a prompt that was
answered has carried it; it is bounded, and past the bounds the thread is read again instead (`overflowed`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.messages import Change
from bot.ports import Clock
from telemetry.events import Outcome, Thread, TraceRef

KEPT_MESSAGES = 200  # of one thread; more are cheaper to read again than to keep
KEPT_CHARS = 64_000  # four times what a prompt takes of a thread
KEPT_SECONDS = 14 * 86_400
REMEMBERED_SECONDS = 45 * 86_400  # ended messages, for duplicates: Slack delivers again for minutes, people edit for weeks
_HERE = "team=? AND channel=? AND thread_ts=?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One accepted message as it was stored; `body` is Slack's own message object."""

    id: int
    thread: Thread
    ts: str
    user: str
    channel_type: str
    body: Mapping[str, Any]
    trace: TraceRef
    attempt: int
    accepted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What was said, edited or deleted by others; `seq` grows in the order of arrival."""

    seq: int
    ts: str
    change: Change
    body: Mapping[str, Any]


class Inbox:
    def __init__(self, db: sqlite3.Connection, *, clock: Clock) -> None:
        self._db, self._clock = db, clock
        db.execute("DELETE FROM messages WHERE state='ended' AND ended_at < ?", (clock.now() - REMEMBERED_SECONDS,))
        db.execute("DELETE FROM said WHERE at < ?", (clock.now() - KEPT_SECONDS,))

    # -- accepted messages ---------------------------------------------------------------------------------------------
    def has(self, thread: Thread, ts: str) -> bool:
        found = self._db.execute("SELECT 1 FROM messages WHERE team=? AND channel=? AND ts=?", (thread.team, thread.channel, ts))
        return found.fetchone() is not None

    def accept(self, thread: Thread, ts: str, *, user: str, channel_type: str, body: Mapping[str, Any], trace: TraceRef) -> Row:
        """Durable when it returns. The caller has asked `has` before, in the same breath."""
        now = self._clock.now()
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            cursor = self._db.execute(
                "INSERT INTO messages (team, channel, ts, thread_ts, user, channel_type, body, state, trace_id, span_id, accepted_at)"
                " VALUES (?,?,?,?,?,?,?,'waiting',?,?,?)",
                (*_ids(thread, ts), user, channel_type, json.dumps(body), trace.trace_id, trace.span_id, now),
            )
            self._db.execute(f"DELETE FROM said WHERE {_HERE} AND ts=?", (thread.team, thread.channel, thread.ts, ts))
        return Row(
            id=int(cursor.lastrowid or 0),
            thread=thread,
            ts=ts,
            user=user,
            channel_type=channel_type,
            body=body,
            trace=trace,
            attempt=1,
            accepted_at=now,
        )

    def reword(self, thread: Thread, ts: str, body: Mapping[str, Any]) -> bool:
        """An edit reached a message that still waits: it will be asked as it now stands."""
        changed = self._db.execute(
            "UPDATE messages SET body=? WHERE team=? AND channel=? AND ts=? AND state='waiting'",
            (json.dumps(body), thread.team, thread.channel, ts),
        )
        return changed.rowcount > 0

    def body(self, row: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._db.execute("SELECT body FROM messages WHERE id=?", (row,)).fetchone()[0])
        return found

    def route(self, row: int, *, route: str, key: str) -> None:
        self._db.execute("UPDATE messages SET route=?, key=? WHERE id=?", (route, key, row))

    def begin(self, row: int) -> None:
        self._db.execute("UPDATE messages SET state='answering' WHERE id=?", (row,))

    def end(self, row: int, outcome: Outcome, reason: str = "") -> None:
        self._db.execute(
            "UPDATE messages SET state='ended', outcome=?, reason=?, ended_at=? WHERE id=?", (outcome.value, reason, self._clock.now(), row)
        )

    def unanswered(self) -> list[Row]:
        """What an earlier process accepted and did not end, oldest first; each counts as one more attempt from now on."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("UPDATE messages SET attempt=attempt+1 WHERE state='answering'")
            self._db.execute("UPDATE messages SET state='waiting' WHERE state='answering'")
            rows = self._db.execute("SELECT * FROM messages WHERE state='waiting' ORDER BY id").fetchall()
        return [_row(r) for r in rows]

    def retrace(self, row: int, trace: TraceRef) -> None:
        self._db.execute("UPDATE messages SET trace_id=?, span_id=? WHERE id=?", (trace.trace_id, trace.span_id, row))

    # -- what others said ----------------------------------------------------------------------------------------------
    def keep(self, thread: Thread, ts: str, change: Change, body: Mapping[str, Any]) -> None:
        """Keeps a message, its edit or its deletion for the thread's next prompt. Past the bounds the thread overflows."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "INSERT INTO said (team, channel, thread_ts, ts, change, body, at) VALUES (?,?,?,?,?,?,?)",
                (thread.team, thread.channel, thread.ts, ts, change.value, json.dumps(body), self._clock.now()),
            )
            count, chars = self._db.execute(f"SELECT count(*), sum(length(body)) FROM said WHERE {_HERE}", _key(thread)).fetchone()
            if count > KEPT_MESSAGES or (chars or 0) > KEPT_CHARS:
                self._db.execute(f"DELETE FROM said WHERE {_HERE}", _key(thread))
                self._db.execute("UPDATE threads SET overflowed=1 WHERE team=? AND channel=? AND ts=?", _key(thread))

    def heard(self, thread: Thread, *, before: str) -> Sequence[Heard]:
        """All that waits for a prompt about the message `before` (its ts), in order of arrival."""
        rows = self._db.execute(f"SELECT seq, ts, change, body FROM said WHERE {_HERE} AND ts < ? ORDER BY seq", (*_key(thread), before))
        return [Heard(seq=r["seq"], ts=r["ts"], change=Change(r["change"]), body=json.loads(r["body"])) for r in rows]

    def newest_seq(self) -> int:
        return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM said").fetchone()[0])

    def carried(self, thread: Thread, *, before: str, upto: int) -> None:
        """What had arrived by `upto` and is older than `before` has been in an answered prompt, or in a full read."""
        self._db.execute(f"DELETE FROM said WHERE {_HERE} AND ts < ? AND seq <= ?", (*_key(thread), before, upto))

    # -- said once -----------------------------------------------------------------------------------------------------
    def tell_once(self, what: str) -> bool:
        """True the first time, for ever: what a person has to be told one single time."""
        return self._db.execute("INSERT OR IGNORE INTO told VALUES (?)", (what,)).rowcount > 0


def _key(thread: Thread) -> tuple[str, str, str]:
    return thread.team, thread.channel, thread.ts


def _ids(thread: Thread, ts: str) -> tuple[str, str, str, str]:
    return thread.team, thread.channel, ts, thread.ts


def _row(r: sqlite3.Row) -> Row:
    return Row(
        id=r["id"],
        thread=Thread(r["team"], r["channel"], r["thread_ts"]),
        ts=r["ts"],
        user=r["user"],
        channel_type=r["channel_type"],
        body=json.loads(r["body"]),
        trace=TraceRef(r["trace_id"], r["span_id"]),
        attempt=r["attempt"],
        accepted_at=r["accepted_at"],
    )
