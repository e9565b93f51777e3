"""The durable inbox: every accepted message once, and what others said in threads that the bot takes part in.

A row is on disk before its event is acknowledged. Messages are found again by (team, channel, ts), the only identity
that all deliveries, both events of a mention and every restart share. What was said waits here until a prompt that was
answered has carried it; it is bounded, and past the bounds the thread is read again instead (`overflowed`). Of each
message only the newest state is kept, and no late delivery brings an older one back. Text stays only as long as it waits.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bot.messages import Change
from bot.ports import Clock
from bot.state_db import as_the_disk_allows
from telemetry.events import Outcome, Thread, TraceRef

KEPT_MESSAGES = 200  # of one thread; more are cheaper to read again than to keep
KEPT_CHARS = 64_000  # four times what a prompt takes of a thread
KEPT_SECONDS = 14 * 86_400
REMEMBERED_SECONDS = 45 * 86_400  # ended messages, for duplicates: Slack delivers again for minutes, people edit for weeks
CARRIED_SECONDS = 3_600  # what a prompt has carried, to know late deliveries of it: Slack tries for five minutes, a restart takes some
WITHDRAWN: Mapping[str, Any] = {"withdrawn": True}
GONE = "~"  # the age of a deleted message: greater than every ts
_HERE = "team=? AND channel=? AND thread_ts=?"
_THIS = "team=? AND channel=? AND ts=?"
_NOT_ASKED = "state='waiting' AND id NOT IN (SELECT message FROM replies)"  # one with a reply waits only to be posted
_INTO_SAID = "INTO said (team, channel, ts, thread_ts, change, body, age, at) VALUES (?,?,?,?,?,?,?,?)"


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
    deaths: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The newest state of what others said, edited or deleted; `seq` grows in the order of arrival."""

    seq: int
    ts: str
    change: Change
    body: Mapping[str, Any]


class Inbox:
    def __init__(self, db: sqlite3.Connection, *, clock: Clock) -> None:
        self._db, self._clock = db, clock
        with self._writing() as now:
            self._drop_ended(now)
            self._drop_old(now)

    # -- accepted messages ---------------------------------------------------------------------------------------------
    def has(self, thread: Thread, ts: str) -> bool:
        return self._db.execute(f"SELECT 1 FROM messages WHERE {_THIS}", _message(thread, ts)).fetchone() is not None

    def accept(self, thread: Thread, ts: str, *, user: str, channel_type: str, body: Mapping[str, Any], trace: TraceRef) -> Row:
        """Durable when it returns. The caller has asked `has` before, in the same breath."""
        with self._writing() as now:
            cursor = self._db.execute(
                "INSERT INTO messages"
                " (team, channel, ts, thread_ts, user, channel_type, body, age, state, trace_id, span_id, accepted_at)"
                " VALUES (?,?,?,?,?,?,?,?,'waiting',?,?,?)",
                (*_message(thread, ts), thread.ts, user, channel_type, _json(body), _age(body), trace.trace_id, trace.span_id, now),
            )
            self._db.execute(f"DELETE FROM said WHERE {_THIS}", _message(thread, ts))
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
        """An edit of a message that still waits: it will be asked as it now stands, or stood last. False: it waits no more."""
        with self._writing():
            waiting = self._db.execute(f"SELECT age FROM messages WHERE {_THIS} AND {_NOT_ASKED}", _message(thread, ts)).fetchone()
            if waiting is not None and waiting["age"] <= (age := _age(body)):
                changed = (_json(body), age, *_message(thread, ts))
                self._db.execute(f"UPDATE messages SET body=?, age=? WHERE {_THIS}", changed)
        return waiting is not None

    def body(self, row: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._db.execute("SELECT body FROM messages WHERE id=?", (row,)).fetchone()[0])
        return found

    def route(self, row: int, *, route: str, key: str) -> None:
        self._db.execute("UPDATE messages SET route=?, key=? WHERE id=?", (route, key, row))

    def begin(self, row: int) -> None:
        self._db.execute("UPDATE messages SET state='answering' WHERE id=?", (row,))

    def end(self, row: int, outcome: Outcome, reason: str = "") -> None:
        """From now on the row only tells duplicates apart, and its text is gone. What got no answer was said all the same."""
        with self._writing() as now:
            if outcome is not Outcome.ANSWERED:
                self._keep_unanswered(row, now)
            self._db.execute(
                "UPDATE messages SET state='ended', body='{}', outcome=?, reason=?, ended_at=? WHERE id=?",
                (outcome.value, reason, now, row),
            )
            for table in ("replies", "deaths"):
                self._db.execute(f"DELETE FROM {table} WHERE message=?", (row,))
            self._drop_ended(now)

    def put_back(self, row: int) -> None:
        """The bot is ended before the answer is there: the next one tries again, and nobody died of it. Not noted, it counts as a death."""
        with as_the_disk_allows():
            self._db.execute("UPDATE messages SET attempt=attempt+1, state='waiting' WHERE id=? AND state='answering'", (row,))

    def unanswered(self) -> list[Row]:
        """What an earlier process accepted and did not end, oldest first; what it died over counts one more attempt."""
        with self._writing():
            self._db.execute(
                "INSERT INTO deaths SELECT id, 1 FROM messages WHERE state='answering' ON CONFLICT (message) DO UPDATE SET times=times+1"
            )
            self._db.execute("UPDATE messages SET attempt=attempt+1, state='waiting' WHERE state='answering'")
            rows = self._db.execute(
                "SELECT m.*, coalesce(d.times, 0) AS deaths FROM messages m LEFT JOIN deaths d ON d.message=m.id"
                " WHERE m.state='waiting' ORDER BY m.id"
            ).fetchall()
        return [_row(r) for r in rows]

    def retrace(self, row: int, trace: TraceRef) -> None:
        self._db.execute("UPDATE messages SET trace_id=?, span_id=? WHERE id=?", (trace.trace_id, trace.span_id, row))

    def _keep_unanswered(self, row: int, now: float) -> None:
        """In a watched thread: whoever asks on after a failure must not find the bot without the question."""
        m = self._db.execute(
            "SELECT m.* FROM messages m JOIN threads t ON (t.team, t.channel, t.ts) = (m.team, m.channel, m.thread_ts)"
            " WHERE m.id=? AND m.state != 'ended'",
            (row,),
        ).fetchone()
        if m is not None:
            thread = Thread(m["team"], m["channel"], m["thread_ts"])
            values = (*_message(thread, m["ts"]), thread.ts, Change.POSTED.value, m["body"], m["age"], now)
            self._db.execute(f"INSERT OR IGNORE {_INTO_SAID}", values)  # an edit or a deletion since is newer
            self._bound(thread)

    # -- what others said ----------------------------------------------------------------------------------------------
    def keep(self, thread: Thread, ts: str, change: Change, body: Mapping[str, Any]) -> None:
        """Keeps a message, its edit or its deletion for the thread's next prompt. Past the bounds the thread overflows.

        Another delivery of what was kept, or accepted, changes nothing, nor does one that is older than an edit since.
        """
        age = GONE if change is Change.DELETED else _age(body)
        with self._writing() as now:
            if not self._is_new(thread, ts, age, change):
                return
            values = (*_message(thread, ts), thread.ts, change.value, _json(body), age, now)
            self._db.execute(f"INSERT OR REPLACE {_INTO_SAID}", values)
            self._drop_old(now)
            self._bound(thread)

    def _is_new(self, thread: Thread, ts: str, age: str, change: Change) -> bool:
        """Newer than all that is known of this message. Of an edit without a time nobody knows, so it is."""
        known = self._db.execute(
            f"SELECT max(age) FROM (SELECT age FROM said WHERE {_THIS} UNION ALL SELECT age FROM messages WHERE {_THIS})",
            (*_message(thread, ts), *_message(thread, ts)),
        ).fetchone()[0]
        return known is None or age > known or (age == known == "" and change is Change.EDITED)

    def was_deleted(self, thread: Thread, ts: str) -> bool:
        """True only of what is remembered: a deletion in a watched thread, of late."""
        found = self._db.execute(f"SELECT 1 FROM said WHERE {_THIS} AND age=?", (*_message(thread, ts), GONE))
        return found.fetchone() is not None

    def heard(self, thread: Thread, *, before: str) -> Sequence[Heard]:
        """All that waits for a prompt about the message `before` (its ts), in order of arrival."""
        rows = self._db.execute(
            f"SELECT seq, ts, change, body FROM said WHERE {_HERE} AND ts < ? AND NOT carried ORDER BY seq", (*_thread(thread), before)
        )
        return [Heard(seq=r["seq"], ts=r["ts"], change=Change(r["change"]), body=json.loads(r["body"])) for r in rows]

    def newest_seq(self) -> int:
        return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM said").fetchone()[0])

    def carried(self, thread: Thread, *, before: str, upto: int) -> None:
        """What had arrived by `upto` and is older than `before` has been in an answered prompt, or in a full read. Not noted, it is only
        looked at again."""
        with as_the_disk_allows(), self._writing():
            self._empty(f"{_HERE} AND ts < ? AND seq <= ?", (*_thread(thread), before, upto))
            self._db.execute(
                f"UPDATE threads SET lost_ts='', lost_seq=0 WHERE {_THIS} AND lost_ts < ? AND lost_seq <= ?",
                (*_thread(thread), before, upto),
            )

    def miss(self, thread: Thread, ts: str) -> None:
        """What others said up to `ts`, and after the message that is being asked, may not have been heard: it is read later."""
        with self._writing():
            self._db.execute(f"UPDATE threads SET overflowed=1, lost_ts=max(lost_ts, ?) WHERE {_THIS}", (ts, *_thread(thread)))

    def withdraw(self, thread: Thread, ts: str) -> None:
        """A message that still waits was deleted: it will not be asked, and its text is gone."""
        with self._writing():
            self._db.execute(f"UPDATE messages SET body=? WHERE {_THIS} AND {_NOT_ASKED}", (_json(WITHDRAWN), *_message(thread, ts)))

    # -- bounds (inside a transaction) ---------------------------------------------------------------------------------
    def _bound(self, thread: Thread) -> None:
        kept = f"SELECT count(*), total(length(body)) FROM said WHERE {_HERE} AND NOT carried"
        count, chars = self._db.execute(kept, _thread(thread)).fetchone()
        if count > KEPT_MESSAGES or chars > KEPT_CHARS:
            self._overflow(thread)

    def _overflow(self, thread: Thread) -> None:
        """Only deletions stay, as long as they are few: of them a later reading of the thread would not tell."""
        deletions = self._db.execute(
            f"SELECT count(*) FROM said WHERE {_HERE} AND NOT carried AND age=?", (*_thread(thread), GONE)
        ).fetchone()[0]
        which = _HERE if deletions > KEPT_MESSAGES // 2 else f"{_HERE} AND age != '{GONE}'"
        self._lose(f"{which} AND NOT carried", _thread(thread))

    def _drop_old(self, now: float) -> None:
        self._db.execute("DELETE FROM said WHERE carried AND at < ?", (now - CARRIED_SECONDS,))
        self._lose("NOT carried AND at < ?", (now - KEPT_SECONDS,))

    def _lose(self, which: str, values: Sequence[object]) -> None:
        """These will be in no delta: their threads have to be read again, up to the newest of them and from now on."""
        lost = self._db.execute(
            f"SELECT team, channel, thread_ts, max(ts), max(seq) FROM said WHERE {which} GROUP BY team, channel, thread_ts", values
        ).fetchall()
        for team, channel, thread_ts, ts, seq in lost:
            self._db.execute(
                f"UPDATE threads SET overflowed=1, lost_ts=max(lost_ts, ?), lost_seq=max(lost_seq, ?) WHERE {_THIS}",
                (ts, seq, team, channel, thread_ts),
            )
        if lost:
            self._empty(which, values)

    def _empty(self, which: str, values: Sequence[object]) -> None:
        """Text goes, the mark that it was here stays for a while."""
        self._db.execute(f"UPDATE said SET carried=1, body='' WHERE {which}", values)

    def _drop_ended(self, now: float) -> None:
        self._db.execute("DELETE FROM messages WHERE state='ended' AND ended_at < ?", (now - REMEMBERED_SECONDS,))

    # -- said once -----------------------------------------------------------------------------------------------------
    def tell_once(self, what: str) -> bool:
        """True the first time, for ever: what a person has to be told one single time."""
        return self._db.execute("INSERT OR IGNORE INTO told VALUES (?)", (what,)).rowcount > 0

    def tell_once_a_day(self, what: str, day: str) -> bool:
        """True the first time on this day; only the last day is remembered. Where the disk refuses, False: better than each time."""
        try:
            with self._writing():
                if not self.tell_once(f"{what} {day}"):
                    return False
                self._db.execute("DELETE FROM told WHERE substr(what, 1, ?)=? AND what != ?", (len(what) + 1, f"{what} ", f"{what} {day}"))
        except sqlite3.Error:
            return False
        return True

    @contextmanager
    def _writing(self) -> Iterator[float]:
        """One transaction, on disk when the block ends; gives the time."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._clock.now()


def _thread(thread: Thread) -> tuple[str, str, str]:
    return thread.team, thread.channel, thread.ts


def _message(thread: Thread, ts: str) -> tuple[str, str, str]:
    return thread.team, thread.channel, ts


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _age(body: Mapping[str, Any]) -> str:
    """When its text was last changed. Slack's `edited` tells whole seconds, the event about the edit tells more."""
    edited = body.get("edited")
    if not edited:
        return ""
    told = (edited.get("ts") if isinstance(edited, Mapping) else "", body.get("event_ts"))
    return max((ts for ts in told if isinstance(ts, str)), default="")


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
        deaths=r["deaths"],
    )
