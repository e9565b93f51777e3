"""Until when accounts rest, in `state.db`: a bot that is started again does not ask at once what refused it.

A row holds for the credential under which it was written: whoever puts another key into the variable begins anew.
What a full disk does not take is only asked once more than it had to be.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass

from bot.state_db import as_the_disk_allows


@dataclass(frozen=True, slots=True)
class Rest:
    """`state`: an AccountState's value. `until`: seconds since the epoch."""

    state: str
    until: float


class AccountRests:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def get(self, account: str, *, secret: str) -> Rest | None:
        r = self._db.execute("SELECT state, until FROM accounts WHERE account=? AND credential=?", (account, _mark(secret))).fetchone()
        return Rest(str(r["state"]), float(r["until"])) if r else None

    def put(self, account: str, rest: Rest, *, secret: str) -> None:
        with as_the_disk_allows():
            self._db.execute("INSERT OR REPLACE INTO accounts VALUES (?,?,?,?)", (account, _mark(secret), rest.state, rest.until))

    def drop(self, account: str) -> None:
        with as_the_disk_allows():
            self._db.execute("DELETE FROM accounts WHERE account=?", (account,))


def _mark(secret: str) -> str:
    """Tells one credential from the next, and nothing of either."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]
