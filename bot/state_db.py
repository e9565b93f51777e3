"""`state.db`: the one SQLite file of the bot. It opens it, checks that it is ours, and makes the tables; adapters own the rows.

WAL and synchronous=FULL, because an event is acknowledged to Slack on the word of this file. One connection, one thread.
What cannot be read is left as it is: whoever opens it is told what to do with it (`state_rescue`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

VERSION = 3
BUSY_SECONDS = 5.0  # somebody who looks into the file holds it for moments
# `age` (of a message's text) is Slack's time of its last edit, "" for an unedited one, "~" once it is deleted: newer is greater.
SCHEMA = """
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, team TEXT NOT NULL, channel TEXT NOT NULL, ts TEXT NOT NULL, thread_ts TEXT NOT NULL, user TEXT NOT NULL,
  channel_type TEXT NOT NULL, body TEXT NOT NULL, age TEXT NOT NULL, state TEXT NOT NULL, route TEXT NOT NULL DEFAULT '',
  key TEXT NOT NULL DEFAULT '', trace_id TEXT NOT NULL, span_id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1,
  accepted_at REAL NOT NULL, ended_at REAL, outcome TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
  UNIQUE (team, channel, ts));
CREATE INDEX messages_open ON messages (state) WHERE state != 'ended';
CREATE INDEX messages_ended ON messages (ended_at) WHERE state = 'ended';
CREATE TABLE threads (
  team TEXT NOT NULL, channel TEXT NOT NULL, ts TEXT NOT NULL, route TEXT NOT NULL DEFAULT '', key TEXT NOT NULL DEFAULT '',
  boot TEXT NOT NULL, answered INTEGER NOT NULL DEFAULT 0, bot_streak INTEGER NOT NULL DEFAULT 0,
  overflowed INTEGER NOT NULL DEFAULT 0, lost_ts TEXT NOT NULL DEFAULT '', lost_seq INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL, PRIMARY KEY (team, channel, ts)) WITHOUT ROWID;
CREATE TABLE said (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, team TEXT NOT NULL, channel TEXT NOT NULL, thread_ts TEXT NOT NULL, ts TEXT NOT NULL,
  change TEXT NOT NULL, body TEXT NOT NULL, age TEXT NOT NULL, carried INTEGER NOT NULL DEFAULT 0, at REAL NOT NULL,
  UNIQUE (team, channel, ts));
CREATE INDEX said_thread ON said (team, channel, thread_ts, ts);
CREATE INDEX said_at ON said (carried, at);
CREATE TABLE sessions (key TEXT PRIMARY KEY, route TEXT NOT NULL, session_id TEXT NOT NULL, account TEXT NOT NULL, updated_at REAL NOT NULL)
  WITHOUT ROWID;
CREATE TABLE told (what TEXT PRIMARY KEY) WITHOUT ROWID;
"""
# What each later version has beside that. `message` is the id of a message that has not ended.
ADDED = {
    2: """
CREATE TABLE accounts (account TEXT PRIMARY KEY, credential TEXT NOT NULL, state TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
""",
    3: """
CREATE TABLE replies (message INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE deaths (message INTEGER PRIMARY KEY, times INTEGER NOT NULL);
""",
}
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DENIED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM})
_REFUSED = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
END_THE_OTHER = "Another process holds it: end that one first."
MAKE_WRITABLE = "See that the file and its folder belong to you and can be written, and that the disk has room."
MOVE_AWAY = (
    "Move it away, with its -wal and -shm files, to begin anew: threads are then read again from Slack;"
    " only messages that still wait for an answer in it stay unanswered."
)
UPGRADE = "Upgrade insomnia-bot."


class StateUnreadable(Exception):
    """`state.db` cannot be used; `remedy` says what to do. Nothing was changed. `damaged`: it was ours, and is no whole file any more."""

    def __init__(self, path: Path, why: str, remedy: str, *, damaged: bool = False) -> None:
        super().__init__(f"{path}: {why}. {remedy}")
        self.path, self.why, self.remedy, self.damaged = path, why, remedy, damaged


def open_state(path: Path) -> sqlite3.Connection:
    """Opens or makes the file (0600). Raises StateUnreadable for one that is damaged, foreign, newer, or not ours to use."""
    try:
        _make_private(path)
        db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    except OSError as e:
        raise StateUnreadable(path, f"it cannot be opened ({e.strerror})", MAKE_WRITABLE) from e
    except sqlite3.Error as e:
        raise _unusable(path, e) from e
    try:
        _prepare(db, path)
    except sqlite3.Error as e:
        db.close()
        raise _unusable(path, e) from e
    except StateUnreadable:
        db.close()
        raise
    return db


def _make_private(path: Path) -> None:
    """Before SQLite opens it: the files beside it take over its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _keep_names(path)
    except FileExistsError:
        # By its name: to close a descriptor of ours would drop the locks that SQLite holds on the same file.
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _keep_names(path: Path) -> None:
    """A power cut may take a file, however well it was written, whose name is in no folder on the disk yet."""
    for folder in (path.parent, path.parent.parent):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    db.row_factory = sqlite3.Row
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StateUnreadable(path, f"it was written by a newer version (format {version}, this one knows {VERSION})", UPGRADE)
    tables = _tables(db)
    if tables and (version < 1 or tables != _tables_of(version)):
        raise StateUnreadable(path, "its tables are not those of this version", MOVE_AWAY)
    if tables and (found := _broken(db)):
        raise StateUnreadable(path, f"it is damaged ({found})", MOVE_AWAY, damaged=True)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    if not tables:  # new, or its maker was killed before it could make them
        db.executescript(f"BEGIN IMMEDIATE; {_schema(VERSION)} PRAGMA user_version={VERSION}; COMMIT;")
    elif version < VERSION:
        added = "".join(ADDED[later] for later in range(version + 1, VERSION + 1))
        db.executescript(f"BEGIN IMMEDIATE; {added} PRAGMA user_version={VERSION}; COMMIT;")


def _broken(db: sqlite3.Connection) -> str:
    """Its indexes are compared with its tables: a message that an index has lost would not be answered."""
    found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if found != "ok":
        return found
    unread = db.execute("SELECT count(*) FROM messages WHERE state != 'ended' AND NOT json_valid(body)").fetchone()[0]
    return f"{unread} messages in it cannot be read" if unread else ""


def _tables(db: sqlite3.Connection) -> set[str]:
    """The statements that made them; SQLite's own tables (of AUTOINCREMENT, ANALYZE) do not count."""
    made = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite~_%' ESCAPE '~'")
    return {str(row[0]) for row in made}


def _schema(version: int) -> str:
    return SCHEMA + "".join(ADDED[later] for later in range(2, version + 1))


def _tables_of(version: int) -> set[str]:
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(_schema(version))
        return _tables(db)
    finally:
        db.close()


def _unusable(path: Path, e: sqlite3.Error) -> StateUnreadable:
    code = getattr(e, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in _HELD:
        return StateUnreadable(path, f"it cannot be opened now ({e})", END_THE_OTHER)
    if code in _DENIED:
        return StateUnreadable(path, f"it cannot be used ({e})", MAKE_WRITABLE)
    return StateUnreadable(path, f"it is damaged, or no state of this bot ({e})", MOVE_AWAY, damaged=True)


def disk_refusal(error: BaseException) -> str:
    """SQLite's name for it where the disk is full, or does not take what is written; "" for every other error. It may pass."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return str(getattr(error, "sqlite_errorname", "")) if isinstance(error, sqlite3.Error) and code in _REFUSED else ""


@contextlib.contextmanager
def as_the_disk_allows() -> Iterator[None]:
    """For what can be done without: where the disk refuses it, it is left, and told by what cannot."""
    try:
        yield
    except sqlite3.Error as e:
        if not disk_refusal(e):
            raise


def telling_damage(take: Callable[[Mapping[str, Any]], None], broken: Callable[[], None]) -> Callable[[Mapping[str, Any]], None]:
    """The same, and `broken` is told where the file turns out to be damaged: it is mended at a start, and not before."""

    def telling(body: Mapping[str, Any]) -> None:
        try:
            take(body)
        except sqlite3.DatabaseError as e:
            if getattr(e, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                broken()
            raise

    return telling


def damage(path: Path) -> str:
    """What is wrong with the file, in a few words; "" where nothing is, or there is none yet. Only reads."""
    if not path.exists():
        return ""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return type(error).__name__
    return "" if found == "ok" else "it does not pass its own check"
