"""Thread → route, durable: a follow-up goes where its thread went, whatever was reconfigured or restarted since.

A row exists from the moment a message of the thread is accepted, still without a route: from then on the inbox keeps
what others say there. Sessions' resume ids live beside it, written only after a session's first answered turn.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from bot.ports import Clock
from bot.state_db import as_the_disk_allows
from telemetry.events import Thread

MAX_BOT_STREAK = 5  # messages of bots in a row in one thread that are taken; two bots would otherwise talk for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRoute:
    """`carried`: it was there before this process began. `overflowed`: what others said was too much, or too old, to keep.

    `bot_streak`: messages of bots that were accepted since a person last got an answer.
    """

    route: str
    key: str
    answered: bool
    carried: bool
    overflowed: bool
    bot_streak: int


class ThreadRoutes:
    def __init__(self, db: sqlite3.Connection, *, clock: Clock, boot: str) -> None:
        self._db, self._clock, self._boot = db, clock, boot

    def get_thread_route(self, thread: Thread) -> ThreadRoute | None:
        r = self._db.execute("SELECT * FROM threads WHERE team=? AND channel=? AND ts=?", _key(thread)).fetchone()
        if r is None:
            return None
        return ThreadRoute(
            route=r["route"],
            key=r["key"],
            answered=bool(r["answered"]),
            carried=r["boot"] != self._boot,
            overflowed=bool(r["overflowed"]),
            bot_streak=r["bot_streak"],
        )

    def watch(self, thread: Thread) -> None:
        self._db.execute(
            "INSERT OR IGNORE INTO threads (team, channel, ts, boot, created_at) VALUES (?,?,?,?,?)",
            (*_key(thread), self._boot, self._clock.now()),
        )

    def bind(self, thread: Thread, *, route: str, key: str) -> None:
        self._db.execute("UPDATE threads SET route=?, key=? WHERE team=? AND channel=? AND ts=?", (route, key, *_key(thread)))

    def release(self, thread: Thread) -> None:
        """No route after all: the thread is not watched, and nothing said in it is kept."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM threads WHERE team=? AND channel=? AND ts=?", _key(thread))
            self._db.execute("DELETE FROM said WHERE team=? AND channel=? AND thread_ts=?", _key(thread))

    def count_bot(self, thread: Thread) -> None:
        """A bot's message was accepted: counted now, not when it is answered, so that a burst, or failures, end as well."""
        self._db.execute("UPDATE threads SET bot_streak=bot_streak+1 WHERE team=? AND channel=? AND ts=?", _key(thread))

    def answered(self, thread: Thread, *, by_bot: bool) -> None:
        """`by_bot`: who was answered. A person's answer ends the streak."""
        with as_the_disk_allows():
            self._db.execute(
                "UPDATE threads SET answered=1, bot_streak=CASE WHEN ? THEN bot_streak ELSE 0 END WHERE team=? AND channel=? AND ts=?",
                (by_bot, *_key(thread)),
            )

    def caught_up(self, thread: Thread) -> None:
        """It was read to the end. What was lost after that reading began, or lay behind its end, still has to be read."""
        with as_the_disk_allows():
            self._db.execute("UPDATE threads SET overflowed=0 WHERE team=? AND channel=? AND ts=? AND lost_ts=''", _key(thread))

    # -- resume ids ----------------------------------------------------------------------------------------------------
    def session_id(self, key: str) -> str:
        r = self._db.execute("SELECT session_id FROM sessions WHERE key=?", (key,)).fetchone()
        return str(r[0]) if r else ""

    def remember_session(self, key: str, *, route: str, session_id: str, account: str) -> None:
        with as_the_disk_allows():
            self._db.execute(
                "INSERT INTO sessions VALUES (?,?,?,?,?) ON CONFLICT (key) DO UPDATE SET"
                " route=excluded.route, session_id=excluded.session_id, account=excluded.account, updated_at=excluded.updated_at",
                (key, route, session_id, account, self._clock.now()),
            )

    def drop_session(self, key: str) -> None:
        """A dead id is never tried again."""
        with as_the_disk_allows():
            self._db.execute("DELETE FROM sessions WHERE key=?", (key,))


def _key(thread: Thread) -> tuple[str, str, str]:
    return thread.team, thread.channel, thread.ts
