"""The writer's side of `traces.db`: batches in, old traces out. It lives in the trace store's thread. A guest only adds.

What must stay true: a batch is one transaction, written or not, and what was not is the caller's to count. A file that is
damaged is put aside and a new one begun, with the same batch. A disk that is full or refuses is tried again with the next.
No clock that is wrong for a day or two makes it forget (`retention`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.jsonl_days import DAY_NS, day_of
from telemetry.retention import LOOKED_AT, present_day
from telemetry.trace_file import TraceFileUnusable, is_damage, open_to_add, open_to_write, put_aside
from telemetry.trace_rows import INTERRUPTED, Begun, Gathered, gather
from telemetry.troubles import Troubles

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

STEP_TRACES = 50  # deleted at once: about 200 KiB, some milliseconds, and nobody who reads waits for it
STEPS = 20  # of one turn
REMEMBERED_TRACES = 1_000  # row numbers of traces that are still being written; a miss costs one query
RETRY_SECONDS = 5.0  # a file that cannot be opened is not tried for every span
_TABLES = ("spans", "posts", "resets", "starts")


class TraceWriter:
    """`guest`: of a process that does not own the file. What others have not ended it leaves alone, and it makes no file."""

    def __init__(
        self,
        path: Path,
        *,
        troubles: Troubles,
        seconds: float,
        max_bytes: int,
        guest: bool = False,
        now: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._troubles, self._now, self._monotonic = path, troubles, now, monotonic
        self._kept_ns, self._max_bytes, self._guest = int(seconds * 1e9), max_bytes, guest
        self._db: sqlite3.Connection | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._retry_at = 0.0
        self._rows: dict[int, int] = {}

    def write(self, spans: Sequence[ReadableSpan | Begun]) -> int:
        """How many ended spans were lost."""
        gathered = gather(spans)
        count = sum(len(trace.spans) for trace in gathered.values())
        try:
            if self._try(gathered):
                return 0
        except TraceFileUnusable as error:
            if self._begin_anew(error) and self._try(gathered):
                return 0
        return count

    def _try(self, gathered: Mapping[int, Gathered]) -> bool:
        """False: not written, and that was said. Raises TraceFileUnusable."""
        written = False
        with self._told():
            if (db := self._opened()) is not None:
                self._put(db, gathered)
                written = True
        return written

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the disk refuses becomes a line on stderr, once a kind; damage is for the caller to act on."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_damage(error):
                raise TraceFileUnusable(f"it is damaged ({error})", "damaged") from error
            what = f"the trace store cannot be written ({error}); traces are missing until it can, replies are not affected"
            self._troubles.say(f"trace store {type(error).__name__} {getattr(error, 'sqlite_errorname', '')}", what)

    # -- the file ------------------------------------------------------------------------------------------------------
    def _opened(self) -> sqlite3.Connection | None:
        if self._db is not None and self._identity == _identity(self._path):
            return self._db
        self.close()  # deleted, or moved away by hand: what is written there nobody reads
        if self._monotonic() < self._retry_at:
            return None
        self._retry_at = self._monotonic() + RETRY_SECONDS
        self._db = open_to_add(self._path) if self._guest else open_to_write(self._path)
        self._identity, self._retry_at = _identity(self._path), 0.0
        if not self._guest:
            self._db.execute("UPDATE traces SET outcome=? WHERE ended IS NULL AND outcome=''", (INTERRUPTED,))
        return self._db

    def _begin_anew(self, error: TraceFileUnusable) -> bool:
        self.close()
        if self._guest:
            self._troubles.say("trace store aside", f"the trace store {self._path} cannot be used, so there is no trace: {error.why}")
            return False
        try:
            moved = put_aside(self._path, error.mark)
        except OSError as e:
            self._troubles.say("trace store aside", f"the trace store {self._path} cannot be used: {error.why}; nor moved: {e.strerror}")
            return False
        self._retry_at = 0.0
        self._troubles.say(
            f"trace store {moved.name}", f"the trace store was put aside as {moved.name}, and a new one is begun: {error.why}"
        )
        return True

    def close(self) -> None:
        db, self._db = self._db, None
        self._rows.clear()
        if db is not None:
            with suppress(sqlite3.Error):  # of a disk that takes no last checkpoint; what was written is in the file beside it
                db.close()

    # -- rows (inside a transaction) -----------------------------------------------------------------------------------
    def _put(self, db: sqlite3.Connection, gathered: Mapping[int, Gathered]) -> None:
        if not gathered:
            return
        if len(self._rows) > REMEMBERED_TRACES:
            self._rows.clear()
        try:
            with _transaction(db):
                for trace_id, trace in gathered.items():
                    self._trace(db, trace_id, trace)
        except BaseException:
            self._rows.clear()  # some of them were taken back
            raise

    def _trace(self, db: sqlite3.Connection, trace_id: int, trace: Gathered) -> None:
        row = self._row(db, trace_id, trace)
        if trace.spans:
            db.execute("INSERT INTO spans (trace, body) VALUES (?,?)", (row, trace.body))
        if trace.posts:
            db.executemany("INSERT OR IGNORE INTO posts VALUES (?,?)", [(row, ts) for ts in trace.posts])
        if trace.resets:
            db.executemany("INSERT INTO resets VALUES (?,?,?,?,?,?,?,?,?,?,?)", [(row, *reset) for reset in trace.resets])
        if trace.starts:
            db.executemany("INSERT INTO starts VALUES (?,?,?,?,?)", [(row, *start) for start in trace.starts])
        if previous := trace.columns.get("previous"):
            db.execute("UPDATE traces SET outcome=? WHERE trace_id=? AND ended IS NULL", (INTERRUPTED, previous))

    def _row(self, db: sqlite3.Connection, trace_id: int, trace: Gathered) -> int:
        columns, row = trace.columns, self._rows.get(trace_id)
        if row is None:
            key = trace_id.to_bytes(16, "big")
            found = db.execute("SELECT id FROM traces WHERE trace_id=?", (key,)).fetchone()
            if found is None:
                row = _insert(db, {"trace_id": key, "started": trace.first_start, **columns})
                self._rows[trace_id] = row
                return row
            row = self._rows[trace_id] = int(found[0])
        if columns:
            names = ", ".join(f"{name}=?" for name in columns)
            db.execute(f"UPDATE traces SET {names} WHERE id=?", (*columns.values(), row))
        if "ended" in columns:
            self._rows.pop(trace_id, None)
        return row

    # -- bounds --------------------------------------------------------------------------------------------------------
    def prune(self) -> bool:
        """Some steps towards the bounds, the oldest traces first. True: there is more to do."""
        if self._guest:
            return False
        try:
            with self._told():
                return all(self._prune_step() for _ in range(STEPS))
        except TraceFileUnusable as error:
            self._begin_anew(error)
        return False

    def _prune_step(self) -> bool:
        """False: the bounds are kept."""
        if (db := self._db) is None or not (rows := self._too_old(db) or self._too_many(db)):
            return False
        marks = ",".join("?" * len(rows))
        with _transaction(db):
            for table in _TABLES:
                db.execute(f"DELETE FROM {table} WHERE trace IN ({marks})", rows)
            db.execute(f"DELETE FROM traces WHERE id IN ({marks})", rows)
        self._rows.clear()
        db.executescript("PRAGMA incremental_vacuum")  # `execute` would stop after the first page
        return True

    def _too_old(self, db: sqlite3.Connection) -> list[int]:
        """Row numbers of this step, by when their traces began: one of a day to come stands in nobody's way."""
        now = self._now()
        if not _began_before(db, now - self._kept_ns):
            return []
        present = min(now, (present_day(_days(db, now), day_of(now)) - day_of(0)).days * DAY_NS + DAY_NS)
        return _began_before(db, present - self._kept_ns)

    def _too_many(self, db: sqlite3.Connection) -> list[int]:
        pages, free, size = (int(db.execute(f"PRAGMA {what}").fetchone()[0]) for what in ("page_count", "freelist_count", "page_size"))
        if (pages - free) * size <= self._max_bytes:
            return []
        return [int(row) for (row,) in db.execute("SELECT id FROM traces ORDER BY id LIMIT ?", (STEP_TRACES,))]


def _began_before(db: sqlite3.Connection, limit: int) -> list[int]:
    rows = db.execute("SELECT id FROM traces WHERE started < ? ORDER BY started LIMIT ?", (limit, STEP_TRACES))
    return [int(row) for (row,) in rows]


def _days(db: sqlite3.Connection, now: int) -> Iterator[date]:
    """The newest days on which traces began, none of them to come."""
    below: int | None = now + 1
    for _ in range(LOOKED_AT):
        below = db.execute("SELECT max(started) FROM traces WHERE started < ?", (below,)).fetchone()[0]
        if below is None:
            return
        yield day_of(below)
        below = below // DAY_NS * DAY_NS


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Written as a whole, or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite ends some failed ones by itself
            db.execute("ROLLBACK")
        raise


def _insert(db: sqlite3.Connection, columns: Mapping[str, Any]) -> int:
    names, marks = ", ".join(columns), ",".join("?" * len(columns))
    return int(db.execute(f"INSERT INTO traces ({names}) VALUES ({marks})", tuple(columns.values())).lastrowid or 0)


def _identity(path: Path) -> tuple[int, int]:
    try:
        there = path.lstat()
    except OSError:
        return (-1, -1)
    return there.st_dev, there.st_ino
