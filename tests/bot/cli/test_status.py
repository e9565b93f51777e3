"""`insomnia status`: exit codes, the page, the JSON and the line, with a bot that is up, gone, or silent."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.cli import dispatch
from bot.workspace import RunningBot, Workspace
from telemetry.actionbar import cells
from telemetry.status_file import AccountStatus, ReplyStatus, RunStatus, SessionStatus, Status, dumps, write_private_atomic
from tests.bot.cli.test_command_line import SLOW

NOW = 1_764_500_000.0
UP, CANNOT_TELL, USAGE, NOT_UP = 0, 1, 2, 3
BOT = RunningBot(pid=4242, started_at=NOW - 7_300, version="0.1.0", slack="embedded")
RUN = RunStatus(
    run_id="c1",
    worker="memory_consolidation",
    trigger="idle",
    status="completed",
    at=NOW - 240,
    reason="records_updated",
    began_at=NOW - 250,
    trace_id="c8adf1f1f9356fcc4fabab3a2b40321d",
    ops={"write": 1, "merge": 2, "drop": 4},
)
SESSION = SessionStatus(route="サポート", key="dm:U1", state="busy", epoch=3, known_threads=2, context_tokens=60_000, limit_tokens=150_000)
STATUS = Status(
    pid=4242,
    at=NOW - 1,
    slack_mode="embedded",
    connected=True,
    last_event_at=NOW - 12.25,
    model_kind="embedded",
    account="work",
    accounts=(AccountStatus(name="work", state="available"),),
    queue_depth=2,
    sessions=(SESSION,),
    memory=RUN,
    reply=ReplyStatus(route="main", outcome="failed", at=NOW - 40, seconds=3.25, reason="deadline", trace_id="0af7651916cd43dd"),
)
DONE = "✓ MEMORY consolidation done: wrote 1, merged 2, dropped 4 · 4m"
Insomnia = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _a_terminal_and_a_clock_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("time.time", lambda: NOW)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    return workspace


@pytest.fixture
def up(workspace: Workspace) -> Iterator[Workspace]:
    with workspace.lock():
        workspace.publish(BOT)
        say(workspace, STATUS)
        yield workspace


@pytest.fixture
def insomnia(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Insomnia:
    def run(*argv: str) -> tuple[int, str, str]:
        code = dispatch(["status", "--workspace", str(workspace.root), *argv])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def say(workspace: Workspace, status: Status) -> None:
    write_private_atomic(workspace.status_json, dumps(status))


@pytest.mark.usefixtures("up")
def test_the_page_tells_at_a_glance_what_there_is_to_know(insomnia: Insomnia) -> None:
    assert insomnia() == (
        UP,
        f"""\
Bot     up for 2h, since 2025-11-30 08:51, version 0.1.0, process 4242
Slack   the embedded workspace, connected, last event 12s ago
Model   the embedded model, account work
Queue   2 messages wait or are being answered
Reply   failed (deadline) 40s ago, after 3.2 s in route main; trace 0af7651916cd43dd
Memory  {DONE}

ROUTE     SESSION  STATE  THREADS HELD  CONTEXT                 EPOCH
サポート  dm:U1    busy   2             60000 of 150000 (40 %)  3
""",
        "",
    )


@pytest.mark.usefixtures("up")
def test_the_json_is_exactly_this(insomnia: Insomnia) -> None:
    code, out, _ = insomnia("--json")

    assert code == UP
    assert json.loads(out) == {
        "v": 1,
        "bot": {"up": True, "pid": 4242, "since": "2025-11-30T08:51:40.000Z", "version": "0.1.0"},
        "slack": {"mode": "embedded", "connected": True, "connections": 1, "last_event_age_s": 12.2},
        "model": {"kind": "embedded", "account": "work"},
        "accounts": [{"name": "work", "state": "available", "until": None}],
        "sessions": [
            {
                "route": "サポート",
                "key": "dm:U1",
                "state": "busy",
                "epoch": 3,
                "known_threads": 2,
                "context_tokens": 60_000,
                "limit_tokens": 150_000,
            }
        ],
        "queue": {"depth": 2},
        "memory": {
            "run_id": "c1",
            "worker": "memory_consolidation",
            "trigger": "idle",
            "status": "completed",
            "reason": "records_updated",
            "ts": "2025-11-30T10:49:20.000Z",
            "trace_id": "c8adf1f1f9356fcc4fabab3a2b40321d",
        },
        "line": DONE,
    }


RESTING = (
    AccountStatus(name="work", state="limited", until=NOW + 3_600),
    AccountStatus(name="spare", state="refused", until=NOW - 1),
    AccountStatus(name="third", state="warned"),
)


def test_accounts_are_shown_with_the_end_of_their_rest(up: Workspace, insomnia: Insomnia) -> None:
    say(up, replace(STATUS, accounts=RESTING))

    _, page, _ = insomnia()
    told = json.loads(insomnia("--json")[1])

    assert "Accounts  work limited until 2025-11-30 11:53; spare available; third warned\n" in page
    assert told["accounts"] == [
        {"name": "work", "state": "limited", "until": "2025-11-30T11:53:20.000Z"},
        {"name": "spare", "state": "available", "until": None},
        {"name": "third", "state": "warned", "until": None},
    ]


def test_an_account_whose_rest_never_ends_breaks_nothing(up: Workspace, insomnia: Insomnia) -> None:
    say(up, replace(STATUS, accounts=(AccountStatus(name="work", state="limited", until=9e14),)))

    assert (insomnia()[0], insomnia("--json")[0]) == (UP, UP)
    assert "work limited" in insomnia()[1]


@pytest.mark.usefixtures("up")
def test_the_line_is_the_actionbar_s(insomnia: Insomnia) -> None:
    assert insomnia("--line") == (UP, f"{DONE}\n", "")
    assert insomnia("--line", "--width", "20") == (UP, "✓ consolidation done\n", "")


def test_a_bot_that_has_heard_nothing_yet_says_so(up: Workspace, insomnia: Insomnia) -> None:
    say(up, Status(pid=4242, at=NOW, slack_mode="socket", model_kind="anthropic"))

    code, out, _ = insomnia()

    assert code == UP
    assert "real Slack (Socket Mode), not connected yet, no event yet" in out
    assert "Claude, not asked yet" in out
    assert "MEMORY – no run yet" in out
    assert out.endswith("No session yet; the first message starts one.\n")
    assert json.loads(insomnia("--json")[1])["memory"] is None


def test_a_lost_socket_is_told_loudly(up: Workspace, insomnia: Insomnia) -> None:
    say(up, replace(STATUS, connected=False))

    assert "NOT connected" in insomnia()[1]


def test_other_connections_of_the_app_are_told(up: Workspace, insomnia: Insomnia) -> None:
    say(up, replace(STATUS, connections=2))

    assert "connected, 2 connections share the events, last event" in insomnia()[1]
    assert json.loads(insomnia("--json")[1])["slack"]["connections"] == 2


def test_many_sessions_are_cut_on_the_page_and_whole_in_json(up: Workspace, insomnia: Insomnia) -> None:
    say(up, replace(STATUS, sessions=tuple(replace(SESSION, key=f"dm:{number}") for number in range(50))))

    page = insomnia()[1]
    assert "dm:49" in page and "dm:29 " not in page and "and 30 more" in page
    assert len(json.loads(insomnia("--json")[1])["sessions"]) == 50


# -- not up ------------------------------------------------------------------------------------------------------------
def test_no_bot_was_ever_here(insomnia: Insomnia, workspace: Workspace) -> None:
    code, out, _ = insomnia()

    assert code == NOT_UP
    assert out == f"◼ BOT stopped\nNo bot is up in {workspace.root}; start it: insomnia up --workspace {workspace.root}\n"
    assert insomnia("--line") == (UP, "◼ BOT stopped\n", "")


def test_a_bot_that_is_gone_leaves_only_its_last_run_behind(insomnia: Insomnia, workspace: Workspace) -> None:
    say(workspace, replace(STATUS, memory=replace(RUN, status="started", reason="")))

    code, out, _ = insomnia("--json")

    told = json.loads(out)
    assert code == NOT_UP
    assert told["bot"] == {"up": False, "pid": None, "since": None, "version": None}
    assert told["slack"] == {"mode": None, "connected": None, "connections": None, "last_event_age_s": None}
    assert (told["model"], told["sessions"], told["queue"]) == ({"kind": None, "account": None}, [], {"depth": None})
    assert told["accounts"] == []
    assert (told["memory"]["status"], told["memory"]["reason"]) == ("failed", "interrupted"), "nothing runs without a bot"
    assert told["line"] == "◼ BOT stopped · 1s"
    assert "The last memory run was 2025-11-30T10:49:20.000Z: memory_consolidation failed (interrupted)." in insomnia()[1]


def test_a_left_over_bot_json_with_the_pid_of_something_alive_is_no_bot(insomnia: Insomnia, workspace: Workspace) -> None:
    workspace.publish(replace(BOT, pid=os.getpid()))
    workspace.lock_file.write_text(f"{os.getpid()}\n")

    assert insomnia()[0] == NOT_UP


def test_a_bot_that_only_starts_is_not_up_yet(insomnia: Insomnia, workspace: Workspace) -> None:
    with workspace.lock():
        assert insomnia()[0] == NOT_UP


# -- cannot be told ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("left", ["nothing", "rubbish", "that of the bot before"])
def test_a_bot_without_a_status_of_its_own_is_up_and_that_is_all(left: str, up: Workspace, insomnia: Insomnia) -> None:
    up.status_json.unlink()
    if left == "rubbish":
        up.status_json.write_text("{")
    if left == "that of the bot before":
        say(up, replace(STATUS, pid=1))

    code, out, _ = insomnia()

    assert code == UP
    assert "up for 2h" in out and "has not written its status" in out
    assert insomnia("--line") == (UP, "MEMORY ? no status\n", "")
    told = json.loads(insomnia("--json")[1])
    assert (told["bot"]["up"], told["slack"]["mode"], told["slack"]["connected"], told["memory"]) == (True, "embedded", None, None)


def test_a_bot_json_of_another_version_cannot_be_told_and_the_line_says_so(up: Workspace, insomnia: Insomnia) -> None:
    up.bot_json.write_text('{"v": 99}')

    code, out, err = insomnia()

    assert (code, out) == (CANNOT_TELL, "")
    assert "cannot be told" in err and "restart the bot" in err
    assert insomnia("--line") == (UP, "MEMORY ? no status\n", "")


def test_a_folder_that_is_not_there_is_a_wrong_command_line(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(workspace.root / "gone")

    assert dispatch(["status", "--workspace", gone]) == USAGE
    assert f"there is no directory {gone}" in capsys.readouterr().err
    assert dispatch(["status", "--workspace", gone, "--line"]) == UP
    assert capsys.readouterr().out == "◼ BOT stopped\n"


@pytest.mark.parametrize("argv", [["--line", "--json"], ["--width", "0"], ["--width", "wide"]])
def test_what_cannot_be_meant_is_a_usage_error(argv: list[str], insomnia: Insomnia) -> None:
    with pytest.raises(SystemExit) as ended:
        insomnia(*argv)

    assert ended.value.code == USAGE


# -- terminals ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("up")
@pytest.mark.parametrize(
    ("environment", "plain"),
    [
        ({"LANG": "C"}, True),
        ({"LANG": ""}, True),
        ({"LANG": "en_US.ISO-8859-1"}, True),
        ({"LC_ALL": "POSIX"}, True),
        ({"TERM": "dumb"}, True),
        ({"LC_ALL": "C.utf8", "LANG": "C"}, False),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, False),
        ({}, False),
    ],
)
def test_a_terminal_that_knows_ascii_only_is_told_in_ascii(
    environment: dict[str, str], plain: bool, insomnia: Insomnia, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert insomnia("--line")[1].isascii() is plain


@pytest.mark.usefixtures("up")
def test_colours_only_where_somebody_sees_them_and_wants_them(insomnia: Insomnia, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*argv: str, **environment: str) -> str:
        with monkeypatch.context() as terminal:
            terminal.setattr("sys.stdout.isatty", lambda: True)
            for name, value in environment.items():
                terminal.setenv(name, value)
            return insomnia(*argv)[1]

    assert "\033" not in insomnia("--line")[1]
    assert told("--line").startswith("\033[32m✓ \033[0m")
    assert told("--line", NO_COLOR="") == told("--line"), "an empty NO_COLOR asks for nothing"
    assert told("--line", NO_COLOR="1") == f"{DONE}\n"
    assert told(NO_COLOR="1") == insomnia()[1]


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize("width", [1, 12, 20, 40])
def test_no_line_is_wider_than_the_bar(width: int, insomnia: Insomnia) -> None:
    assert cells(insomnia("--line", "--width", str(width))[1].rstrip("\n")) <= width


# -- speed -------------------------------------------------------------------------------------------------------------
LINE = """
import sys
from bot.__main__ import main
code = main(["status", "--line", "--workspace", sys.argv[1]])
print("IMPORTED", code, *sys.modules, file=sys.stderr)
"""


def test_the_line_imports_nothing_slow(up: Workspace) -> None:
    environment: dict[str, Any] = {**os.environ, "LANG": "C.UTF-8"}
    argv = [sys.executable, "-c", LINE, str(up.root)]
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    code, *imported = ran.stderr.partition("IMPORTED ")[2].split()
    assert (ran.stdout[:8], code) == ("✓ MEMORY", "0")
    assert "telemetry.actionbar" in imported
    slow = {*SLOW, "bot.config", "bot.cli.status_page", "datetime", "http", "logging", "subprocess", "telemetry.names"}
    assert not slow & set(imported)


def test_a_line_does_not_disturb_a_bot_that_starts(workspace: Workspace, insomnia: Insomnia) -> None:
    """It asks with a shared lock, for a moment; it must not be left behind."""
    insomnia("--line")

    with workspace.lock_file.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
