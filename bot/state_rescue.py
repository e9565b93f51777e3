"""A `state.db` that is damaged: put aside under a name of its own, and what can be read of it taken over into a new one.

What must stay true: nothing of the damaged file is deleted or changed; a row is taken over only if it makes sense; what others
said in threads is not, those threads are read again from Slack. Files that are another version's, or another program's, stay
where they are: whoever started the bot is told.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.outbox import reply_of
from bot.ports import Clock
from bot.state_db import StateUnreadable, open_state

BESIDE = ("", "-wal", "-shm")  # the file itself first: a log that is left beside a new file is not read
NOT_TAKEN_OVER = frozenset({"said"})
OF_OPEN_MESSAGES = frozenset({"replies", "deaths"})  # without its message, a row would become another one's that gets its id
_TS = re.compile(r"[0-9]{1,16}\.[0-9]{1,16}")
_STATES = frozenset({"waiting", "answering", "ended"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """`aside`: where the damaged file is now. `rows` taken over, by table; `open_messages`: of them those without an answer."""

    aside: Path
    why: str
    rows: Mapping[str, int]
    open_messages: int


def open_or_rescue(path: Path, *, clock: Clock) -> tuple[sqlite3.Connection, Rescued | None]:
    """Raises StateUnreadable for whatever is wrong with the file that is no damage."""
    try:
        return open_state(path), None
    except StateUnreadable as e:
        if not e.damaged:
            raise
        why = e.why
    aside = _put_aside(path, clock.now())
    db = open_state(path)
    rows = _take_over(aside, db)
    waiting = int(db.execute("SELECT count(*) FROM messages WHERE state != 'ended'").fetchone()[0])
    rescued = Rescued(aside=aside, why=why, rows=rows, open_messages=waiting)
    print(f"insomnia: {_told(path, rescued)}", file=sys.stderr)
    return db, rescued


def _put_aside(path: Path, now: float) -> Path:
    """Raises StateUnreadable where it cannot be moved."""
    name = f"{path.name}.damaged-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    taken = sum(other.name.startswith(name) and not other.name.endswith(BESIDE[1:]) for other in path.parent.iterdir())
    aside = path.with_name(f"{name}-{taken + 1}" if taken else name)
    try:
        for suffix in BESIDE:
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    except OSError as e:
        raise StateUnreadable(path, f"it is damaged, and cannot be moved away ({e.strerror})", "Give the folder to the bot's user.") from e
    return aside


def _told(path: Path, rescued: Rescued) -> str:
    taken = ", ".join(f"{count} of {table}" for table, count in rescued.rows.items() if count) or "nothing"
    return (
        f"{path}: {rescued.why}. It was put aside as {rescued.aside.name}, and a new one begun. Taken over: {taken}; "
        f"{rescued.open_messages} messages wait for an answer. Mentions of the last hour are looked for in Slack; "
        "older questions that could not be read stay unanswered"
    )


# -- taking over -------------------------------------------------------------------------------------------------------
def _take_over(aside: Path, db: sqlite3.Connection) -> dict[str, int]:
    try:
        with contextlib.closing(sqlite3.connect(f"{aside.resolve().as_uri()}?mode=ro", uri=True)) as old:
            old.row_factory = sqlite3.Row
            return {table: _take_table(table, old, db) for table in _tables(db) if table not in NOT_TAKEN_OVER}
    except sqlite3.Error:
        return {}


def _tables(db: sqlite3.Connection) -> list[str]:
    return [str(row[0]) for row in db.execute("SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'")]


def _take_table(table: str, old: sqlite3.Connection, db: sqlite3.Connection) -> int:
    about = db.execute(f"PRAGMA table_info({table})").fetchall()
    columns = [str(c["name"]) for c in about]
    key = ", ".join(str(c["name"]) for c in sorted(about, key=lambda c: int(c["pk"])) if c["pk"])
    found = {tuple(row[k] for k in key.split(", ")): row for row in _readable(old, table, key) if _makes_sense(table, row)}
    if table in OF_OPEN_MESSAGES:
        waiting = {row[0] for row in db.execute("SELECT id FROM messages WHERE state != 'ended'")}
        found = {k: row for k, row in found.items() if row["message"] in waiting}
    count = 0
    with db:
        db.execute("BEGIN IMMEDIATE")
        for row in found.values():
            values = {name: row[name] for name in columns if name in row.keys()}  # noqa: SIM118 - of a Row, `in` asks for a value
            if table == "threads":
                values["overflowed"] = 1
            named, marks = ", ".join(values), ", ".join("?" * len(values))
            with contextlib.suppress(sqlite3.IntegrityError, sqlite3.ProgrammingError):
                count += db.execute(f"INSERT OR IGNORE INTO {table} ({named}) VALUES ({marks})", list(values.values())).rowcount
    return count


def _readable(old: sqlite3.Connection, table: str, key: str) -> Iterator[sqlite3.Row]:
    """From both ends up to the damage."""
    for way in ("ASC", "DESC"):
        by = ", ".join(f"{column} {way}" for column in key.split(", "))
        with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
            yield from old.execute(f"SELECT * FROM {table} ORDER BY {by}")


def _makes_sense(table: str, row: Mapping[str, Any] | sqlite3.Row) -> bool:
    try:
        if table == "replies":
            return bool(reply_of(row["body"]).parts)
        if table != "messages":
            return True
        body = json.loads(row["body"])
        whole = isinstance(body, dict) and row["state"] in _STATES and float(row["accepted_at"]) > 0
        return whole and all(_TS.fullmatch(row[name]) for name in ("ts", "thread_ts"))
    except (ValueError, TypeError, KeyError, IndexError):
        return False
