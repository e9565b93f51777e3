"""docs/following-logs.md and the lnav format: every command in them is run over lines that were really written."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import KEEP_DAYS, log_folders
from telemetry.jsonl_fields import COMMON
from telemetry.names import SpanName, Stream
from tests.telemetry import facts
from tests.telemetry.conftest import recording

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "following-logs.md").read_text(encoding="utf-8")
FORMATS = DOCS / "lnav" / "insomnia.json"
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines() if not line.startswith("#")]
QUERIES = re.findall(r"^;(select .*)$", PAGE, re.MULTILINE)
WITH_JQ = [command for command in COMMANDS if "| jq " in command]
TRACE_IN_THE_PAGE = "1a2b3c4d"

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing (Debian: apt install jq)")
needs_lnav = pytest.mark.skipif(shutil.which("lnav") is None, reason="lnav is missing (Debian: apt install lnav)")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of every line, a gap, and a line that broke off, in each log."""
    (tmp_path / ".insomnia" / "memory").mkdir(parents=True)
    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path / ".insomnia"))]) as recorded:
        with monkeypatch.context() as full, recorded.emit.span(SpanName.PROCESS):
            full.setattr(os, "write", _full)
            for fact in facts.ALL:
                recorded.emit(fact)
        with recorded.emit.span(SpanName.PROCESS):
            for fact in facts.ALL:
                recorded.emit(fact)
    for file in files(tmp_path):
        with file.open("ab") as torn:
            torn.write(b'{"ts": "2026-\n')
    return tmp_path


def _full(fd: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def files(workspace: Path) -> list[Path]:
    return [path for folder in log_folders(workspace / ".insomnia").values() for path in folder.glob("*-*.log")]


def lines(workspace: Path, stream: Stream | None = None) -> list[dict[str, Any]]:
    raw = [line for file in files(workspace) if stream is None or file.name.startswith(stream) for line in file.read_bytes().split(b"\n")]
    return [json.loads(line) for line in raw if line.endswith(b"}")]


@needs_jq
@pytest.mark.parametrize("command", WITH_JQ)
def test_every_line_for_jq_says_something(command: str, workspace: Path) -> None:
    trace = next(line["trace_id"] for line in lines(workspace) if "trace_id" in line)
    command = command.replace(TRACE_IN_THE_PAGE, trace[:8]).replace("tail -F -s 0.5", "cat")

    ran = subprocess.run(["sh", "-c", command], cwd=workspace, capture_output=True, text=True, check=False, timeout=30)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip() not in ("", "0", "null") and "null" not in ran.stdout


def test_the_page_has_such_lines_and_says_how_to_follow() -> None:
    assert len(WITH_JQ) >= 8 and TRACE_IN_THE_PAGE in "".join(WITH_JQ)
    assert "09:00 in Japan" in PAGE and f"{KEEP_DAYS} days" in PAGE
    assert [command for command in COMMANDS if "tail" in command and "tail -F -s 0.5 " not in command] == []


def test_the_page_explains_the_common_fields_as_the_code_does() -> None:
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)) == COMMON


def test_the_lnav_format_knows_the_files_and_the_fields(workspace: Path) -> None:
    formats = json.loads(FORMATS.read_text(encoding="utf-8"))

    for stream in Stream:
        one = formats[f"insomnia_{stream}"]
        folder = log_folders(workspace / ".insomnia")[stream]
        names = [*folder.glob(f"{stream}-*.log"), folder / "current.log"]
        others = [path for path in files(workspace) if path not in names]
        assert [name for name in names if not re.search(one["file-pattern"], str(name))] == []
        assert [name for name in others if re.search(one["file-pattern"], str(name))] == []
        assert {one[f"{what}-field"] for what in ("timestamp", "level", "body")} == {"ts", "level", "summary"}
        assert one["opid-field"] in {"trace_id", "run_id"}
        assert [name for name in one["value"] if not any(name in line for line in lines(workspace, stream))] == []


@needs_lnav
def test_lnav_takes_the_format_and_answers(workspace: Path) -> None:
    there = {**os.environ, "HOME": str(workspace / "home"), "TERM": "xterm"}
    (workspace / "home").mkdir()

    def lnav(*arguments: str) -> str:
        ran = subprocess.run(["lnav", *arguments], cwd=workspace, env=there, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0 and "error" not in ran.stderr, ran.stderr
        return ran.stdout

    def asked(query: str, *paths: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(lnav("-n", "-c", f";{query}", "-c", ":write-csv-to -", *paths))))[1:]

    lnav("-i", str(FORMATS))
    lnav("-C")
    everything = (".insomnia/logs", ".insomnia/memory/_logs")
    told = lines(workspace)
    runs = sum(line["event"] == "worker_lifecycle" for line in told)
    resets = sum(line["event"] == "session_reset" for line in told)
    assert [sum(int(row[-1]) for row in asked(query, *everything)) for query in QUERIES] == [runs, resets]
    for stream in Stream:
        levels = dict(asked(f"select log_level, count(*) from insomnia_{stream} group by 1", *everything))
        written = [line["level"] for line in lines(workspace, stream)]
        assert levels.pop("invalid") == "1"
        assert {level.removesuffix("ing"): int(count) for level, count in levels.items()} == {
            one: written.count(one) for one in set(written)
        }
