"""`traces.db`: the file of the local trace store, its tables, and how it is opened, to write or only to read.

What must stay true: one process owns it (the one that holds the workspace's lock): it alone makes, prunes and puts aside;
a command may add its own traces beside it, any number read meanwhile, and none waits long for another (WAL). It is its owner's
alone, and no link in its place is followed. What cannot be used is put aside under another name, never deleted. Of all that is in
it the spans are the truth; the other columns and tables are only there to find them by.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from pathlib import Path

VERSION = 1
BUSY_SECONDS = 2.0  # somebody who looks into the file by hand holds it for moments
CHECKED_BYTES = 64 * 1024 * 1024  # read through at the start in a tenth of a second; what is larger shows its damage when it is used
WAL_BYTES = 16 * 1024 * 1024  # kept of the file beside it after a burst
BESIDE = ("-wal", "-shm", "")  # in the order in which they are moved: no new file may ever find the log of an old one

# Times are nanoseconds since the epoch. `ended` is NULL while a trace runs, and for ever after a crash (outcome `interrupted`).
# spans.body: JSON, a list of [span_id, parent_id, name, start, duration, status 0|1|2 (unset, ok, error), attributes, links].
SCHEMA = """
CREATE TABLE traces (
  id INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE, kind TEXT NOT NULL DEFAULT '', name TEXT NOT NULL DEFAULT '',
  started INTEGER NOT NULL, ended INTEGER, outcome TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
  decision TEXT NOT NULL DEFAULT '', gate_reason TEXT NOT NULL DEFAULT '', route TEXT NOT NULL DEFAULT '', team TEXT NOT NULL DEFAULT '',
  channel TEXT NOT NULL DEFAULT '', ts TEXT NOT NULL DEFAULT '', thread_ts TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 1,
  previous BLOB);
CREATE INDEX traces_started ON traces (started);
CREATE INDEX traces_ts ON traces (ts);
CREATE INDEX traces_thread ON traces (thread_ts);
CREATE INDEX traces_previous ON traces (previous) WHERE previous IS NOT NULL;
CREATE TABLE spans (id INTEGER PRIMARY KEY, trace INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX spans_trace ON spans (trace);
CREATE TABLE posts (trace INTEGER NOT NULL, ts TEXT NOT NULL, PRIMARY KEY (trace, ts)) WITHOUT ROWID;
CREATE INDEX posts_ts ON posts (ts);
CREATE TABLE resets (
  trace INTEGER NOT NULL, at INTEGER NOT NULL, key TEXT NOT NULL, route TEXT NOT NULL, session_id TEXT NOT NULL, cause TEXT NOT NULL,
  how TEXT NOT NULL, epoch INTEGER, forgotten INTEGER, pre_tokens INTEGER, post_tokens INTEGER);
CREATE INDEX resets_key ON resets (key, at);
CREATE TABLE starts (trace INTEGER NOT NULL, at INTEGER NOT NULL, session_id TEXT NOT NULL, how TEXT NOT NULL, account TEXT NOT NULL);
CREATE INDEX starts_session ON starts (session_id, at);
"""


class TraceFileUnusable(Exception):
    """What is in the file is not ours to go on with. `mark`: what it is to be called when it is put aside."""

    def __init__(self, why: str, mark: str) -> None:
        super().__init__(why)
        self.why, self.mark = why, mark


def open_to_write(path: Path) -> sqlite3.Connection:
    """Opens or makes the file (0600). Raises TraceFileUnusable: put it aside; OSError, sqlite3.Error: try again later."""
    _make_private(path)
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        _prepare(db, path)
    except sqlite3.Error as error:
        db.close()
        if is_damage(error):
            raise TraceFileUnusable(f"it is damaged ({error})", "damaged") from error
        raise
    except TraceFileUnusable:
        db.close()
        raise
    return db


def open_to_add(path: Path) -> sqlite3.Connection:
    """For a process that does not own it. Raises FileNotFoundError, also for a link, TraceFileUnusable, sqlite3.Error; makes nothing."""
    if path.is_symlink():
        raise FileNotFoundError(path)
    return _open_made(path, mode="rw")


def open_to_read(path: Path) -> sqlite3.Connection:
    """Raises FileNotFoundError, TraceFileUnusable, sqlite3.Error. Changes nothing in it."""
    db = _open_made(path, mode="ro")
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")  # a damaged letter is no reason to show nothing
    return db


def _open_made(path: Path, *, mode: str) -> sqlite3.Connection:
    """One that is there, and has our tables."""
    if not path.is_file():
        raise FileNotFoundError(path)
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        if (version := _version(db)) != VERSION:
            if version == 0 and not _tables(db):  # made a moment ago by a bot that has only just started
                raise FileNotFoundError(path)
            raise TraceFileUnusable(f"it has format {version}, this version reads {VERSION}", f"v{version}")
    except sqlite3.Error as error:
        db.close()
        if is_damage(error):
            raise TraceFileUnusable(f"it is damaged ({error})", "damaged") from error
        raise
    except (TraceFileUnusable, FileNotFoundError):
        db.close()
        raise
    return db


def put_aside(path: Path, mark: str) -> Path:
    """The file goes on living beside itself, with its -wal and -shm. Raises OSError."""
    moved = path.with_name(f"{path.name}.{mark}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    while os.path.lexists(moved):
        moved = moved.with_name(f"{moved.name}x")
    for end in BESIDE:
        there = path.with_name(path.name + end)
        if os.path.lexists(there):
            there.replace(moved.with_name(moved.name + end))
    return moved


def is_damage(error: sqlite3.Error) -> bool:
    """SQLITE_ERROR: our statements are right, so the file lacks what they name, or has a format that it never had."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def _make_private(path: Path) -> None:
    """Before SQLite opens it: the files beside it take over its mode. Its folder may have been deleted under a running bot."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = _open(path)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise TraceFileUnusable("something else has taken its name: a link, a folder or a pipe", "aside") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TraceFileUnusable("something else has taken its name: no ordinary file", "aside")
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    version, tables = _version(db), _tables(db)
    if version > VERSION:
        raise TraceFileUnusable(f"it has format {version}, this version writes {VERSION}", f"v{version}")
    if tables and (tables != _our_tables() or version != VERSION):
        raise TraceFileUnusable("its tables are not those of this version", f"v{version}")
    if tables and path.stat().st_size <= CHECKED_BYTES and (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise TraceFileUnusable(f"it is damaged ({found})", "damaged")
    if not tables:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before the first table: what is pruned is given back to the disk
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")  # a power cut may cost the last moments, never the file
    db.execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
    if not tables:
        db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")


def _tables(db: sqlite3.Connection) -> set[str]:
    """The statements that made them."""
    return {str(row[0]) for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


def _our_tables() -> set[str]:
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(SCHEMA)
        return _tables(db)
    finally:
        db.close()


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
