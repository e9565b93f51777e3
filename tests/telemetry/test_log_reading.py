"""Reading back what is written, while it is written and whatever is done to the files meanwhile."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import pytest

from telemetry.jsonl_days import day_of
from telemetry.log_reading import LONGEST, LogLine, LogReader
from telemetry.names import Stream
from tests.telemetry.log_files import DAY, NEXT_DAY, NOON, Logs, at

TODAY = date.fromisoformat(DAY)
MIDNIGHT = at(f"{NEXT_DAY}T00:00:00")


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def reader_of(logs: Logs, *, since: date = TODAY, last_bytes: int | None = None) -> LogReader:
    return LogReader(logs.folder, Stream.BOT, since=since, today=lambda: day_of(logs.now), last_bytes=last_bytes)


def shown(lines: list[LogLine]) -> list[object]:
    """Their numbers; what cannot be read as the text that it is."""
    return [line.fields.get("n") if line.fields else line.text for line in lines]


def new(reader: LogReader) -> list[object]:
    return shown(list(reader.new_lines()))


def test_each_line_is_handed_out_once(logs: Logs) -> None:
    reader = reader_of(logs)
    handed = [new(reader)]
    for n in (1, 2):
        logs.write({"n": n})
        handed.append(new(reader))

    assert [*handed, new(reader)] == [[], [1], [2], []]


def test_a_line_has_its_time_its_text_and_its_fields(logs: Logs) -> None:
    logs.write({"n": 1, "text": "金曜\u202e"})

    (line,) = reader_of(logs).new_lines()

    assert line.at == f"{DAY}T12:00:00.000Z" and line.stream is Stream.BOT
    assert line.fields and line.fields["text"] == "金曜\u202e"
    assert line.text.encode() + b"\n" == logs.file.read_bytes()


def test_a_line_that_is_half_written_is_waited_for(logs: Logs) -> None:
    logs.write({"n": 1})
    whole, reader = logs.file.read_bytes(), reader_of(logs)
    logs.file.write_bytes(whole[:40])
    first = new(reader)
    with logs.file.open("ab") as file:
        file.write(whole[40:])

    assert (first, new(reader)) == ([], [1])


def test_a_line_that_is_never_ended_is_handed_out_at_the_end_as_what_it_is(logs: Logs) -> None:
    logs.write({"n": 1})
    with logs.file.open("ab") as file:
        file.write(b'{"ts": "2026')
    reader = reader_of(logs)

    assert (new(reader), shown(list(reader.close()))) == ([1], ['{"ts": "2026'])


def test_a_line_that_lacks_nothing_but_its_end_is_read_at_the_end(logs: Logs) -> None:
    logs.write({"n": 1})
    logs.file.write_bytes(logs.file.read_bytes().rstrip())
    reader = reader_of(logs)

    assert (new(reader), shown(list(reader.close()))) == ([], [1])


@pytest.mark.parametrize(
    "damage",
    [
        b"not json",
        b'{"n": 2, "half',
        b"[1, 2]",
        b'{"n": 2}',
        b'{"ts": "yesterday", "event": "reply"}',
        b"\x00" * 50,
        b"\xff\xfe",
        b"[" * 50_000,
    ],
    ids=["text", "torn", "no object", "no time", "no time of ours", "zeros", "no UTF-8", "too deep"],
)
def test_a_damaged_line_is_handed_out_as_that_and_hides_nothing(logs: Logs, damage: bytes) -> None:
    logs.write({"n": 1})
    with logs.file.open("ab") as file:
        file.write(damage + b"\n\n")
    logs.write({"n": 3})

    first, damaged, last = reader_of(logs).new_lines()

    assert damaged.fields is None and damaged.text == damage.decode("utf-8", "replace")
    assert damaged.at == first.at and last.fields and last.fields["n"] == 3


def test_what_has_no_end_is_not_kept_in_memory(logs: Logs) -> None:
    logs.folder.mkdir()
    logs.file.write_bytes(b"x" * (3 * LONGEST) + b"\n")
    logs.write({"n": 1})

    endless, last = new(reader_of(logs))

    assert last == 1 and LONGEST < len(str(endless)) < 2 * LONGEST


def test_a_new_day_is_followed_and_so_are_late_lines_of_the_old_one(logs: Logs) -> None:
    reader, handed = reader_of(logs), []
    for n, when in enumerate((MIDNIGHT - 1, MIDNIGHT, MIDNIGHT - 1, MIDNIGHT + 1)):
        logs.now = max(logs.now, when)
        logs.write({"n": n}, when=when)
        handed.append(new(reader))

    assert handed == [[0], [1], [2], [3]]


@pytest.mark.parametrize("how", ["cut short", "replaced", "removed", "moved away"])
def test_whatever_happens_to_the_file_what_comes_is_shown(logs: Logs, how: str) -> None:
    reader = reader_of(logs)
    logs.write({"n": 1, "text": "x" * 500})
    before = new(reader)
    logs.write({"n": 2})  # not read yet when it happens
    match how:
        case "cut short":
            os.truncate(logs.file, 0)
        case "replaced":
            (logs.folder / "new").touch()
            (logs.folder / "new").replace(logs.file)
        case "removed":
            logs.file.unlink()
        case "moved away":
            logs.file.rename(logs.folder / "kept.txt")
    logs.write({"n": 3})

    assert before == [1]
    assert new(reader) == ([3] if how == "cut short" else [2, 3])
    logs.write({"n": 4})
    assert new(reader) == [4]


def test_half_a_line_of_a_file_that_was_cut_short_is_not_glued_to_the_next(logs: Logs) -> None:
    logs.folder.mkdir()
    logs.file.write_bytes(b'{"half": ')
    reader = reader_of(logs)
    new(reader)
    os.truncate(logs.file, 0)
    assert new(reader) == ['{"half": ']
    logs.write({"n": 1})

    assert new(reader) == [1]


def test_a_folder_that_comes_later_or_goes_is_no_error(logs: Logs) -> None:
    reader = reader_of(logs)
    before = new(reader)
    logs.write({"n": 1})
    there = new(reader)
    for path in logs.folder.iterdir():
        path.unlink()
    logs.folder.rmdir()

    assert (before, there, new(reader)) == ([], [1], [])


def test_only_regular_files_of_ours_are_read(logs: Logs, tmp_path: Path) -> None:
    logs.write({"n": 1})
    (tmp_path / "other").write_bytes(logs.file.read_bytes())
    (logs.folder / f"bot-{NEXT_DAY}.log").symlink_to(tmp_path / "other")
    os.mkfifo(logs.folder / "bot-2026-03-05.log")

    assert new(reader_of(logs)) == [1]


def test_reading_begins_with_the_day_asked_for(logs: Logs) -> None:
    for n, when in enumerate((MIDNIGHT - 1, MIDNIGHT)):
        logs.write({"n": n}, when=when)

    assert new(reader_of(logs, since=TODAY + timedelta(days=1))) == [1]


def test_only_the_end_is_read_where_that_is_asked_and_then_everything_that_comes(logs: Logs) -> None:
    for n in range(100):
        logs.write({"n": n})
    reader = reader_of(logs, last_bytes=1_000)

    first = new(reader)
    assert first == list(range(100 - len(first), 100)) and 3 < len(first) < 10
    logs.write({"n": 100}, when=NOON)
    logs.write({"n": 101}, when=MIDNIGHT)
    assert new(reader) == [100, 101]


def test_files_of_long_ago_are_read_and_let_go(logs: Logs) -> None:
    for day in range(1, 29):
        logs.write({"n": day}, when=at(f"2026-02-{day:02}T12:00:00"))
    logs.write({"n": 29})
    logs.exporter.shutdown()
    before = len(os.listdir("/proc/self/fd"))
    reader = reader_of(logs, since=date(2026, 2, 1))

    assert new(reader) == list(range(1, 30))
    assert len(os.listdir("/proc/self/fd")) - before == 2  # yesterday's and today's
    assert new(reader) == []


def test_a_file_of_a_day_to_come_keeps_nobody_from_reading_today_s(logs: Logs) -> None:
    logs.write({"n": 1}, when=at("2031-01-01T00:00:00"))
    reader = reader_of(logs)
    first = new(reader)
    logs.write({"n": 2})

    assert (first, new(reader)) == ([1], [2])
