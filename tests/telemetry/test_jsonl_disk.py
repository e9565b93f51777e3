"""A disk that is really full, and then is not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.names import SpanName
from tests.telemetry import facts
from tests.telemetry.conftest import recording
from tests.telemetry.log_files import Logs, read

pytestmark = pytest.mark.root

ROOM = 256 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 256 KiB large."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def logs(disk: Path) -> Iterator[Logs]:
    """Closed before the file system goes: it would be busy."""
    logs = Logs(disk)
    yield logs
    logs.exporter.shutdown()


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return filler


def test_a_full_disk_costs_lines_and_tells_how_many_once_there_is_space_again(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Through `emit`: no exception reaches whoever emits. The metric, the file and stderr say the same."""
    with recording(log_exporters=[JsonlExporter(log_folders(disk))]) as recorded:
        with recorded.emit.span(SpanName.PROCESS):
            recorded.emit(facts.REPLY)
            filler = fill(disk)
            for _ in range(200):
                recorded.emit(facts.GATE)
            filler.unlink()
            recorded.emit(facts.RESET)
        dropped = recorded.value("insomnia.audit.dropped", stream="bot")

    (file,) = (disk / "logs").glob("bot-*.log")
    whole = [line for line in file.read_bytes().split(b"\n") if line.endswith(b"}")]
    assert dropped and 150 < dropped <= 200  # a page that was begun had room for some
    assert [b'"session_reset"' in line for line in whole[-2:]] == [True, False]
    assert f'"dropped": {int(dropped)}'.encode() in whole[-3] and b'"log_gap"' in whole[-3]
    assert b'"log_repaired"' in whole[-1]
    assert capsys.readouterr().err.count("lines of the bot log are lost") == 1


def test_c079_half_a_line_of_a_full_disk_is_closed_before_the_next_and_the_gap_is_told(logs: Logs, disk: Path) -> None:
    (disk / "filler").write_bytes(bytes(ROOM // 2))
    while logs.write({"text": "x" * 9_000}):
        pass
    assert not logs.file.read_bytes().endswith(b"\n"), "nothing is torn: the test shows nothing"
    failed = [logs.write() for _ in range(3)]
    (disk / "filler").unlink()

    assert logs.write({"n": 1})

    *_, torn, gap, line, repaired, end = logs.file.read_bytes().split(b"\n")
    assert failed == [False] * 3 and torn.endswith(b"xxx") and end == b""
    assert b'"dropped": 4' in gap and b'"n": 1' in line and b'"repaired": 1' in repaired


def test_c080_one_full_disk_switches_nothing_off(logs: Logs, disk: Path) -> None:
    for n in range(3):
        filler = fill(disk)
        while logs.write({"text": "x" * 500}):
            pass
        filler.unlink()
        assert logs.write({"n": n})

    whole = [json.loads(line) for line in logs.file.read_bytes().split(b"\n") if line.endswith(b"}")]
    assert [line["n"] for line in whole if "n" in line] == [0, 1, 2]
    assert sum(line["dropped"] for line in whole if line["event"] == "log_gap") == logs.counts()[1] == 3


def test_a_new_day_on_a_full_disk_begins_when_there_is_space(logs: Logs, disk: Path) -> None:
    filler = fill(disk)
    assert not logs.write()
    filler.unlink()

    assert logs.write({"n": 1})

    assert [line["event"] for line in read(logs.file)] == ["log_gap", "reply"]
    assert logs.current.resolve() == logs.file.resolve()
