"""The writer of the status file: in a thread, never in the way, honest when it cannot write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry import status_writer
from telemetry.memory_events import MemoryFact
from telemetry.status import LatestStatus
from telemetry.status_file import Status, read_status
from telemetry.status_writer import StatusWriter
from tests.telemetry import facts, memory_facts
from tests.telemetry.conftest import recording

GUARD_SECONDS = 10.0  # of a test that would hang otherwise


class Counting:
    def __init__(self) -> None:
        self.asked = 0
        self.was_asked = threading.Semaphore(0)

    def __call__(self) -> Status:
        self.asked += 1
        self.was_asked.release()
        return Status(pid=self.asked, at=0.0)


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def writer(tmp_path: Path, counting: Counting) -> Iterator[StatusWriter]:
    writer = StatusWriter(tmp_path / "status.json", counting)
    yield writer
    writer.close()


def test_a_change_is_written_without_being_asked_for(writer: StatusWriter, counting: Counting, tmp_path: Path) -> None:
    writer.changed()

    assert counting.was_asked.acquire(timeout=GUARD_SECONDS)
    assert writer.write(), "waits for the one that is being written"
    assert read_status(tmp_path / "status.json") is not None


def test_changes_of_a_busy_bot_share_a_file(writer: StatusWriter, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "PAUSE_SECONDS", 60.0)
    writer.changed()
    assert counting.was_asked.acquire(timeout=GUARD_SECONDS)

    for _ in range(1_000):
        writer.changed()

    assert not counting.was_asked.acquire(timeout=0.2)


def test_what_changed_since_the_last_file_is_written_at_the_end(tmp_path: Path) -> None:
    written = threading.Event()
    account = ["first"]

    def status() -> Status:
        written.set()
        return Status(pid=1, at=0.0, account=account[0])

    writer = StatusWriter(tmp_path / "status.json", status)
    writer.changed()
    assert written.wait(GUARD_SECONDS)
    assert writer.write(), "waits for the one that is being written"
    account[0] = "last"
    writer.changed()
    writer.close()

    read = read_status(tmp_path / "status.json")
    assert read is not None and read.account == "last"


def test_a_status_that_cannot_be_replaced_is_taken_away_and_comes_back(
    writer: StatusWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert writer.write()
    with monkeypatch.context() as full:
        full.setattr(status_writer, "write_private_atomic", no_space)
        failed = [writer.write(), writer.write()]
        left = read_status(tmp_path / "status.json")

    assert failed == [False, False]
    assert left is None, "nobody is told yesterday's news"
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert writer.write()
    assert read_status(tmp_path / "status.json") is not None


def test_a_disk_that_frees_up_gets_its_status_without_another_change(
    writer: StatusWriter, counting: Counting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status_writer, "RETRY_SECONDS", 0.01)
    written = threading.Event()
    tries = iter([no_space, no_space])

    def by_and_by(path: Path, text: str) -> None:
        next(tries, lambda path, text: written.set())(path, text)

    monkeypatch.setattr(status_writer, "write_private_atomic", by_and_by)
    writer.changed()

    assert written.wait(GUARD_SECONDS)


def no_space(path: Path, text: str) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("obstacle", ["no folder", "a folder in its place", "a file for a folder"])
def test_nothing_on_the_disk_reaches_whoever_emits(obstacle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gone" / "status.json"
    if obstacle == "no folder":
        path = tmp_path / "gone" / "telemetry" / "status.json"
    if obstacle == "a folder in its place":
        (path / "in the way").mkdir(parents=True)
    if obstacle == "a file for a folder":
        path.parent.touch()
    latest = LatestStatus(path)

    with recording(span_processors=[latest], listeners=[latest.hear]) as recorded:
        for fact in facts.ALL:
            recorded.emit(fact)
        assert not latest.force_flush()
        told = latest.latest()
        failures = recorded.value("insomnia.telemetry.failures")

    assert told.memory is not None and told.sessions, "who asks in the process is answered"
    assert failures == 0
    assert capsys.readouterr().err.count(f"writing {path} failed") == 1


def test_a_reader_never_finds_half_a_status(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    long, short = Status(pid=1, at=0.0, account="x" * 150_000), Status(pid=2, at=0.0)
    both = iter([long, short] * 200)
    writer = StatusWriter(path, lambda: next(both, short))
    writer.write()
    stop = threading.Event()
    found: list[Status | None] = []

    def read_on() -> None:
        while not stop.is_set():
            found.append(read_status(path))

    reader = threading.Thread(target=read_on)
    reader.start()
    for _ in range(300):
        writer.write()
    stop.set()
    reader.join()
    writer.close()

    assert len(found) > 10
    assert None not in found


KILLED = """
import os, signal, sys, time
from pathlib import Path
from telemetry.status import LatestStatus
from tests.telemetry import memory_facts
latest = LatestStatus(Path(sys.argv[1]))
latest.hear(memory_facts.CONSOLIDATION_STARTED)
latest.force_flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.kill
def test_a_killed_bot_leaves_a_whole_file_and_its_run_is_found_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "status.json"

    subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=Path(__file__).parents[2], check=False, timeout=60)

    assert json.loads(path.read_text(encoding="utf-8"))["memory"]["status"] == "started"
    memory = LatestStatus(path).latest().memory
    assert memory is not None and (memory.status, memory.reason) == ("failed", "interrupted")


@pytest.mark.root
def test_a_full_disk_costs_the_file_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        filler = tmp_path / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(b"x" * 4096)
        latest = LatestStatus(tmp_path / "status.json")

        runs: list[MemoryFact] = [memory_facts.CONSOLIDATION_STARTED, memory_facts.CONSOLIDATION_DONE]
        for fact in runs:
            latest.hear(fact)
        full = latest.force_flush()
        filler.unlink()

        assert not full
        assert latest.force_flush()
        read = read_status(tmp_path / "status.json")
        assert read is not None and read.memory is not None and read.memory.status == "completed"
        latest.shutdown()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_is_deleted_under_a_running_bot_is_made_again(tmp_path: Path, counting: Counting) -> None:
    writer = StatusWriter(tmp_path / "telemetry" / "status.json", counting)
    assert writer.write()
    shutil.rmtree(tmp_path / "telemetry")

    assert writer.write()
    writer.close()

    assert read_status(tmp_path / "telemetry" / "status.json") is not None
    assert (tmp_path / "telemetry").stat().st_mode & 0o777 == 0o700
