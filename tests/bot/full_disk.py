"""A database on a disk that refuses what a test says, with the very error that SQLite raises then."""

from __future__ import annotations

import sqlite3
from typing import Any


class RefusingDb:
    """Stands before a connection. `refused`: the beginnings of statements that the disk does not take."""

    def __init__(self, db: sqlite3.Connection, refused: list[str]) -> None:
        self.connection, self._refused = db, refused

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if any(statement.startswith(beginning) for beginning in self._refused):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
            raise error
        return self.connection.execute(statement, *values)

    def __enter__(self) -> Any:
        return self.connection.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self.connection.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)
