"""Files by day: whose day counts, where `current.log` points, what is removed when."""

from __future__ import annotations

import fcntl
import os
from datetime import date, timedelta
from pathlib import Path

import pytest

from telemetry.jsonl_days import DAY_NS, day_files, day_in, day_of, log_folders, point_current, timestamp
from telemetry.names import Event, Stream
from tests.telemetry.log_files import DAY, NEXT_DAY, NOON, SECOND, Logs, at, record

MIDNIGHT = at(f"{NEXT_DAY}T00:00:00")


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path, now=MIDNIGHT)


def test_a_line_is_in_the_file_of_its_own_day_to_the_nanosecond(logs: Logs) -> None:
    logs.write({"n": 1}, when=MIDNIGHT - 1)
    logs.write({"n": 2}, when=MIDNIGHT)
    logs.write({"n": 3}, when=MIDNIGHT - SECOND)  # told late

    assert [(line["n"], line["ts"]) for line in logs.lines()] == [(1, f"{DAY}T23:59:59.999Z"), (3, f"{DAY}T23:59:59.000Z")]
    assert [(line["n"], line["ts"]) for line in logs.lines(NEXT_DAY)] == [(2, f"{NEXT_DAY}T00:00:00.000Z")]


def test_a_record_without_a_time_has_the_one_at_which_it_was_observed(logs: Logs) -> None:
    made = record()
    made.log_record.timestamp = 0
    logs.exporter.export([made])

    assert [line["ts"] for line in logs.lines()] == [f"{DAY}T12:00:00.000Z"]


def test_current_moves_with_the_day_and_a_late_line_does_not_turn_it_back(logs: Logs) -> None:
    pointed = []
    for when in (MIDNIGHT - SECOND, MIDNIGHT, MIDNIGHT - 1, MIDNIGHT + SECOND):
        logs.write(when=when)
        pointed.append(os.readlink(logs.current))

    assert pointed == [f"bot-{DAY}.log", *[f"bot-{NEXT_DAY}.log"] * 3]


def test_a_process_that_is_late_does_not_turn_back_what_another_one_moved_meanwhile(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked while the link was still old, and the other one came in between."""
    logs.folder.mkdir()
    logs.current.symlink_to("bot-2026-02-27.log")
    really = fcntl.flock

    def after_the_other(lock: int, what: int) -> None:
        if what != fcntl.LOCK_UN:
            logs.current.unlink()
            logs.current.symlink_to(f"bot-{NEXT_DAY}.log")
        really(lock, what)

    monkeypatch.setattr(fcntl, "flock", after_the_other)
    logs.write(when=MIDNIGHT - 1)

    assert os.readlink(logs.current) == f"bot-{NEXT_DAY}.log"


def test_nobody_waits_for_a_process_that_is_moving_the_link(logs: Logs) -> None:
    logs.folder.mkdir()
    with (logs.folder / ".current.log.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        moved = point_current(logs.folder, Stream.BOT, date.fromisoformat(NEXT_DAY), today=date.fromisoformat(NEXT_DAY))

    assert (moved, logs.current.is_symlink()) == (False, False)


def test_a_link_that_could_not_be_moved_is_moved_with_the_next_line(logs: Logs) -> None:
    logs.write(when=MIDNIGHT - 1)
    with (logs.folder / ".current.log.lock").open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert logs.write({"n": 1}, when=MIDNIGHT)
        assert os.readlink(logs.current) == f"bot-{DAY}.log"

    assert logs.write({"n": 2}, when=MIDNIGHT)

    assert os.readlink(logs.current) == f"bot-{NEXT_DAY}.log"
    assert [line["n"] for line in logs.lines(NEXT_DAY)] == [1, 2]


@pytest.mark.parametrize("left", ["bot-2031-01-01.log", "/etc/passwd", "memory-2026-03-02.log", "bot-2026-99-99.log"])
def test_a_link_that_cannot_be_right_is_set_right_and_not_followed(logs: Logs, left: str) -> None:
    logs.folder.mkdir()
    logs.current.symlink_to(left)

    logs.write(when=MIDNIGHT)

    assert os.readlink(logs.current) == f"bot-{NEXT_DAY}.log"


def test_an_event_far_from_the_future_is_written_and_moves_nothing(logs: Logs) -> None:
    logs.write(when=MIDNIGHT)
    logs.write({"n": 1}, when=MIDNIGHT + 900 * DAY_NS)

    assert os.readlink(logs.current) == f"bot-{NEXT_DAY}.log"
    assert [line["n"] for line in logs.lines("2028-08-18")] == [1]


def test_a_file_in_place_of_the_link_is_left_and_costs_no_line(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.folder.mkdir()
    logs.current.write_text("somebody's")

    assert logs.write({"n": 1}, when=MIDNIGHT) and logs.write({"n": 2}, when=MIDNIGHT)

    assert logs.current.read_text() == "somebody's"
    assert capsys.readouterr().err.count("could not be kept in order") == 1


def test_only_names_of_ours_count(tmp_path: Path) -> None:
    names = ["bot-2026-03-01.log", "bot-2026-03-01.log.gz", "bot-2026-3-1.log", "bot-2026-02-30.log", "xbot-2026-03-01.log"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "bot-2026-03-02.log").symlink_to("bot-2026-03-01.log")
    (tmp_path / "bot-2026-03-03.log").mkdir()

    assert day_files(tmp_path, Stream.BOT) == [(date(2026, 3, 1), "bot-2026-03-01.log")]
    assert day_files(tmp_path, Stream.MEMORY) == day_files(tmp_path / "none", Stream.BOT) == []
    assert day_in("bot-２０２６-03-01.log", Stream.BOT) is None


def test_a_file_stays_for_ninety_days(logs: Logs) -> None:
    logs.folder.mkdir()
    today = day_of(MIDNIGHT)
    names = {ago: f"bot-{today - timedelta(days=ago)}.log" for ago in (1, 2, 90, 91, 400)}
    for name in names.values():
        (logs.folder / name).touch()

    logs.write(when=MIDNIGHT)

    assert {name for _, name in day_files(logs.folder, Stream.BOT)} == {names[1], names[2], names[90], f"bot-{NEXT_DAY}.log"}


def test_what_is_too_old_goes_with_each_new_day_of_a_process_that_stays(logs: Logs) -> None:
    logs.write(when=MIDNIGHT)
    logs.now += 90 * DAY_NS
    for _ in range(3):
        logs.now += DAY_NS
        logs.write({"n": 1}, when=logs.now)

    assert [name for _, name in day_files(logs.folder, Stream.BOT)] == [f"bot-2026-06-0{n}.log" for n in (1, 2, 3)]


@pytest.mark.parametrize("years", [1, 10])
def test_a_clock_that_leaps_ahead_deletes_nothing_and_hinders_nothing_later(logs: Logs, years: int) -> None:
    logs.now = MIDNIGHT
    for _ in range(5):
        logs.now += DAY_NS
        logs.write(when=logs.now)
    before = day_files(logs.folder, Stream.BOT)
    right = logs.now

    logs.now = right + years * 365 * DAY_NS
    logs.write(when=logs.now)
    leapt = day_files(logs.folder, Stream.BOT)
    for days in (98, 99, 100):
        logs.now = right + days * DAY_NS
        logs.write(when=logs.now)

    assert leapt[:-1] == before and len(leapt) == 6
    assert [day for day, _ in day_files(logs.folder, Stream.BOT)] == [day_of(right + days * DAY_NS) for days in (98, 99, 100, years * 365)]


def test_a_link_that_was_deleted_alone_is_back_with_the_next_line(logs: Logs) -> None:
    logs.write(when=logs.now)
    logs.current.unlink()

    logs.write({"n": 2}, when=logs.now)

    assert logs.current.read_text().count("\n") == 2


def test_the_file_being_written_stays_however_old_its_day_is(logs: Logs) -> None:
    """An event whose time is wrong, or a process that was stopped for a season."""
    logs.now = MIDNIGHT + 200 * DAY_NS

    assert logs.write({"n": 1}) and logs.another().export([record({"n": 2})]).name == "SUCCESS"

    assert [line["n"] for line in logs.lines()] == [1, 2]


def test_each_stream_has_its_folder_and_its_own_numbers(logs: Logs) -> None:
    logs.write(event=Event.REPLY)
    logs.write(event=Event.WORKER_LIFECYCLE)
    logs.write(event="something of a library")

    memory = log_folders(logs.state)[Stream.MEMORY]
    assert memory == logs.state / "memory" / "_logs"
    assert [line["seq"] for line in logs.lines()] == [1, 2]
    assert os.readlink(memory / "current.log") == f"memory-{DAY}.log"
    assert (logs.counts(Stream.BOT), logs.counts(Stream.MEMORY)) == ((2, 0, 0), (1, 0, 0))


def test_a_time_is_cut_off_and_never_rounded_into_the_next_day() -> None:
    assert timestamp(MIDNIGHT - 1) == f"{DAY}T23:59:59.999Z"
    assert day_of(MIDNIGHT - 1) == date.fromisoformat(DAY) and day_of(NOON - 365 * 100 * DAY_NS).year == 1926
