"""A file that is damaged, foreign, or refused by the disk: it is kept, said, and the bot goes on."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.trace_file import TraceFileUnusable, open_to_read, put_aside
from telemetry.trace_reading import Wanted, reading
from tests.telemetry.made_traces import failed, known, refetched, run
from tests.telemetry.stores import found, ids, store, writer

ASIDE = re.compile(r"traces\.db\.(damaged|v\d+)-\d{8}T\d{6}Zx*")


def full(path: Path) -> bytes:
    store(path, *(make(n * 4 + i) for n in range(12) for i, make in enumerate((refetched, known, failed, run))))
    return path.read_bytes()


def aside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ASIDE.fullmatch(path.name))


@pytest.mark.parametrize("content", [b"not a database", b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 4000])
def test_what_is_no_database_is_kept_aside_and_the_same_batch_is_written(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "traces.db"
    path.write_bytes(content)

    lost = writer(path).write(known(7).spans)

    (kept,) = aside(tmp_path)
    assert (lost, ids(found(path)), (tmp_path / kept).read_bytes()) == (0, [7], content)
    assert f"the trace store was put aside as {kept}, and a new one is begun" in capsys.readouterr().err


def test_a_file_that_was_made_and_never_written_is_used(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    path.touch()

    assert writer(path).write(known().spans) == 0
    assert aside(tmp_path) == []


@pytest.mark.sweep
def test_damage_at_any_offset_never_raises_and_never_loses_what_comes(tmp_path: Path) -> None:
    """Damage that SQLite cannot see leaves the file in use; whatever it is, new traces are written and can be found."""
    path, whole, chance = tmp_path / "traces.db", full(tmp_path / "traces.db"), random.Random(4711)

    for number in range(120):
        bad = bytearray(whole)
        at = number if number < 40 else chance.randrange(len(bad))
        bad[at : at + 16] = chance.randbytes(16)
        for old in tmp_path.iterdir():
            old.unlink()
        path.write_bytes(bad)

        into = writer(path)
        lost = into.write(known(0xABCDEF).spans)
        into.close()

        assert lost == 0, at
        with reading(path) as traces:
            assert len(traces.by_prefix(known(0xABCDEF).id)) == 1, at


def test_a_reader_of_a_damaged_file_says_so_and_nothing_else(tmp_path: Path) -> None:
    path, whole, chance = tmp_path / "traces.db", full(tmp_path / "traces.db"), random.Random(815)

    for number in range(150):
        bad = bytearray(whole)
        at = number if number < 40 else chance.randrange(len(bad))
        bad[at : at + 16] = chance.randbytes(16)
        path.write_bytes(bad)
        try:
            with reading(path) as traces:
                for summary in traces.listing(Wanted(limit=1_000)):
                    traces.trace(summary.trace_id)
        except (TraceFileUnusable, FileNotFoundError):
            pass


@pytest.mark.parametrize("left", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_short_is_kept_aside(left: float, tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    whole = full(path)
    path.write_bytes(whole[: int(len(whole) * left)])

    assert writer(path).write(known(7).spans) == 0
    assert len(aside(tmp_path)) == 1
    assert ids(found(path)) == [7]


def test_damage_that_shows_while_writing_begins_a_new_file_with_the_same_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.trace_file.CHECKED_BYTES", 0)  # as for a large file: it is not read through at the start
    path = tmp_path / "traces.db"
    full(path)
    into = writer(path)
    into.write([])
    with path.open("r+b") as file:  # under the open connection, beneath every page it may have to read
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))

    lost = into.write(known(0xFFFF).spans)
    into.close()

    assert lost == 0
    assert ids(found(path)) == [0xFFFF]
    assert len(aside(tmp_path)) == 1


def test_a_file_of_a_newer_version_is_kept_aside_under_its_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traces.db"
    full(path)
    _sql(path, "PRAGMA user_version=7")

    with pytest.raises(TraceFileUnusable, match="it has format 7, this version reads 1"):
        open_to_read(path)
    assert writer(path).write(known(7).spans) == 0
    assert [name.partition("-")[0] for name in aside(tmp_path)] == ["traces.db.v7"]
    assert "it has format 7, this version writes 1" in capsys.readouterr().err


def test_tables_of_somebody_else_are_kept_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traces.db"
    _sql(path, "CREATE TABLE traces (x)")
    _sql(path, "PRAGMA user_version=1")

    assert writer(path).write(known(7).spans) == 0
    assert len(aside(tmp_path)) == 1
    assert "its tables are not those of this version" in capsys.readouterr().err


def test_what_is_put_aside_twice_in_a_second_gets_two_names(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    names = set()
    for content in ("a", "b"):
        path.write_text(content)
        names.add(put_aside(path, "damaged").name)

    assert len(names) == 2
    assert sorted((tmp_path / name).read_text() for name in names) == ["a", "b"]


def test_the_log_beside_the_file_moves_with_it_and_before_it(tmp_path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"traces.db{end}").write_text(end)

    moved = put_aside(tmp_path / "traces.db", "damaged")

    assert {path.name.removeprefix(moved.name): path.read_text() for path in tmp_path.iterdir()} == {"": "", "-wal": "-wal", "-shm": "-shm"}


def test_a_value_that_no_column_takes_does_not_cost_the_spans_after_it(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    into, odd = writer(path), known(1)
    huge = known(2)
    huge.spans[0]._attributes = {**(huge.spans[0].attributes or {}), "insomnia.reply.attempt": 2**80}  # type: ignore[assignment]
    odd.spans[0]._attributes = {**(odd.spans[0].attributes or {}), "insomnia.route": "a\ud800"}  # type: ignore[assignment]

    assert into.write(odd.spans) == 0
    assert into.write([*known(3).spans, *huge.spans]) == 0
    into.close()

    with reading(path) as traces:
        trace = traces.trace(known(3).id)
    assert trace and len(trace.spans) == 5
    assert sorted(ids(found(path))) == [1, 2, 3]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30, "many", 1.5, None])
def test_a_number_that_sqlite_does_not_hold_costs_that_number_alone(tmp_path: Path, number: object) -> None:
    path, odd = tmp_path / "traces.db", failed(1)
    for span in odd.spans:
        numbers = [key for key, value in (span.attributes or {}).items() if isinstance(value, int)]
        span._attributes = {**(span.attributes or {}), **dict.fromkeys([*numbers, "insomnia.reply.attempt"], number)}  # type: ignore[assignment]

    store(path, odd, known(2))

    assert ids(found(path)) == [2, 1]
    with reading(path) as traces:
        (kept,) = traces.resets("main", since=0)
    assert (kept.cause, kept.epoch, kept.pre_tokens) == ("compaction_auto", None, None)


@pytest.mark.parametrize("there", ["link", "dangling", "folder", "pipe"])
def test_what_has_taken_the_name_is_put_aside_and_no_link_is_followed(tmp_path: Path, there: str) -> None:
    path, target = tmp_path / "traces.db", tmp_path / "precious"
    if there == "folder":
        path.mkdir()
    elif there == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    if there == "link":
        target.write_bytes(b"")
        target.chmod(0o644)

    store(path, known(7))

    assert ids(found(path)) == [7] and not path.is_symlink()
    assert [name for name in os.listdir(tmp_path) if name.startswith("traces.db.aside-")]
    assert there != "link" or (target.stat().st_mode & 0o777, target.read_bytes()) == (0o644, b"")
    assert there != "dangling" or not target.exists()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.root
def test_a_full_disk_costs_spans_and_is_over_when_there_is_room(tiny_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, lost, number = tiny_disk / "traces.db", 0, 0
    into = writer(path)
    while not lost:
        number += 1
        lost = into.write(refetched(number).spans)
    assert into.write(refetched(9_000).spans) == 13
    subprocess.run(["mount", "-o", "remount,size=20m", tiny_disk], check=True)

    assert into.write(refetched(9_001).spans) == 0
    into.close()

    assert ids(found(path))[0] == 9_001
    assert aside(tiny_disk) == []
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.root
def test_a_disk_that_is_read_only_is_said_and_nothing_is_put_aside(tiny_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)

    assert writer(tiny_disk / "traces.db").write(known().spans) == 5
    assert "cannot be written" in capsys.readouterr().err


def _sql(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
