"""One file and several writers: what is on disk after anything has happened to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from telemetry.jsonl_file import TRIES, AppendFile
from tests.telemetry.log_files import DAY, Logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def numbers(logs: Logs) -> list[Any]:
    return [line["n"] for line in logs.lines() if "n" in line]


def test_a_line_is_one_write(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    really = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(bytes(data)) or really(fd, data))

    assert logs.write({"n": 1, "text": "金曜" * 4_000}) and logs.write({"n": 2})

    assert [line.count(b"\n") for line in written] == [1, 1]
    assert b"".join(written) == logs.file.read_bytes()


def test_files_and_folders_are_their_owner_s_alone(logs: Logs) -> None:
    before = os.umask(0)
    try:
        logs.write()
    finally:
        os.umask(before)

    assert [stat.S_IMODE(path.stat().st_mode) for path in (logs.file, logs.folder)] == [0o600, 0o700]


def test_a_file_that_others_could_read_is_closed_to_them(logs: Logs) -> None:
    logs.folder.mkdir()
    logs.file.touch(mode=0o644)

    logs.write()

    assert stat.S_IMODE(logs.file.stat().st_mode) == 0o600


def test_no_link_is_followed_from_the_name_of_a_file(logs: Logs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    victim.chmod(0o644)
    logs.folder.mkdir()
    logs.file.symlink_to(victim)

    assert not logs.write()

    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("theirs", 0o644)
    assert logs.counts() == (0, 1, 0)
    assert "lines of the bot log are lost" in capsys.readouterr().err


def test_no_link_is_followed_from_the_name_of_the_folder(logs: Logs, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    logs.folder.symlink_to(tmp_path / "elsewhere")

    assert not logs.write()

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_pipe_in_place_of_the_file_holds_nobody_up(logs: Logs) -> None:
    logs.folder.mkdir()
    os.mkfifo(logs.file)

    assert not logs.write()


def test_a_torn_last_line_is_closed_before_the_next(logs: Logs) -> None:
    logs.folder.mkdir()
    logs.file.write_bytes(b'{"n": 1}\n{"n": 2, "te')

    assert logs.write({"n": 3})

    first, torn, ours, told, end = logs.file.read_bytes().split(b"\n")
    assert (first, torn, end) == (b'{"n": 1}', b'{"n": 2, "te', b"")
    assert b'"n": 3' in ours and b'"log_repaired"' in told
    assert logs.counts() == (2, 0, 1)


def test_what_another_process_left_torn_meanwhile_is_closed_too(logs: Logs) -> None:
    logs.write({"n": 1})
    with logs.file.open("ab") as other:
        other.write(b'{"torn": ')

    logs.write({"n": 2})

    assert [b'"torn"' in line for line in logs.file.read_bytes().split(b"\n")[:-1]] == [False, True, False, False]
    assert logs.counts() == (3, 0, 1)


def test_a_line_swallowed_by_one_that_broke_off_at_the_last_moment_is_written_again(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the end of the file and the write, another process began a line and was killed."""
    logs.write({"n": 1})
    really = os.write

    def after_the_other(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", really)
        with logs.file.open("ab") as other:
            other.write(b'{"torn": ')
        return really(fd, data)

    monkeypatch.setattr(os, "write", after_the_other)
    assert logs.write({"n": 2})

    first, swallowed, again, told, end = logs.file.read_bytes().split(b"\n")
    assert swallowed == b'{"torn": ' + again and b'"n": 2' in again and b'"n": 1' in first
    assert b'"log_repaired"' in told and end == b""


def test_a_line_of_another_process_that_is_under_way_is_not_taken_for_broken(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.write({"n": 1})
    other = os.open(logs.file, os.O_WRONLY | os.O_APPEND)
    os.write(other, b'{"n": 2, "half')
    monkeypatch.setattr("telemetry.jsonl_file.time.sleep", lambda seconds: os.write(other, b'": 1}\n'))

    logs.write({"n": 3})
    os.close(other)

    assert numbers(logs) == [1, 2, 3]
    assert logs.counts() == (2, 0, 0)


def test_a_broken_end_is_waited_for_once_and_not_with_every_line(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is closed, that is: while the disk is full it cannot be."""
    waits: list[float] = []
    monkeypatch.setattr("telemetry.jsonl_file.time.sleep", waits.append)
    logs.folder.mkdir()
    logs.file.write_bytes(b'{"torn": ')
    really = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: (_ for _ in ()).throw(OSError(28, "No space left on device")))

    for _ in range(3):
        assert not logs.write()
    monkeypatch.setattr(os, "write", really)

    assert logs.write({"n": 1}) and len(waits) == TRIES
    assert [line["event"] for line in logs.lines(torn=1)] == ["log_gap", "reply", "log_repaired"]


@pytest.mark.parametrize("what", ["removed", "moved away", "replaced", "cut short", "its folder removed"])
def test_whatever_happens_to_the_file_the_next_line_is_where_its_name_is(logs: Logs, what: str) -> None:
    logs.write({"n": 1})
    match what:
        case "removed":
            logs.file.unlink()
        case "moved away":
            logs.file.rename(logs.folder / "kept.txt")
        case "replaced":
            (logs.folder / "new").touch()
            (logs.folder / "new").replace(logs.file)
        case "cut short":
            os.truncate(logs.file, 0)
        case "its folder removed":
            logs.file.unlink()
            for path in logs.folder.iterdir():
                path.unlink()
            logs.folder.rmdir()

    assert logs.write({"n": 2})

    assert numbers(logs) == [2]
    assert os.readlink(logs.current) == f"bot-{DAY}.log" and logs.counts() == (2, 0, 0)


def test_a_short_write_is_an_error_and_the_next_line_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendFile(tmp_path, "day.log")
    really = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: really(fd, data[:5]))
    with pytest.raises(OSError, match=r"only 5 of 9 bytes"):
        file.append(b'{"a": 1}\n')
    monkeypatch.setattr(os, "write", really)
    monkeypatch.setattr("telemetry.jsonl_file.time.sleep", pytest.fail)  # it knows whose half a line that is

    closed = file.append(b'{"b": 2}\n')
    file.close()

    assert closed and (tmp_path / "day.log").read_bytes() == b'{"a":\n{"b": 2}\n'
