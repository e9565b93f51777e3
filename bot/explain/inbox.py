"""What the inbox knows of messages, for whoever explains: read only, from any process, while the bot writes or not.

No text of a message leaves it: ids, states, and the name under which Slack knows the author as long as the row holds it. A
row that makes no sense hides no other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from telemetry.stored_values import moment, text, whole

BUSY_SECONDS = 2.0
WAITING, ANSWERING, ENDED = "waiting", "answering", "ended"
_MOST = 20


class InboxUnreadable(Exception):
    """The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One accepted message. Times: seconds since the epoch. `ahead`: messages that wait in front of it in its lane."""

    team: str
    channel: str
    ts: str
    thread_ts: str
    user: str
    name: str
    state: str
    route: str
    key: str
    trace_id: str
    attempt: int
    accepted_at: float
    ended_at: float | None
    outcome: str
    reason: str
    ahead: int


_ROW = "SELECT m.*, (SELECT count(*) FROM messages o WHERE o.state != 'ended' AND o.key = m.key AND o.id < m.id) AS ahead FROM messages m"


class InboxReader:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.row_factory = sqlite3.Row

    def by_message(self, ts: str, *, channel: str = "") -> list[InboxRow]:
        return self._rows("WHERE m.ts=? AND (m.channel=? OR ?='')", (ts, channel, channel))

    def by_trace(self, prefix: str) -> list[InboxRow]:
        """Lower-case hex, whole or its beginning."""
        return self._rows("WHERE m.trace_id BETWEEN ? AND ?", (prefix, f"{prefix}g"))

    def newest_taken_up(self) -> list[InboxRow]:
        """The one that was answered, or is being answered, last."""
        return self._rows("WHERE m.state='answering' OR m.outcome IN ('answered', 'failed')", (), limit=1)

    def oldest(self) -> float | None:
        """Since when there are rows."""
        return moment(self._db.execute("SELECT min(accepted_at) FROM messages").fetchone()[0])

    def _rows(self, where: str, values: Sequence[object], *, limit: int = _MOST) -> list[InboxRow]:
        rows = self._db.execute(f"{_ROW} {where} ORDER BY m.id DESC LIMIT {limit}", values)
        return [found for row in rows if (found := _row(row)) is not None]


@contextmanager
def reading_inbox(path: Path) -> Iterator[InboxReader]:
    """Raises FileNotFoundError where no bot has run yet, InboxUnreadable."""
    if not path.is_file():
        raise FileNotFoundError(path)
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            yield InboxReader(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        raise InboxUnreadable(f"it cannot be read ({error})") from error


def _row(row: sqlite3.Row) -> InboxRow | None:
    if (accepted_at := moment(row["accepted_at"])) is None:
        return None
    words = ("team", "channel", "ts", "thread_ts", "user", "state", "route", "key", "trace_id", "outcome", "reason")
    return InboxRow(
        name=_name(row["body"]),
        accepted_at=accepted_at,
        ended_at=moment(row["ended_at"]),
        attempt=whole(row["attempt"]) or 1,
        ahead=whole(row["ahead"]) or 0,
        **{word: text(row[word]) for word in words},
    )


def _name(body: object) -> str:
    """Slack sends the author's profile with some messages."""
    try:
        profile = json.loads(text(body)).get("user_profile") or {}
        return next((name for key in ("display_name", "real_name", "name") if (name := text(profile.get(key)))), "")
    except (ValueError, AttributeError, RecursionError):
        return ""
