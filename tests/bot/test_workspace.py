from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from bot.workspace import Control, RunningBot, Workspace, WorkspaceError, WorkspaceInUse, write_private
from telemetry.jsonl_days import log_folders
from telemetry.names import Stream

BOT = RunningBot(pid=7, started_at=1.5, version="0", slack="embedded", control=Control(slack="http://127.0.0.1:1/control/", token="t"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    return workspace


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_in_the_workspace_is_its_owners_alone(workspace: Workspace) -> None:
    with workspace.lock():
        workspace.publish(BOT)

        paths = [workspace.state, *workspace.state.rglob("*")]
        assert {mode(path) for path in paths if path.is_dir()} == {0o700}
        assert {mode(path) for path in paths if path.is_file()} == {0o600}


def test_a_workspace_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / ".insomnia").mkdir(mode=0o755)

    Workspace(tmp_path).prepare()

    assert mode(tmp_path / ".insomnia") == 0o700


def test_git_sees_only_memory_and_knowledge(workspace: Workspace) -> None:
    assert (workspace.state / ".gitignore").read_text().splitlines()[1:] == [
        "/*",
        "!/.gitignore",
        "!/memory/",
        "/memory/_*",
        "!/knowledge/",
    ]


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="there is no directory"):
        Workspace(tmp_path / "none").prepare()


def test_a_file_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / ".insomnia").touch()

    with pytest.raises(WorkspaceError, match="cannot be used"):
        Workspace(tmp_path).prepare()


def test_a_second_bot_is_told_whose_workspace_it_is(workspace: Workspace) -> None:
    with workspace.lock(), pytest.raises(WorkspaceInUse, match=f"process {os.getpid()}"), workspace.lock():
        pass


def test_the_lock_is_free_again_after_an_error(workspace: Workspace) -> None:
    with pytest.raises(ValueError, match="boom"), workspace.lock():
        raise ValueError("boom")

    with workspace.lock():
        pass


def test_bot_json_says_what_the_bot_said(workspace: Workspace) -> None:
    with workspace.lock():
        workspace.publish(BOT)

        assert workspace.running_bot() == BOT
        assert json.loads(workspace.bot_json.read_text())["v"] == 1


def test_bot_json_goes_with_the_bot(workspace: Workspace) -> None:
    with workspace.lock():
        workspace.publish(BOT)

    assert not workspace.bot_json.exists()
    assert workspace.running_bot() is None


def test_a_bot_json_without_a_lock_is_a_leftover(workspace: Workspace) -> None:
    workspace.publish(BOT)
    workspace.lock_file.touch()

    assert workspace.running_bot() is None


def test_a_bot_that_is_still_starting_is_not_up(workspace: Workspace) -> None:
    with workspace.lock():
        assert workspace.running_bot() is None


def test_a_leftover_of_a_killed_bot_is_not_taken_for_the_new_one(workspace: Workspace) -> None:
    workspace.publish(BOT)

    with workspace.lock():
        assert workspace.running_bot() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v": 2, "control": {}}', '{"v": 1, "pid": 1, "control": {"other": 1}}'])
def test_a_bot_json_of_another_version_is_told(workspace: Workspace, text: str) -> None:
    with workspace.lock():
        write_private(workspace.bot_json, text)

        with pytest.raises(WorkspaceError, match="restart the bot"):
            workspace.running_bot()


def test_where_no_bot_ever_ran_none_is_up(tmp_path: Path) -> None:
    assert Workspace(tmp_path).running_bot() is None


def test_the_control_token_is_in_no_repr() -> None:
    assert "token" not in repr(BOT)


def test_both_logs_can_be_followed_before_there_is_a_line(workspace: Workspace) -> None:
    assert [folder for folder in log_folders(workspace.state).values() if not folder.is_dir()] == []
    assert workspace.memory_logs == log_folders(workspace.state)[Stream.MEMORY]
