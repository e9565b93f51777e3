"""`insomnia memory query`: what a person sees of a search, and that it is told like every other query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli import dispatch
from memory.records import Scope, Status, render
from tests.memory.made_records import put, record


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    state = tmp_path / ".insomnia"
    put(state, render(record(body="金曜の午後はデプロイしない。例外は部長に聞く。")))
    put(state, render(record("codename", title="計画の名前", body="富士という。", scope=Scope.channel("C9"))), "codename")
    put(state, render(record("old", title="古い凍結", status=Status.REPLACED, replaced_by="deploy-freeze")), "old")
    return tmp_path


def asked(workspace: Path, *arguments: str) -> int:
    return dispatch(["memory", "query", *arguments, "--workspace", str(workspace)])


def test_each_record_is_shown_with_the_sentence_that_answers(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(workspace, "例外は誰に聞く？") == 0

    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == ["decision/deploy-freeze  金曜のデプロイ凍結", "    例外は部長に聞く。"]


def test_what_does_not_hold_any_more_says_so(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked(workspace, "古い凍結")

    assert "decision/old  古い凍結  (replaced)" in capsys.readouterr().out


def test_a_scope_shows_what_would_be_found_there(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(workspace, "富士", "--json", "--scope", "channel:C9") == 0
    assert [each["slug"] for each in json.loads(capsys.readouterr().out)["results"]] == ["codename"]

    assert asked(workspace, "富士", "--json", "--scope", "workspace") == 0
    assert json.loads(capsys.readouterr().out)["results"] == []


def test_nothing_found_is_no_failure_and_says_what_to_do_next(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(workspace, "zebra") == 0

    said = capsys.readouterr()
    assert said.out == ""
    assert "insomnia memory list" in said.err


@pytest.mark.parametrize("scope", ["nowhere", "channel", "channel:", "workspace:", "channel:../x"])
def test_a_scope_that_is_none_is_an_error_of_usage(workspace: Path, scope: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(workspace, "a", "--scope", scope) == 2
    assert "channel:C012ABC" in capsys.readouterr().err


def test_a_question_that_is_too_long_is_an_error_of_usage(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(workspace, "長" * 201) == 2
    assert "shorten" in capsys.readouterr().err


def test_a_place_without_a_memory_is_an_error_of_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, "a") == 2
    assert "--workspace" in capsys.readouterr().err


def test_a_query_leaves_one_line_and_one_usage(workspace: Path) -> None:
    asked(workspace, "凍結")

    (log,) = (workspace / ".insomnia" / "memory" / "_logs").glob("memory-*.log")
    (line,) = map(json.loads, log.read_text("utf-8").splitlines())
    (used,) = map(json.loads, (workspace / ".insomnia" / "memory" / "_usage" / "events.jsonl").read_text("utf-8").splitlines())
    assert (line["event"], line["op"], line["kind"], line["query"], line["caller"]) == ("record_usage", "query", "none", "凍結", "cli")
    assert (used["op"], used["caller"], used["found"][0]) == ("query", "cli", "decision/deploy-freeze")


def test_control_characters_of_a_record_do_not_reach_the_terminal(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(workspace / ".insomnia", "---\nno record\n---\n\x1b[2J zebra \u202e\n", "odd")

    asked(workspace, "zebra")

    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)
