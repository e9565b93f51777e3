"""A disk that is full: what was accepted waits and is answered, what arrives is not acknowledged, and people are told.

The disk is real SQLite's own bound on the pages of its file: SQLITE_FULL, as on a disk without room.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.patience import PAUSE_SECONDS
from bot.state_db import disk_refusal, telling_damage
from telemetry.events import StateTrouble, StateTroubled
from tests.bot.bench import Bench, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, GENERAL, failed, settled

BIG = "x" * 6_000  # so that it takes a page of its own


def fill(bench: Bench) -> None:
    """No page more, and the room in those that are there used up."""
    bench.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = bench.db.execute("PRAGMA page_count").fetchone()[0]
    bench.db.execute(f"PRAGMA max_page_count={pages}")
    room, number = 4_000, 0
    while room > 10:
        number += 1
        try:
            bench.db.execute("INSERT INTO told VALUES (?)", (f"ballast {number} " + "x" * room,))
        except sqlite3.OperationalError:
            room //= 2


def make_room(bench: Bench) -> None:
    bench.db.execute("PRAGMA max_page_count=1000000")
    bench.db.execute("DELETE FROM told WHERE what LIKE 'ballast%'")


def refuse(bench: Bench, statement: str) -> Callable[[], None]:
    """The disk refuses one kind of write; call what is returned to mend it."""
    bench.refused.append(statement)

    def mend() -> None:
        bench.refused.remove(statement)

    return mend


def troubles(bench: Bench) -> list[str]:
    return [fact.trouble.value for fact in bench.emit.of(StateTroubled)]


async def wait(bench: Bench, seconds: float) -> None:
    bench.clock.advance(seconds)
    await settled()


# -- what arrives ------------------------------------------------------------------------------------------------------
async def test_an_event_that_finds_no_room_is_not_acknowledged_and_its_author_is_told(bench: Bench) -> None:
    await bench.ask("Hello")
    fill(bench)
    message = bench.slack.put(GENERAL, "<@U0BOT> And this? " + BIG, user="U2")

    for _ in range(4):  # Slack tries four times
        with pytest.raises(sqlite3.OperationalError, match="full"):
            bench.deliver(GENERAL, message)
    await settled()

    told = [call for call in bench.slack.of("post") if "could not take your message" in call.text]
    assert [call.thread_ts for call in told] == [message["ts"]], "once"
    assert set(troubles(bench)) == {"not_taken"} and bench.emit.of(StateTroubled)[0].error == "SQLITE_FULL"
    make_room(bench)
    bench.deliver(GENERAL, message)
    await bench.ended()
    assert bench.asked(message["ts"]).text == "answer 2"


async def test_in_the_language_of_the_message(make_bench: Make) -> None:
    bench = make_bench(language="auto")
    fill(bench)
    with pytest.raises(sqlite3.OperationalError):
        bench.mention("空きは？" + BIG)
    await settled()

    assert "ディスクの空きがないか故障" in bench.slack.of("post")[0].text


async def test_what_others_say_meanwhile_is_not_lost_silently(bench: Bench) -> None:
    """Nobody is told, but the thread is read again: Slack may have given these events up."""
    root = bench.old_thread("The code is walnut.")
    await bench.ask("What is the code?", thread=root)
    fill(bench)
    with pytest.raises(sqlite3.OperationalError):
        bench.write("It is now oak. " + BIG, thread=root, user="U2")
    bench.sessions.doubt_delivery()  # as `Deliveries` does with what could not be taken
    make_room(bench)

    again = await bench.ask("And now?", thread=root)

    assert again.gate is not None and again.gate[1] == "delivery_gap" and quoted(again.prompt)[-1].startswith("It is now oak.")


# -- what was accepted -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("statement", ["UPDATE messages SET state='answering'", "UPDATE threads SET route", "UPDATE messages SET route"])
async def test_a_message_that_was_accepted_waits_for_room_and_is_answered(bench: Bench, statement: str) -> None:
    mend = refuse(bench, statement)
    asked = bench.mention("Hello")
    await settled()
    await wait(bench, PAUSE_SECONDS + 1)
    await wait(bench, PAUSE_SECONDS + 1)

    (told,) = bench.slack.of("post")
    assert "Your message is kept" in told.text and told.thread_ts == asked
    assert troubles(bench) == ["not_begun"], "once"
    mend()
    await bench.ended()
    assert bench.asked(asked).text == "answer 1"


async def test_its_lane_keeps_the_order(bench: Bench) -> None:
    mend = refuse(bench, "UPDATE messages SET state='answering'")
    one, two = bench.mention("One"), bench.mention("Two")
    await settled()
    mend()
    await bench.ended()

    assert (bench.asked(one).text, bench.asked(two).text) == ("answer 1", "answer 2")


async def test_a_bot_that_ends_meanwhile_leaves_it_to_the_next(make_bench: Make) -> None:
    first = make_bench()
    mend = refuse(first, "UPDATE messages SET state='answering'")
    asked = first.mention("Hello")
    await settled()
    draining = asyncio.get_running_loop().create_task(first.app.drain(60))
    await settled()
    await wait(first, PAUSE_SECONDS + 1)
    assert await draining is True
    mend()
    await first.sessions.close_all()

    second = make_bench(before=first)
    second.app.recover()
    await second.ended()

    assert second.asked(asked).text == "answer 1"


async def test_an_answer_that_finds_no_room_is_posted_once_there_is_some(bench: Bench) -> None:
    mend = refuse(bench, "INSERT OR REPLACE INTO replies")
    asked = bench.mention("Hello")
    await settled()
    await wait(bench, PAUSE_SECONDS + 1)

    (told,) = bench.slack.of("post")
    assert "Your message is kept" in told.text and told.thread_ts == asked
    assert troubles(bench) == ["not_kept"] and bench.open_messages == 1 and bench.outcomes == []
    mend()
    await bench.ended()
    assert bench.asked(asked).text == "answer 1" and len(bench.claude.prompts) == 1, "it was not made again"


async def test_a_bot_that_ends_before_its_answer_finds_room_leaves_the_question_to_the_next(make_bench: Make) -> None:
    first = make_bench()
    mend = refuse(first, "INSERT OR REPLACE INTO replies")
    asked = first.mention("Hello")
    await settled()
    draining = asyncio.get_running_loop().create_task(first.app.drain(60))
    await settled()
    await wait(first, PAUSE_SECONDS + 1)
    assert await draining is True and first.outcomes == []
    assert first.db.execute("SELECT state, attempt FROM messages").fetchone()[:] == ("waiting", 2), "nobody died of it"
    mend()
    await first.sessions.close_all()

    second = make_bench(before=first)
    second.app.recover()
    await second.ended()

    assert second.asked(asked).text == "answer 2"


async def test_an_answer_is_given_even_if_its_end_cannot_be_written_and_that_is_done_later(bench: Bench) -> None:
    mend = refuse(bench, "UPDATE messages SET state='ended'")
    asked = bench.mention("Hello")
    await settled()

    assert bench.asked(asked).text == "answer 1" and bench.open_messages == 1
    assert bench.outcomes == [("answered", None)] and troubles(bench) == ["not_ended"]
    mend()
    await wait(bench, PAUSE_SECONDS + 1)
    assert bench.open_messages == 0 and bench.outcomes == [("answered", None)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE said SET carried=1",
        "UPDATE threads SET overflowed=0",
        "UPDATE threads SET answered=1",
        "INSERT INTO sessions",
    ],
)
async def test_what_can_be_done_without_does_not_cost_the_answer(bench: Bench, statement: str) -> None:
    root = bench.old_thread("The code is walnut.")
    refuse(bench, statement)

    first = await bench.ask("What is the code?", thread=root)
    bench.write("By the way", thread=root, user="U2")
    second = await bench.ask("And?", thread=root)
    third = await bench.ask("And now?", thread=root)

    assert [a.outcome for a in (first, second, third)] == ["answered"] * 3
    assert quoted(second.prompt) == ["By the way"] and quoted(third.prompt) == [], "shown once all the same"


async def test_an_account_whose_rest_cannot_be_written_down_rests_all_the_same(make_bench: Make) -> None:
    bench = make_bench(accounts=("work", "home"))
    refuse(bench, "INSERT OR REPLACE INTO accounts")
    bench.claude.turn(replace(failed("rate_limit"), resets_at=bench.clock.now() + 3_600))

    first, second = await bench.ask("Hello"), await bench.ask("And?")

    assert (first.outcome, second.outcome) == ("answered", "answered") and len(bench.claude.prompts) == 3


async def test_what_is_wrong_otherwise_is_no_matter_of_patience(bench: Bench) -> None:
    bench.db.execute("CREATE TRIGGER odd BEFORE UPDATE OF state ON messages WHEN NEW.state='answering' BEGIN SELECT RAISE(FAIL, 'x'); END")
    bench.mention("Hello")
    await settled()

    assert troubles(bench) == [] and bench.slack.count("post") == 0
    bench.db.execute("DROP TRIGGER odd")


async def test_refusals_of_people_do_not_depend_on_the_disk(make_bench: Make) -> None:
    bench = make_bench(users=("U1",))
    refuse(bench, "INSERT OR IGNORE INTO told")
    bench.mention("Hello", user="U9")
    await settled()

    assert bench.slack.count("whisper") == 0 and (await bench.ask("Hello", channel=CODE)).outcome == "answered"


def test_which_errors_of_sqlite_are_the_disks() -> None:
    full = sqlite3.connect(":memory:")
    full.execute("PRAGMA max_page_count=1")
    with pytest.raises(sqlite3.OperationalError) as of_disk:
        full.execute("CREATE TABLE t (x)")
        full.execute("CREATE TABLE u (x)")
    with pytest.raises(sqlite3.OperationalError) as of_code:
        full.execute("SELECT nothing FROM nowhere")

    assert disk_refusal(of_disk.value) == "SQLITE_FULL"
    assert disk_refusal(of_code.value) == disk_refusal(OSError()) == disk_refusal(sqlite3.OperationalError("full")) == ""
    assert StateTrouble.NOT_BEGUN in StateTrouble
    full.close()


async def test_a_file_that_is_damaged_under_the_bot_is_told_to_whoever_can_end_it(bench: Bench) -> None:
    told: list[str] = []
    take = telling_damage(bench.intake.take, lambda: told.append("broken"))
    await bench.ask("Hello")
    bench.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = bench.folder / "state.db"
    content = path.read_bytes()
    path.write_bytes(content[:4_096] + b"\xee" * (len(content) - 4_096))
    bench.db.execute("PRAGMA shrink_memory")  # or what it holds in memory would serve

    with pytest.raises(sqlite3.DatabaseError):
        take({"team_id": "T1", "event": {**bench.slack.put(GENERAL, "<@U0BOT> Hello"), "channel": GENERAL}})

    assert told == ["broken"]
    path.write_bytes(content)
    bench.db.execute("PRAGMA shrink_memory")


def test_other_errors_are_no_damage() -> None:
    told: list[str] = []

    def refuses(_: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    with pytest.raises(sqlite3.OperationalError):
        telling_damage(refuses, lambda: told.append("broken"))({})
    assert told == []
