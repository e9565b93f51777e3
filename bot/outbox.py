"""Replies on their way to Slack: on disk before their first part is posted, gone with the end of their message (`inbox`).

What must stay true: nothing of a reply is posted that is not kept here first. So whoever comes after a crash goes on with
the same words, and a message of which nothing is kept here has no part of an answer in Slack.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict

from bot.reply_parts import Reply
from telemetry.events import FailReason, Outcome


class Outbox:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def keep(self, row: int, reply: Reply) -> None:
        """Durable when it returns; it takes the place of what was kept for that message before."""
        self._db.execute("INSERT OR REPLACE INTO replies VALUES (?,?)", (row, json.dumps(asdict(reply))))

    def kept(self, row: int) -> Reply | None:
        found = self._db.execute("SELECT body FROM replies WHERE message=?", (row,)).fetchone()
        return reply_of(found[0]) if found is not None else None


def reply_of(body: str) -> Reply:
    """As it was kept. Raises ValueError, TypeError or KeyError for anything else."""
    told = json.loads(body)
    reason = FailReason(told["reason"]) if told["reason"] else None
    return Reply(**{**told, "outcome": Outcome(told["outcome"]), "reason": reason})
