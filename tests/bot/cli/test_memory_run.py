"""What `insomnia memory run` prints of each worker's runs, and how it ends where it cannot run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.cli import dispatch, memory_run
from bot.cli.memory_run_pages import consolidated
from bot.cli.memory_run_pages import extracted as page
from bot.memory_control import as_json
from bot.workspace import Control, RunningBot, Workspace
from memory.consolidation.outcome import Result
from telemetry.memory_events import ConsolidationWork, Disposition, MemoryReason, MemoryStatus, RecordOp


def result(status: str = "completed", reason: str = "candidates_found", **more: Any) -> dict[str, Any]:
    usual = {"run_id": "r1", "detail": "", "range": (1, 4), "staged_ids": ("a", "b"), "session_id": "d8200753-5664-4dc7"}
    return {**usual, "status": status, "reason": reason, **more}


def test_a_run_is_a_line_and_what_it_staged_is_added_up() -> None:
    told = page([result(), result(range=(5, 9), staged_ids=("c",))])

    assert told.splitlines() == [
        "RUN   SESSION   WHAT",
        "done  d8200753  entries 1 to 4: staged 2",
        "done  d8200753  entries 5 to 9: staged 1",
        "3 candidates are staged by this.",
    ]


def test_a_failure_says_why_and_nothing_in_it_moves_the_cursor() -> None:
    told = page([result("failed", "model_error", detail="HTTP 529\x1b[2J\nfake line", range=(1, 4), staged_ids=())])

    assert "failed  d8200753  entries 1 to 4: model error (HTTP 529\N{REPLACEMENT CHARACTER}[2J fake line)" in told


def test_skips_are_told_only_where_nothing_else_is() -> None:
    skip = result("skipped", "no_new_session_range", range=None, staged_ids=())

    assert "nothing to do" not in page([result(), skip])
    assert page([skip]).splitlines()[1] == "nothing to do  d8200753  no new session range"
    assert page([]) == "Nothing to read: no session has said anything yet."


def worked(status: str = "completed", reason: str = "records_updated", *, recovered: bool = False, detail: str = "", **work: Any) -> Any:
    """As `as_json` gives it."""
    done = ConsolidationWork(**{"staging_count": 7, "scope": "workspace", **work})
    result = Result(run_id="r1", status=MemoryStatus(status), reason=MemoryReason(reason), detail=detail, work=done, recovered=recovered)
    return json.loads(json.dumps(as_json(result)))


FILED = {"ops": {RecordOp.WRITE: 2, RecordOp.EDIT: 1}, "dispositions": {Disposition.APPLIED: 3, Disposition.DUPLICATE: 3}}


def test_a_consolidation_is_a_line_of_what_it_wrote_and_what_became_of_each_candidate() -> None:
    merged = {"ops": {RecordOp.MERGE: 1, RecordOp.DELETE: 2}, "dispositions": {Disposition.APPLIED: 1, Disposition.DEFERRED: 1}}
    told = consolidated([worked(**FILED), worked(scope="user:U1", **merged)])

    assert told.splitlines() == [
        "RUN   SCOPE      WHAT",
        "done  workspace  wrote 2, edited 1; 3 adopted, 3 duplicates",
        "done  user:U1    merged 1; 1 adopted, 1 deferred",
    ]


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            worked(reason="nothing_adopted", dispositions={Disposition.DUPLICATE: 1, Disposition.ALREADY_COVERED: 2}),
            "done  workspace  nothing adopted; 1 duplicate, 2 already covered",
        ),
        (
            worked("failed", "model_error", detail="HTTP 529", invalid_count=1),
            "failed  workspace  model error (HTTP 529); it had 7 candidates; 1 file put aside as no candidate",
        ),
        (
            worked("failed", "store_conflict", dispositions={Disposition.DEFERRED: 7}),
            "failed  workspace  store conflict; 7 deferred",
        ),
        (worked("cancelled", "user_cancelled", staging_count=1), "cancelled  workspace  user cancelled; it had 1 candidate"),
        (worked("skipped", "no_staging", staging_count=0, scope=""), "nothing to do  -      no candidate waits"),
        (
            worked("skipped", "no_valid_staging", staging_count=0, scope="", invalid_count=2),
            "nothing to do  -      what waits is no candidate; 2 files put aside as no candidate",
        ),
        (
            worked(recovered=True, **FILED),
            "done  workspace  an earlier run that was cut off: wrote 2, edited 1; 3 adopted, 3 duplicates",
        ),
    ],
)
def test_how_a_consolidation_ended_is_told_in_words(result: Any, line: str) -> None:
    assert consolidated([result]).splitlines()[1] == line


def test_the_skip_after_the_last_snapshot_is_not_told_beside_a_run() -> None:
    told = consolidated([worked(**FILED), worked("skipped", "no_staging", staging_count=0, scope="")])

    assert len(told.splitlines()) == 2


def test_what_a_model_or_a_file_wrote_cannot_move_the_cursor() -> None:
    told = consolidated([worked("failed", "model_error", detail="x\x1b[2J\nfake line", scope="user:\x1b[2J")])

    assert "\x1b" not in told and len(told.splitlines()) == 2


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ([worked(**FILED)], 0),
        ([worked("skipped", "no_staging")], 0),
        ([worked(**FILED), worked("failed", "linter_failed")], 1),
        ([worked("cancelled", "interrupted")], 1),
        ([worked("failed", "interrupted", recovered=True), worked(**FILED)], 0),
    ],
)
def test_a_consolidation_that_failed_is_exit_code_1(
    ended: list[Any], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_run, "_alone", lambda *_: ended)

    assert dispatch(["memory", "run", "consolidation", "--workspace", str(tmp_path), "--json"]) == code
    assert json.loads(capsys.readouterr().out) == ended


def test_an_older_run_that_was_cut_off_is_told_and_is_no_failure_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = [result("failed", "interrupted", staged_ids=(), recovered=True), result()]
    monkeypatch.setattr(memory_run, "_alone", lambda *_: ended)
    arguments = ["memory", "run", "extract", "--workspace", str(tmp_path)]

    assert dispatch(arguments) == 0
    assert "an earlier run that was cut off: entries 1 to 4: interrupted" in capsys.readouterr().out
    ended[1] = result("failed", "model_error")
    assert dispatch(arguments) == 1


def test_ranges_that_were_put_aside_are_named_wherever_the_memory_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".insomnia" / "memory" / "_state" / "quarantined"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"v": 1, "session_id": "d8200753-5664-4dc7", "range": [3, 4]}')
    (folder / "b.json").write_text('["odd"]')
    monkeypatch.setattr(memory_run, "_alone", lambda *_: [])

    for command in (["run", "extract"], ["list"]):
        assert dispatch(["memory", *command, "--workspace", str(tmp_path)]) == 0
        told = capsys.readouterr().out.splitlines()[-1]
        assert "entries of d8200753 3 to 4." in told


def test_a_bot_of_an_older_version_is_to_be_restarted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    with workspace.lock():
        workspace.publish(RunningBot(pid=1, started_at=0.0, version="0", slack="embedded", control=Control(token="t")))
        code = dispatch(["memory", "run", "extract", "--workspace", str(tmp_path)])

    assert code == 1 and "restart it" in capsys.readouterr().err


def test_a_bot_that_is_just_starting_is_waited_for_by_the_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    with workspace.lock():
        code = dispatch(["memory", "run", "extract", "--workspace", str(tmp_path)])

    assert code == 1 and "try again in a moment" in capsys.readouterr().err


def test_a_workspace_that_is_not_there_is_a_mistake_of_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["memory", "run", "extract", "--workspace", str(tmp_path / "none")]) == 2
    assert "there is no directory" in capsys.readouterr().err


def test_an_unknown_worker_is_a_mistake_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dispatch(["memory", "run", "dreaming"])

    told = capsys.readouterr().err
    assert ended.value.code == 2 and "extract" in told and "consolidation" in told
