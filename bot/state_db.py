"""`state.db`: the one SQLite file of the bot. It opens it, checks its version, and makes the tables; adapters own the rows.

WAL and synchronous=FULL, because an event is acknowledged to Slack on the word of this file. One connection, one thread.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

VERSION = 1
SCHEMA = """
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, team TEXT NOT NULL, channel TEXT NOT NULL, ts TEXT NOT NULL, thread_ts TEXT NOT NULL, user TEXT NOT NULL,
  channel_type TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, route TEXT NOT NULL DEFAULT '', key TEXT NOT NULL DEFAULT '',
  trace_id TEXT NOT NULL, span_id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1, accepted_at REAL NOT NULL, ended_at REAL,
  outcome TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', UNIQUE (team, channel, ts));
CREATE INDEX messages_open ON messages (state) WHERE state != 'ended';
CREATE TABLE threads (
  team TEXT NOT NULL, channel TEXT NOT NULL, ts TEXT NOT NULL, route TEXT NOT NULL DEFAULT '', key TEXT NOT NULL DEFAULT '',
  boot TEXT NOT NULL, answered INTEGER NOT NULL DEFAULT 0, overflowed INTEGER NOT NULL DEFAULT 0, bot_streak INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL, PRIMARY KEY (team, channel, ts)) WITHOUT ROWID;
CREATE TABLE said (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, team TEXT NOT NULL, channel TEXT NOT NULL, thread_ts TEXT NOT NULL, ts TEXT NOT NULL,
  change TEXT NOT NULL, body TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX said_thread ON said (team, channel, thread_ts, ts);
CREATE TABLE sessions (key TEXT PRIMARY KEY, route TEXT NOT NULL, session_id TEXT NOT NULL, account TEXT NOT NULL, updated_at REAL NOT NULL)
  WITHOUT ROWID;
CREATE TABLE told (what TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class StateUnreadable(Exception):
    """`state.db` cannot be used; `remedy` says what to do. Nothing was changed."""

    def __init__(self, path: Path, why: str, remedy: str) -> None:
        super().__init__(f"{path}: {why}. {remedy}")
        self.path, self.why, self.remedy = path, why, remedy


def open_state(path: Path) -> sqlite3.Connection:
    """Opens or makes the file (0600). Raises StateUnreadable for a damaged or newer one."""
    fresh = not path.exists()
    try:
        db = sqlite3.connect(path, isolation_level=None)
        db.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
            db.execute(f"PRAGMA {pragma}")
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            _create(db)
        elif not fresh and db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("its pages do not fit together")
    except sqlite3.Error as e:
        remedy = "Move it away to begin anew: threads are then read again from Slack, and nothing said there is lost."
        raise StateUnreadable(path, f"this is no readable state ({e})", remedy) from e
    if version > VERSION:
        db.close()
        raise StateUnreadable(
            path, f"it was written by a newer version (format {version}, this one knows {VERSION})", "Upgrade insomnia-bot."
        )
    os.chmod(path, 0o600)
    return db


def _create(db: sqlite3.Connection) -> None:
    db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
