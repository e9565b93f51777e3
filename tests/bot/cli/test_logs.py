"""`insomnia logs`: what is shown, in which order, and what a person is told when it cannot be."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.cli import dispatch
from bot.cli.parser import build_parser
from telemetry.names import Event
from tests.telemetry import memory_facts
from tests.telemetry.conftest import recording
from tests.telemetry.log_files import SECOND, Logs

ROOT = Path(__file__).parents[3]
GUARD_SECONDS = 30.0
HOUR = 3_600 * SECOND
TRACE = "1a2b3c4d5e6f708192a3b4c5d6e7f801"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    """Of a workspace in which the command runs; Tokyo's clock on the wall."""
    (tmp_path / ".insomnia" / "memory").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield Logs(tmp_path / ".insomnia", now=time.time_ns())
    monkeypatch.undo()
    time.tzset()


def ago(logs: Logs, hours: float) -> int:
    return logs.now - int(hours * HOUR)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[list[str], str]:
    assert dispatch(["logs", *arguments]) == code
    out, err = capsys.readouterr()
    return out.splitlines(), err


def numbers(lines: list[str]) -> list[int]:
    return [json.loads(line)["n"] for line in lines]


def test_a_line_says_when_how_bad_what_where_and_in_which_trace(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    when = ago(logs, 1)
    logs.write({"insomnia.route": "main", "trace_id": TRACE}, when=when, event=Event.GATE_DECISION, body="gate_decision: known, held")

    lines, err = shown(capsys)

    local = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when // SECOND))
    assert lines == [f"{local}  info   gate_decision      known, held  main · 1a2b3c4d"] and err == ""
    assert local[11:13] != time.strftime("%H", time.gmtime(when // SECOND))


def test_what_went_wrong_has_a_colour_on_a_terminal_and_a_word_everywhere(
    logs: Logs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(event=Event.LOG_GAP, when=logs.now)
    (file,) = logs.folder.glob("bot-*.log")
    file.write_bytes(file.read_bytes().replace(b'"info"', b'"warn"'))
    monkeypatch.setattr("bot.cli.logs.has_colours", lambda: True)

    assert "  \033[33mwarn \033[0m  log_gap" in shown(capsys)[0][0]


def test_debug_lines_are_shown_to_whoever_asks_for_them(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write({"n": 1}, event=Event.MESSAGE_DROPPED, when=logs.now)
    (file,) = logs.folder.glob("bot-*.log")
    file.write_bytes(file.read_bytes().replace(b'"info"', b'"debug"'))

    lines, err = shown(capsys)
    assert lines == [] and "nothing but debug lines since" in err and err.endswith("to see them: insomnia logs --all\n")
    for asked in (["--all"], ["--json"], ["--event", "message_dropped"]):
        assert len(shown(capsys, *asked)[0]) == 1

    logs.write({"n": 2}, event=Event.REPLY, when=logs.now)
    (line,), err = shown(capsys)
    assert "reply" in line and err == ""


def test_the_examples_of_the_page_can_be_typed() -> None:
    page = (ROOT / "docs" / "following-logs.md").read_text(encoding="utf-8")
    examples = re.findall(r"^insomnia (logs[^#\n]*)", page, re.MULTILINE)

    assert len(examples) >= 5 and all(build_parser().parse_args(example.split()).command == "logs" for example in examples)


def test_both_logs_are_shown_by_time_and_one_where_it_is_named(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    for n, event in enumerate((Event.REPLY, Event.WORKER_LIFECYCLE, Event.REPLY, Event.RECORD_USAGE)):
        logs.write({"n": n}, when=ago(logs, 10 - n), event=event)

    assert numbers(shown(capsys, "--json")[0]) == [0, 1, 2, 3]
    assert numbers(shown(capsys, "memory", "--json")[0]) == [1, 3]
    assert numbers(shown(capsys, "bot", "--json")[0]) == [0, 2]


def test_the_memory_log_says_what_a_consolidation_did_and_as_json_what_survived_it(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    with recording(log_exporters=[logs.exporter]) as recorded:
        for fact in (memory_facts.CONSOLIDATION_DONE, memory_facts.DISCARDED_BY_DEATH, memory_facts.NO_STAGING):
            recorded.emit(fact)

    told, _ = shown(capsys, "memory")
    (done,) = (json.loads(line) for line in shown(capsys, "memory", "--event", "worker_lifecycle", "--json")[0] if "survival" in line)
    assert [re.split(r"  +", line, maxsplit=3)[-1].strip() for line in told] == [
        "MEMORY consolidation done: wrote 1, merged 2, dropped 4",
        "what was planned, interrupted",
        "MEMORY consolidation skipped: no staging",
    ]
    assert (done["consolidation"]["scope"], done["consolidation"]["survival"]["specifics_lost"]) == ("channel:C1", 7)


@pytest.mark.parametrize(
    ("since", "expected"), [(None, [2, 3, 4]), ("90s", []), ("90m", [4]), ("3h", [3, 4]), ("2d", [1, 2, 3, 4]), ("1w", [0, 1, 2, 3, 4])]
)
def test_since_is_a_day_unless_said_otherwise(
    since: str | None, expected: list[int], logs: Logs, capsys: pytest.CaptureFixture[str]
) -> None:
    for n, hours in enumerate((100, 40, 20, 2, 1)):
        logs.write({"n": n}, when=ago(logs, hours))

    lines, err = shown(capsys, "--json", *(["--since", since] if since else []))

    assert numbers(lines) == expected
    assert ("nothing to show since" in err) == (not expected)


@pytest.mark.parametrize("text", ["{day}T{clock}", "{day} {clock}", "{day}T{clock}+09:00"])
def test_since_may_be_a_time_on_the_wall(text: str, logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    for n, hours in enumerate((5, 3)):
        logs.write({"n": n}, when=ago(logs, hours))
    wall = time.localtime(ago(logs, 4) // SECOND)

    since = text.format(day=time.strftime("%Y-%m-%d", wall), clock=time.strftime("%H:%M:%S", wall))

    assert numbers(shown(capsys, "--json", "--since", since)[0]) == [1]


@pytest.mark.parametrize("since", ["yesterday", "1", "1y", "-1h", "1h30m", "", "2026-13-01", "９h", "999999999999h"])
def test_a_since_that_is_none_is_refused_with_one_that_is(since: str, logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write()

    lines, err = shown(capsys, f"--since={since}", code=2)

    assert lines == [] and "--since" in err and "15m, 1h, 2d" in err


def test_since_before_all_time_is_everything(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write({"n": 1})

    assert numbers(shown(capsys, "--json", "--since", "999999w")[0]) == [1]
    assert numbers(shown(capsys, "--json", "--since", "0001-01-01T00:00+00:00")[0]) == [1]


def test_an_event_and_a_route_can_be_asked_for(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write({"n": 0, "insomnia.route": "main"}, event=Event.GATE_DECISION)
    logs.write({"n": 1, "insomnia.route": "coder"}, event=Event.GATE_DECISION)
    logs.write({"n": 2, "insomnia.route": "coder"}, event=Event.REPLY)
    logs.write({"n": 3, "extract": {"route": "coder"}}, event=Event.WORKER_LIFECYCLE, when=logs.now)
    logs.write({"n": 4}, event=Event.LOG_GAP, when=logs.now)
    logs.now = time.time_ns()

    everything = ("--json", "--since", "52w")
    assert numbers(shown(capsys, *everything, "--event", "gate_decision")[0]) == [0, 1]
    assert numbers(shown(capsys, *everything, "--route", "coder")[0]) == [1, 2, 3]
    assert numbers(shown(capsys, *everything, "--route", "coder", "--event", "reply")[0]) == [2]


def test_an_event_that_there_is_not_is_refused_with_those_there_are(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write()

    lines, err = shown(capsys, "--event", "resets", code=2)

    assert lines == [] and "did you mean session_reset?" in err and "worker_lifecycle" in err


def test_a_log_that_there_is_not_is_refused(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        dispatch(["logs", "model"])

    assert exited.value.code == 2 and "memory" in capsys.readouterr().err


@pytest.mark.parametrize("which", [[], ["memory"]])
def test_without_logs_it_says_how_there_will_be_some(which: list[str], logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    if which:
        logs.write()  # in the other one

    lines, err = shown(capsys, *which, code=1)

    assert lines == [] and f"there are no {' '.join([*which, 'logs'])} yet" in err and "insomnia up" in err


def test_a_directory_that_is_none_is_an_error_of_usage(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no directory" in shown(capsys, "--workspace", "nowhere", code=2)[1]


def test_a_folder_that_cannot_be_read_is_said(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.folder.write_text("a file where the folder should be")

    assert "the logs cannot be read" in shown(capsys, code=1)[1]


def test_damaged_lines_are_shown_as_that_and_counted(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write({"n": 1}, when=logs.now)
    (file,) = logs.folder.glob("bot-*.log")
    with file.open("ab") as other:
        other.write(b'{"ts": "torn\n' + b"y" * 500 + b"\n")
    logs.write({"n": 2}, when=logs.now)
    with file.open("ab") as other:
        other.write(b'{"half')

    lines, err = shown(capsys)

    assert ["unreadable" in line for line in lines] == [False, True, True, False, True]
    assert lines[1].endswith('{"ts": "torn') and len(lines[2]) < 200 and lines[4].endswith('{"half')
    assert "3 lines could not be read" in err


def test_json_is_json_whatever_is_in_the_file(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write({"n": 1, "text": "金曜"}, when=logs.now)
    (file,) = logs.folder.glob("bot-*.log")
    with file.open("ab") as other:
        other.write(b"torn\n")

    lines, err = shown(capsys, "--json")

    assert numbers(lines) == [1] and "金曜" in lines[0]
    assert "1 line could not be read" in err


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_no_line_moves_a_cursor(flags: list[str], logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    """Also not one that somebody else put into the file, raw."""
    logs.write({"insomnia.route": "\x1b[2J\u202e"}, when=logs.now, body="reply: \x1b]0;title\x07\r\u2028", event=Event.REPLY)
    (file,) = logs.folder.glob("bot-*.log")
    line = file.read_bytes()
    with file.open("ab") as other:
        other.write(line.replace(b'"info"', '"\x7f\x9b2J\u202e"'.encode()))
        other.write(b"\x1b[2J torn \x9b\n")

    lines, _ = shown(capsys, *flags)

    text = "".join(lines)
    assert text.isprintable() and len(lines) == (2 if flags else 3)


def test_a_time_that_no_calendar_has_stops_nothing(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.write({"n": 1}, when=logs.now)
    (file,) = logs.folder.glob("bot-*.log")
    line = json.loads(file.read_bytes())
    with file.open("a") as other:
        other.write(json.dumps({**line, "ts": "9999-99-99T99:99:99.999Z"}) + "\n")

    assert [line[:10] for line in shown(capsys)[0]][1] == "9999-99-99"


@pytest.fixture
def following(logs: Logs) -> Iterator[subprocess.Popen[str]]:
    """`insomnia logs -f --json` in a process of its own."""
    logs.write({"n": -1}, when=logs.now)
    for n in range(12):
        logs.write({"n": n}, when=logs.now)
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", "logs", "-f", "--json", "--workspace", str(logs.state.parent)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def following_shows(process: subprocess.Popen[str], count: int) -> list[int]:
    assert process.stdout
    return numbers([process.stdout.readline() for _ in range(count)])


@pytest.mark.kill
def test_following_begins_with_the_last_ten_and_shows_what_comes(logs: Logs, following: subprocess.Popen[str]) -> None:
    first = following_shows(following, 10)
    (file,) = logs.folder.glob("bot-*.log")
    os.truncate(file, 0)
    logs.write({"n": 12}, when=logs.now)
    after_truncation = following_shows(following, 1)
    file.unlink()
    logs.write({"n": 13}, when=logs.now)
    logs.write({"n": 14}, when=logs.now + 24 * HOUR)
    logs.write({"n": 15}, when=logs.now, event=Event.RECORD_USAGE)
    rest = following_shows(following, 3)
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=GUARD_SECONDS)

    assert (first, after_truncation, sorted(rest)) == (list(range(2, 12)), [12], [13, 14, 15])
    assert (following.returncode, err) == (0, "")


@pytest.mark.kill
def test_following_ends_silently_when_nobody_reads_on(logs: Logs, following: subprocess.Popen[str]) -> None:
    following_shows(following, 10)
    assert following.stdout and following.stderr
    following.stdout.close()
    logs.write({"n": 12}, when=logs.now)

    assert following.wait(GUARD_SECONDS) == 1 and following.stderr.read() == ""


@pytest.mark.kill
def test_following_waits_for_the_first_line(logs: Logs) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", "logs", "memory", "-f", "--workspace", str(logs.state.parent)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stderr
    try:
        said = process.stderr.readline()
        logs.write({"n": 1}, when=logs.now, event=Event.RECORD_USAGE)
        line = process.stdout.readline()
    finally:
        process.kill()
        process.communicate()

    assert "no memory logs yet" in said and "waiting" in said
    assert "record_usage" in line
