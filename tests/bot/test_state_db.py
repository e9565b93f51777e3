"""The one file that an acknowledgement relies on: made whole, refused whole."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from bot import state_db
from bot.state_db import END_THE_OTHER, MAKE_WRITABLE, MOVE_AWAY, SCHEMA, UPGRADE, VERSION, StateUnreadable, open_state


def refused(path: Path) -> StateUnreadable:
    with pytest.raises(StateUnreadable) as told:
        open_state(path)
    return told.value


def made(path: Path) -> Path:
    open_state(path).close()
    return path


def test_a_new_file_is_durable_by_its_settings(tmp_path: Path) -> None:
    db = open_state(tmp_path / "state.db")

    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    db.close()


def test_the_names_of_a_new_file_and_its_folder_are_on_the_disk_before_anything_relies_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(state_db.os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink()))
    (tmp_path / ".insomnia").mkdir()

    made(tmp_path / ".insomnia" / "state.db")
    made(tmp_path / ".insomnia" / "state.db")

    assert synced == [tmp_path / ".insomnia", tmp_path]


def test_the_file_and_those_beside_it_are_their_owners_alone(tmp_path: Path) -> None:
    db = open_state(tmp_path / "state.db")
    db.execute("INSERT INTO told VALUES ('x')")

    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {
        "state.db": 0o600,
        "state.db-wal": 0o600,
        "state.db-shm": 0o600,
    }
    db.close()


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = made(tmp_path / "state.db")
    path.chmod(0o644)

    made(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    db = open_state(tmp_path / "state.db")
    db.execute("INSERT INTO told VALUES ('x')")
    db.close()

    again = open_state(tmp_path / "state.db")

    assert [r["what"] for r in again.execute("SELECT what FROM told")] == ["x"]
    again.close()


def test_an_empty_file_left_by_a_kill_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()

    db = open_state(tmp_path / "state.db")

    assert db.execute("SELECT count(*) FROM messages").fetchone()[0] == 0
    db.close()


def test_a_log_left_beside_a_file_that_was_moved_away_does_not_come_back(tmp_path: Path) -> None:
    db = open_state(tmp_path / "state.db")
    db.execute("INSERT INTO told VALUES ('old')")
    shutil.copy(tmp_path / "state.db-wal", tmp_path / "kept")
    db.close()
    (tmp_path / "state.db").unlink()
    shutil.move(tmp_path / "kept", tmp_path / "state.db-wal")

    again = open_state(tmp_path / "state.db")

    assert again.execute("SELECT count(*) FROM told").fetchone()[0] == 0
    again.close()


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to be taken for one" * 20, b"SQLite format 3\x00" + b"\xff" * 2000]
)
def test_what_is_no_database_is_left_as_it_is_and_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)

    told = refused(path)

    assert told.remedy == MOVE_AWAY
    assert str(path) in str(told)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["state.db"]


def test_a_page_that_was_overwritten_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    db = open_state(path)
    db.executemany("INSERT INTO told VALUES (?)", [(f"{n:0500}",) for n in range(200)])
    db.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-60_000] + b"\xff" * 40_000 + whole[-20_000:])

    assert refused(path).remedy == MOVE_AWAY


def test_a_file_that_broke_off_is_told(tmp_path: Path) -> None:
    path = made(tmp_path / "state.db")
    path.write_bytes(path.read_bytes()[:9_000])

    assert refused(path).remedy == MOVE_AWAY


def test_a_file_of_the_version_before_is_carried_on_with_all_that_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    earlier = sqlite3.connect(path)
    earlier.executescript(f"{SCHEMA} PRAGMA user_version=1; INSERT INTO told VALUES ('x');")
    earlier.close()

    for _ in range(2):
        db = open_state(path)
        assert [r["what"] for r in db.execute("SELECT what FROM told")] == ["x"]
        assert [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("accounts", "replies", "deaths")] == [0, 0, 0]
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
        db.close()


def test_a_file_that_says_it_is_of_the_version_before_and_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    made(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=1")
    db.close()

    assert refused(path).remedy == MOVE_AWAY


def test_a_file_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    newer = sqlite3.connect(path)
    newer.executescript(f"CREATE TABLE of_the_future (x); PRAGMA user_version={VERSION + 1};")
    newer.close()
    content = path.read_bytes()

    told = refused(path)

    assert told.remedy == UPGRADE
    assert f"format {VERSION + 1}, this one knows {VERSION}" in str(told)
    assert path.read_bytes() == content


def test_a_file_that_says_another_version_than_its_tables_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    odd = sqlite3.connect(path)
    odd.executescript(f"{state_db.SCHEMA} PRAGMA user_version={VERSION};")
    odd.close()

    assert refused(path).remedy == MOVE_AWAY


@pytest.mark.parametrize("version", [0, 1, VERSION, -3])
def test_a_database_of_another_program_is_not_made_ours(tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.db"
    foreign = sqlite3.connect(path)
    foreign.executescript(f"CREATE TABLE messages (id, theirs); PRAGMA user_version={version};")
    foreign.close()
    content = path.read_bytes()

    assert refused(path).remedy == MOVE_AWAY
    assert path.read_bytes() == content


def test_tables_of_sqlites_own_do_not_make_it_foreign(tmp_path: Path) -> None:
    db = open_state(tmp_path / "state.db")
    db.execute("INSERT INTO told VALUES ('x')")
    db.execute("ANALYZE")
    db.close()

    made(tmp_path / "state.db")


def test_a_file_that_another_process_holds_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_db, "BUSY_SECONDS", 0.0)
    path = made(tmp_path / "state.db")
    holder = sqlite3.connect(path)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")

    assert refused(path).remedy == END_THE_OTHER
    holder.close()


@pytest.mark.parametrize("where", ["folder", "none/state.db"])
def test_a_place_where_no_file_can_be_is_told(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)

    assert refused(tmp_path / where).remedy == MAKE_WRITABLE
