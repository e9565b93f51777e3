"""Thread → route on disk, and the ids that sessions are resumed by."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.inbox import Inbox
from bot.messages import Change
from bot.state_db import open_state
from bot.thread_routes import ThreadRoute, ThreadRoutes
from telemetry.events import Thread
from tests.bot.ground import FakeClock

HERE, THERE = Thread("T0", "C0", "1761000000.000000"), Thread("T0", "C1", "1761000000.000000")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = open_state(tmp_path / "state.db")
    yield db
    db.close()


def routes(db: sqlite3.Connection, boot: str = "one") -> ThreadRoutes:
    return ThreadRoutes(db, clock=FakeClock(), boot=boot)


def route_of(threads: ThreadRoutes, thread: Thread = HERE) -> ThreadRoute:
    found = threads.get_thread_route(thread)
    assert found is not None
    return found


def test_a_thread_that_nobody_watches_has_no_row(db: sqlite3.Connection) -> None:
    threads = routes(db)

    threads.bind(HERE, route="main", key="main")
    threads.answered(HERE, by_bot=False)
    threads.caught_up(HERE)

    assert threads.get_thread_route(HERE) is None


def test_a_watched_thread_has_no_route_yet(db: sqlite3.Connection) -> None:
    threads = routes(db)

    threads.watch(HERE)

    assert route_of(threads) == ThreadRoute(route="", key="", answered=False, carried=False, overflowed=False, bot_streak=0)
    assert threads.get_thread_route(THERE) is None


def test_a_follow_up_finds_its_route_after_a_restart(db: sqlite3.Connection, tmp_path: Path) -> None:
    threads = routes(db)
    threads.watch(HERE)
    threads.bind(HERE, route="coder", key="coder-C0")
    threads.answered(HERE, by_bot=False)

    other = open_state(tmp_path / "state.db")
    again = route_of(routes(other, boot="two"))

    assert (again.route, again.key, again.answered, again.carried) == ("coder", "coder-C0", True, True)
    other.close()


def test_watching_again_changes_nothing(db: sqlite3.Connection) -> None:
    threads = routes(db)
    threads.watch(HERE)
    threads.bind(HERE, route="coder", key="coder")

    routes(db, boot="two").watch(HERE)

    assert route_of(threads).route == "coder"
    assert not route_of(threads).carried


def test_a_released_thread_leaves_nothing_that_was_said_in_it(db: sqlite3.Connection) -> None:
    threads, inbox = routes(db), Inbox(db, clock=FakeClock())
    for thread in (HERE, THERE):
        threads.watch(thread)
        inbox.keep(thread, "1761000001.000000", Change.POSTED, {"text": "x"})

    threads.release(HERE)

    assert threads.get_thread_route(HERE) is None
    assert [r["channel"] for r in db.execute("SELECT channel FROM said")] == ["C1"]


def test_bots_are_counted_when_they_are_taken_and_a_person_who_is_answered_ends_the_count(db: sqlite3.Connection) -> None:
    threads = routes(db)
    threads.watch(HERE)
    threads.count_bot(HERE)
    threads.count_bot(HERE)

    threads.answered(HERE, by_bot=True)
    assert route_of(threads).bot_streak == 2

    threads.answered(HERE, by_bot=False)
    assert route_of(threads).bot_streak == 0


def test_a_session_is_resumed_by_the_newest_id_of_its_key_and_a_dead_one_never_again(db: sqlite3.Connection) -> None:
    threads = routes(db)
    assert threads.session_id("main") == ""
    threads.remember_session("main", route="main", session_id="s1", account="a")
    threads.remember_session("main", route="main", session_id="s2", account="b")
    threads.remember_session("dm-D1", route="dm", session_id="s3", account="a")

    assert threads.session_id("main") == "s2"

    threads.drop_session("main")
    assert threads.session_id("main") == ""
    assert threads.session_id("dm-D1") == "s3"
