"""Bugs of comparable products around log files, as cases that ours must not have; the numbers are our list's.

C079 and C080 need a disk that is full: `test_jsonl_disk`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import day_of, log_folders
from telemetry.memory_events import MemoryReason, MemoryRunEnded, MemoryStatus, MemoryTrigger, MemoryWorker
from telemetry.names import Event, SpanName, Stream
from tests.telemetry.conftest import recording
from tests.telemetry.log_files import NOON, Logs

ROOT = Path(__file__).parents[3]
RUN = MemoryRunEnded(
    run_id="r1",
    worker=MemoryWorker.CONSOLIDATION,
    trigger=MemoryTrigger.IDLE,
    status=MemoryStatus.SKIPPED,
    reason=MemoryReason.NO_STAGING,
    seconds=0.1,
)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_c078_a_torn_last_line_costs_itself_and_not_the_next_one(logs: Logs) -> None:
    logs.folder.mkdir()
    logs.file.write_bytes(b'{"a":1')

    assert logs.write({"n": 2})

    assert logs.file.read_bytes().startswith(b'{"a":1\n{"ts"')
    assert [(line["event"], line.get("n"), line.get("repaired")) for line in logs.lines(torn=1)] == [
        ("reply", 2, None),
        ("log_repaired", None, 1),
    ]
    assert logs.counts() == (2, 0, 1)


@pytest.mark.parametrize("trouble", ["a folder where the file should be", "a file where the folder should be", "no folder above it"])
def test_c081_a_log_that_cannot_be_written_ends_no_run(trouble: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log_folders(tmp_path / "state")[Stream.MEMORY]
    if trouble != "no folder above it":
        folder.parent.mkdir(parents=True)
    if trouble == "a file where the folder should be":
        folder.touch()
    exporter = JsonlExporter(log_folders(tmp_path / "state"), now=lambda: NOON)

    with recording(log_exporters=[exporter]) as recorded:
        if trouble == "a folder where the file should be":
            recorded.emit(RUN)
            (file,) = folder.glob("memory-*.log")
            file.unlink()
            file.mkdir()
        with recorded.emit.span(SpanName.MEMORY_RUN):
            for _ in range(3):
                recorded.emit(RUN)
        dropped = recorded.value("insomnia.audit.dropped", stream="memory")

    assert dropped == 3 and recorded.span("memory.run")["status"] == "UNSET"
    assert capsys.readouterr().err.count("lines of the memory log are lost") == 1


@pytest.mark.sweep
def test_c082_no_character_breaks_a_line_or_is_changed_by_it(logs: Logs) -> None:
    signs = [chr(code) for code in range(0x3000)] + ["\ud800", "\udfff", "\U000e0041", "金", "👩‍👩‍👧"]
    for number, sign in enumerate(signs):
        text = f"前{sign}後"
        logs.write({"n": number, "query": text, "detail": sign, sign or "key": float("nan")}, event=Event.RECORD_USAGE)

    file = log_folders(logs.state)[Stream.MEMORY] / "memory-2026-03-01.log"
    raw = file.read_bytes().split(b"\n")
    assert len(raw) == len(signs) + 1 and raw[-1] == b""
    lines = [json.loads(line) for line in raw[:-1]]
    assert [(line["query"], line["detail"]) for line in lines] == [(f"前{sign}後", sign) for sign in signs]
    assert all("前".encode() in line for line in raw[:-1])
    assert len(file.read_text(encoding="utf-8").splitlines()) == len(signs), "a reader would split a line in two"


@pytest.mark.kill  # starts processes
def test_c083_four_processes_do_not_write_into_each_other_s_lines(logs: Logs) -> None:
    command = [sys.executable, "-m", "tests.telemetry.log_writers", "crowd", str(logs.state)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)

    lines = logs.lines()
    assert sorted((line["by"], line["n"]) for line in lines) == [(by, n) for by in range(4) for n in range(300)]
    assert {len(line["text"]) for line in lines} == {20_000}
    assert len({line["pid"] for line in lines}) == 4


def test_c084_files_go_when_they_are_too_old_and_only_files_of_ours(tmp_path: Path) -> None:
    logs = Logs(tmp_path, keep_days=30)
    today = day_of(NOON)
    logs.folder.mkdir()
    days = {ago: f"bot-{today - timedelta(days=ago)}.log" for ago in range(-1, 39)}
    foreign = ["bot-2020-01-01.log.gz", "bot-2020-01-01.log.bak", "notes-2020-01-01.log", "bot-20200101.log", "memory-2020-01-01.log"]
    for name in [*days.values(), *foreign]:
        (logs.folder / name).touch()
    (logs.folder / "bot-2020-01-01.log").symlink_to("bot-2020-01-01.log.gz")

    logs.write()

    left = {path.name for path in logs.folder.iterdir()}
    ours = {name for ago, name in days.items() if ago <= 30}
    assert left == {*ours, *foreign, "bot-2020-01-01.log", "current.log", ".current.log.lock"}
    assert logs.current.resolve() == logs.file.resolve()
