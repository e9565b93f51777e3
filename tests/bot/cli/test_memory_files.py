"""`insomnia memory lint`, `list` and `show`, from the arguments to what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli import dispatch
from memory.records import KnowledgeKind, RecordKind, Scope, moment
from memory.store import Store
from tests.memory.made_records import NOW, put, record, source, text_of

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    state = tmp_path / ".insomnia"
    state.mkdir()
    return state


def memory(root: Path, *argv: str) -> int:
    return dispatch(["memory", *argv, "--workspace", str(root.parent)])


def test_lint_says_file_line_rule_and_remedy_and_ends_with_1(root: Path, capsys: Capture) -> None:
    put(root, text_of(status="actve"))

    assert memory(root, "lint") == 1

    assert capsys.readouterr().out == (
        ".insomnia/memory/decision/deploy-freeze.md\n"
        "  L206 error  line 4: status is none of the words that it may be\n"
        "       use one of: active, replaced, stale\n"
        "1 record checked: 1 error, 0 warnings.\n"
    )


def test_lint_of_good_files_ends_with_0_and_warnings_alone_are_no_failure(root: Path, capsys: Capture) -> None:
    assert memory(root, "lint") == 0
    assert capsys.readouterr().out == "0 records checked, nothing is wrong.\n"

    put(root, text_of(body="It begins tomorrow."))
    assert memory(root, "lint") == 0
    assert capsys.readouterr().out.endswith("1 record checked: 0 errors, 1 warning.\n")


def test_lint_as_json_is_one_object(root: Path, capsys: Capture) -> None:
    put(root, text_of(trust="me", body="It begins tomorrow."))
    (root / "memory" / "decision" / "notes.txt").write_text("x", encoding="utf-8")

    assert memory(root, "lint", "--json") == 1

    told = json.loads(capsys.readouterr().out)
    assert (told["files"], told["errors"], told["warnings"]) == (2, 2, 0)
    assert told["violations"][1] == {
        "rule": "L206",
        "severity": "error",
        "path": "memory/decision/deploy-freeze.md",
        "message": "trust is none of the words that it may be",
        "mend": "use one of: user, assistant, tool, external",
        "line": 6,
    }


def test_lint_never_shows_the_secret_that_it_found(root: Path, capsys: Capture) -> None:
    secret = "xoxb-" + "1234567890-abcdef"
    put(root, text_of(title=f"Token {secret}", body=secret))

    for form in ((), ("--json",)):
        assert memory(root, "lint", *form) == 1
        out = capsys.readouterr().out
        assert "L501" in out and secret not in out


def test_list_shows_the_newest_first_and_what_cannot_be_read_before_all(root: Path, capsys: Capture) -> None:
    store = Store(root)
    store.write(record("old", updated_at=moment(NOW + 1), title="古い"), None)
    store.write(record("new", kind=RecordKind.QUESTION, updated_at=moment(NOW + 86_400), scope=Scope.channel("C1")), None)
    put(root, text_of(title="\x1b[31mred"), slug="by-hand")
    put(root, "nonsense", slug="broken")
    put(root, text_of(title='"\\u001b[31mred"', updated_at="2026-11-30T09:00:00Z"), slug="red")

    assert memory(root, "list") == 0

    told = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in told[1:-1]] == [
        ["decision", "broken", "invalid"],
        ["decision", "by-hand", "invalid"],
        ["decision", "red", "active"],
        ["question", "new", "open"],
        ["decision", "old", "active"],
    ]
    assert "(edited by hand)" in told[3] and "\x1b" not in "".join(told)
    assert "channel:C1  2025-12-02" in told[4] and told[5].endswith("古い")
    assert "insomnia memory lint" in told[-1]


def test_list_can_be_narrowed_and_says_when_there_is_nothing(root: Path, capsys: Capture) -> None:
    assert memory(root, "list") == 0
    assert "Nothing is remembered yet" in capsys.readouterr().out

    Store(root).write(record(), None)
    Store(root).write(record("ask", kind=RecordKind.QUESTION), None)
    for argv, slugs in ((("--kind", "question"), ["ask"]), (("--status", "active"), ["deploy-freeze"]), (("--kind", "lesson"), [])):
        assert memory(root, "list", *argv, "--json") == 0
        assert [each["slug"] for each in json.loads(capsys.readouterr().out)] == slugs
    assert memory(root, "list", "--kind", "lesson") == 0
    assert "Nothing is remembered like that" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["term", "knowledge/term", "knowledge/term.md", ".insomnia/knowledge/term.md"])
def test_show_prints_the_file_as_it_stands(root: Path, name: str, capsys: Capture) -> None:
    Store(root).write(record("term", kind=RecordKind.KNOWLEDGE, body="予算は100万円。"), None)

    assert memory(root, "show", name) == 0

    told = capsys.readouterr().out
    assert told.splitlines()[0] == str(root / "knowledge/term.md")
    assert told.split("\n", 1)[1] == (root / "knowledge/term.md").read_text(encoding="utf-8")


def test_show_as_json_has_every_field_and_the_file(root: Path, capsys: Capture) -> None:
    made = record("term", kind=RecordKind.KNOWLEDGE, sources=(source(),), pinned=True, run_id="run1", knowledge_kind=KnowledgeKind.TERM)
    written = Store(root).write(made, None)

    assert memory(root, "show", "term", "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert told["text"] == (root / "knowledge/term.md").read_text(encoding="utf-8")
    assert (told["sha256"], told["edited_by_hand"], told["pinned"], told["knowledge_kind"]) == (written.after_sha256, False, True, "term")
    assert told["sources"] == [{"session": "5e1d", "range": [12, 15], "candidate": "5e1d.12.1", "ts": "2025-12-01T00:00:00+00:00"}]


def test_show_of_a_broken_file_prints_it_and_says_that_it_is_not_used(root: Path, capsys: Capture) -> None:
    put(root, "nonsense\x1b[2J")

    assert memory(root, "show", "deploy-freeze") == 0

    told = capsys.readouterr().out
    assert "nonsense" in told and "\x1b" not in told and "insomnia memory lint" in told


def test_show_of_what_is_not_there_names_what_is_near(root: Path, capsys: Capture) -> None:
    Store(root).write(record(), None)
    Store(root).write(record("twice"), None)
    Store(root).write(record("twice", kind=RecordKind.LESSON), None)

    assert memory(root, "show", "deploy-freez") == 1
    assert "Did you mean decision/deploy-freeze?" in capsys.readouterr().err
    assert memory(root, "show", "zzz") == 1
    assert "insomnia memory list" in capsys.readouterr().err
    assert memory(root, "show", "twice") == 2
    assert "decision/twice, lesson/twice" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["lint"], ["list"], ["show", "a"]])
def test_a_directory_without_a_bot_is_an_error_of_usage(tmp_path: Path, argv: list[str], capsys: Capture) -> None:
    assert dispatch(["memory", *argv, "--workspace", str(tmp_path)]) == 2
    assert "--workspace DIR" in capsys.readouterr().err


def test_looking_changes_no_record(root: Path, capsys: Capture) -> None:
    put(root, text_of())
    before = {path: path.stat().st_mtime_ns for path in (root / "memory").rglob("*")}

    assert memory(root, "lint") == 0
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.*")} == {p: t for p, t in before.items() if p.suffix}

    for argv in (["list"], ["show", "deploy-freeze"]):
        assert memory(root, *argv) == 0
    assert {path: path.stat().st_mtime_ns for path in before if path.is_file()} == {p: t for p, t in before.items() if p.is_file()}


def test_list_and_show_are_told_like_every_other_reading(root: Path, capsys: Capture) -> None:
    Store(root).write(record(), None)
    Store(root).write(record("term", kind=RecordKind.KNOWLEDGE), None)

    for argv in (["list"], ["list", "--kind", "knowledge"], ["list", "--kind", "decision", "--status", "active"], ["show", "term"]):
        assert memory(root, *argv) == 0
    assert memory(root, "show", "decision/deploy-freeze") == 0

    log = root / "memory" / "_logs" / "current.log"
    told = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [(each["op"], each["kind"], each["results"], each["status"], each["caller"]) for each in told] == [
        ("query", "none", 2, "found", "cli"),
        ("query", "knowledge", 1, "found", "cli"),
        ("query", "decision", 1, "found", "cli"),
        ("read", "knowledge", 1, "found", "cli"),
        ("read", "decision", 1, "found", "cli"),
    ]
    assert len((root / "memory" / "_usage" / "events.jsonl").read_text(encoding="utf-8").splitlines()) == 5
