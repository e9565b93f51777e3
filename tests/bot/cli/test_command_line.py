"""The whole command line, in processes of its own: what is imported, where output goes, which exit code comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli import dispatch, parser
from bot.explain.run_page import short
from bot.version import VERSION
from bot.workspace import Control, RunningBot, Workspace
from memory.consolidation.fates import State
from memory.record_types import Status
from telemetry.memory_events import MemoryWorker, RecordKind

COMMANDS = ("up", "run", "threads", "say", "why", "traces", "status", "config", "demo")
SLOW = (
    "aiohttp",
    "asyncio",
    "claude_agent_sdk",
    "opentelemetry",
    "pydantic",
    "slack_bolt",
    "slack_sdk",
    "sqlite3",
    "ssl",
    "urllib.request",
)
WITH_IMPORTS = """
import sys
from bot.__main__ import main
try:
    code = main(sys.argv[1:])
finally:
    print("IMPORTED", *sys.modules, file=sys.stderr)
"""


def insomnia(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bot", *argv], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("argv", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)])
def test_help_is_instant_because_it_imports_nothing_slow(argv: list[str]) -> None:
    ran = subprocess.run([sys.executable, "-c", WITH_IMPORTS, *argv], capture_output=True, text=True, check=False)

    imported = ran.stderr.partition("IMPORTED ")[2].split()
    assert ran.returncode == 0
    assert "bot.cli.parser" in imported
    assert not set(SLOW) & set(imported)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_an_example_and_a_workspace(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dispatch([command, "--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"example:\n  insomnia {command}" in shown
    assert "--workspace DIR" in shown


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dispatch(["--version"])

    assert capsys.readouterr().out == f"insomnia {VERSION}\n"


@pytest.mark.parametrize(
    "argv", [[], ["sya"], ["say"], ["say", "x", "--timeout", "0"], ["say", "x", "--timeout", "nan"], ["threads", "--jsn"]]
)
def test_a_wrong_command_line_is_a_usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dispatch(argv)

    assert ended.value.code == 2
    assert "usage: insomnia" in capsys.readouterr().err


def test_the_module_runs_as_a_program() -> None:
    ran = insomnia("--version")

    assert (ran.returncode, ran.stdout) == (0, f"insomnia {VERSION}\n")


@pytest.mark.parametrize("command", ["up", "run", "config"])
def test_a_configuration_that_is_wrong_ends_a_command_with_every_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "insomnia.toml").write_text('[routes.main]\nrotate_at = "many"\nrotatat = 1\n')

    code = dispatch([command, "--workspace", str(tmp_path)])

    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert 'insomnia.toml: routes.main.rotate_at is "many"; allowed: a whole number of at least 20000\n' in told.err
    assert "did you mean rotate_at?" in told.err
    assert not (tmp_path / ".insomnia").exists()


@pytest.mark.parametrize("command", ["up", "run", "config"])
def test_a_workspace_that_is_not_there_is_a_usage_error(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = dispatch([command, "--workspace", str(tmp_path / "none")])

    assert code == 2
    assert "there is no directory" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "run"])
def test_a_workspace_in_use_is_told_before_anything_starts(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(tmp_path)
    workspace.prepare()

    with workspace.lock():
        code = dispatch([command, "--workspace", str(tmp_path)])

    assert code == 1
    assert "is in use by another bot (process" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["threads"], ["say", "hello"]])
def test_without_a_bot_the_command_says_how_to_start_one(argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = dispatch([*argv, "--workspace", str(tmp_path)])

    told = capsys.readouterr()
    assert (code, told.out) == (1, "")
    assert told.err == f"insomnia: no bot is up in {tmp_path}; start one in another terminal: insomnia up --workspace {tmp_path}\n"


@pytest.mark.parametrize("argv", [["threads"], ["say", "hello"]])
@pytest.mark.parametrize("kind", ["socket", "http"])
def test_with_real_slack_the_command_refuses(argv: list[str], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(tmp_path)
    workspace.prepare()

    with workspace.lock():
        workspace.publish(RunningBot(pid=1, started_at=0.0, version="0", slack=kind, control=Control()))
        code = dispatch([*argv, "--workspace", str(tmp_path)])

    assert code == 2
    assert "real Slack" in capsys.readouterr().err


def test_saying_nothing_to_nobody_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["say", " ", "--no-mention", "--workspace", str(tmp_path)]) == 2


def test_config_shows_values_and_origins_but_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "insomnia.toml").write_text('language = "ja"\n')
    for name, value in {"SLACK_BOT_TOKEN": "xoxb-1-hide", "SLACK_APP_TOKEN": "xapp-1-hide", "ANTHROPIC_API_KEY": "sk-hide"}.items():
        monkeypatch.setenv(name, value)

    code = dispatch(["config", "--workspace", str(tmp_path)])

    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line}
    assert code == 0
    assert "hide" not in shown
    assert rows["language"] == ['"ja"', "insomnia.toml"]
    assert rows["routes.main.rotate_at"] == ["150000", "default"]
    assert rows["SLACK_BOT_TOKEN"] == ["set", "environment"]
    assert shown.endswith("With these settings real Slack (Socket Mode) asks, and Claude answers.\n")


def test_config_as_json_holds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")

    code = dispatch(["config", "--json", "--workspace", str(tmp_path)])

    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert code == 0
    assert rows["claude.base_url"] == {
        "key": "claude.base_url",
        "value": "http://127.0.0.1:9",
        "origin": "environment ANTHROPIC_BASE_URL",
    }
    assert rows["routes.main.channels"]["value"] == ["*"]
    assert rows["SLACK_BOT_TOKEN"]["value"] == "not set"


def test_a_reader_that_stops_reading_is_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m bot config --workspace {tmp_path} | true"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert "Traceback" not in ran.stderr


def test_the_choices_of_memory_are_those_that_there_are() -> None:
    assert tuple(map(str, RecordKind)) == parser.RECORD_KINDS and tuple(map(str, Status)) == parser.RECORD_STATUSES
    assert tuple(map(short, MemoryWorker)) == parser.RUN_WORKERS and tuple(map(str, State)) == parser.CANDIDATE_STATES
