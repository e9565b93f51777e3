"""`insomnia memory runs`: what is listed and what stands on a run's page, from real runs in a real trace store."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from bot.explain.run_words import DISPOSITIONS, DONE, REASONS, TRIGGERS
from memory.consolidation.run import KEY
from memory.disk import Disk
from memory.run_files import RunFile, RunFiles
from telemetry.actionbar import cells
from telemetry.memory_events import (
    Disposition,
    MemoryReason,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    RecordOp,
)
from telemetry.names import Attr, SpanName
from tests.bot.cli.remembering import Capture, Remembering, as_json, extracted, merged, rows, wrote

ROOT = Path(__file__).parents[3]


def test_runs_are_listed_newest_first_with_what_they_did(there: Remembering, capsys: Capture) -> None:
    extracted(there)
    first, second = wrote(there), merged(there)

    assert there.command("runs") == 0

    told = [line.split() for line in rows(capsys)]
    assert told[0] == ["RUN", "WORKER", "TRIGGER", "STATUS", "TOOK", "COST", "WHAT"]
    assert [(line[0], line[1], line[2], line[3]) for line in told[1:]] == [
        (second[:8], "consolidation", "manual", "completed"),
        (first[:8], "consolidation", "manual", "completed"),
        ("x1", "extract", "session_end", "completed"),
    ]
    assert [" ".join(line[6:]) for line in told[1:3]] == ["merged 1 (of 2 candidates)", "written 2 (of 2 candidates)"]
    assert " ".join(told[3][6:]) == "$0.0123 staged 3 (of entries 12 to 40)"


def test_json_holds_the_same_for_the_list_and_the_page(there: Remembering, capsys: Capture) -> None:
    extracted(there)
    wrote(there)
    run_id = merged(there)

    assert there.command("runs", "--json") == 0
    listed = as_json(capsys)
    assert there.command("runs", run_id, "--json") == 0
    page = as_json(capsys)

    assert [one["worker"] for one in listed] == ["memory_consolidation", "memory_consolidation", "memory_extract"]
    assert {key: value for key, value in page.items() if key in listed[0]} == listed[0]
    assert page["dispositions"] == {"discarded": 1, "applied": 1} and page["counts"] == {"merged": 1, "deleted": 1}
    assert page["survival"] == {"records_lost": 0, "specifics_lost": 0, "records": 2, "specifics": 4}
    assert [(each["tool"], each["outcome"], each["applied"]) for each in page["operations"]] == [
        ("staging_list", "", None),
        ("memory_query", "found", None),
        ("memory_merge", "rejected", None),
        ("memory_merge", "planned", True),
        ("staging_resolve", "settled", None),
    ]
    assert [each["path"] for each in page["files"]] == ["memory/decision/deploy-freeze.md", "memory/decision/friday-freeze.md"]
    assert [each["disposition"] for each in page["candidates"]] == ["discarded", "applied"]
    extract = listed[2]
    assert extract["read"] == {"session_id": "5e551011-aaaa", "route": "main", "first": 12, "last": 40, "entries": 20}
    assert (extract["models"], extract["input_tokens"], extract["output_tokens"], extract["cost_usd"]) == (["claude-x"], 900, 40, 0.0123)
    assert (extract["counts"], extract["survival"], extract["given"]) == ({"staged": 3}, None, None)


@pytest.mark.parametrize(
    ("argv", "workers"),
    [
        (["--worker", "extract"], ["extract"]),
        (["--worker", "consolidation"], ["consolidation"] * 3),
        (["--limit", "1"], ["consolidation"]),
        (["--limit", "3"], ["consolidation"] * 3),
        (["--since", "1h"], ["consolidation"] * 3 + ["extract"]),
        (["--since", "2099-01-01T00:00"], []),
    ],
)
def test_the_list_is_narrowed(there: Remembering, argv: list[str], workers: list[str], capsys: Capture) -> None:
    extracted(there)
    first = wrote(there)
    merged(there)
    there.bench.clock.at = time.time()
    assert there.command("undo", merged_last(there)) == 0
    assert first
    capsys.readouterr()

    assert there.command("runs", *argv) == 0

    told = capsys.readouterr()
    assert [line.split()[3] for line in told.out.splitlines()[1:]] == workers
    assert workers or "no memory run is like that" in told.err


def merged_last(there: Remembering) -> str:
    newest = max((there.state / "memory" / "_trash").glob("*/run.json"), key=lambda path: json.loads(path.read_text())["at"])
    return newest.parent.name


def test_a_skip_says_why(there: Remembering, capsys: Capture) -> None:
    there.run()

    assert there.command("runs") == 0
    assert rows(capsys)[1].split()[1:4] == ["consolidation", "manual", "skipped"]
    assert there.command("runs", "--json") == 0
    (skip,) = as_json(capsys)
    assert (skip["status"], skip["reason"]) == ("skipped", "no_staging")


def test_a_run_that_is_under_way_is_running_as_long_as_somebody_works_here(there: Remembering, capsys: Capture) -> None:
    files = RunFiles(there.state / "memory" / "_state", disk=Disk())
    files.save(RunFile(key=KEY, trigger=MemoryTrigger.IDLE, run_id="abcd1234", started_at=time.time(), trace_id="f" * 32))

    with there.workspace.lock():
        assert there.command("runs", "--json") == 0
    (run,) = as_json(capsys)
    assert (run["run_id"], run["status"], run["trigger"], run["source"]) == ("abcd1234", "running", "idle", "run_file")

    assert there.command("runs", "abcd") == 0
    page = capsys.readouterr().out
    assert page.startswith("Consolidation was interrupted") and "From its run file: it has not ended" in page


def test_a_run_that_the_trace_store_has_forgotten_is_told_from_its_manifest(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    for each in there.workspace.telemetry.glob("traces.db*"):
        each.unlink()

    assert there.command("runs") == 0
    told = capsys.readouterr()
    assert "no trace store" in told.err
    assert told.out.splitlines()[1].endswith("completed  written 2 (of 2 candidates); the trace store has forgotten it")
    assert there.command("runs", run_id) == 0
    page = capsys.readouterr().out
    assert "From its manifest: the trace store has no trace of it (any more).\n" in page
    assert "Its candidates:" in page and "written  memory/decision/deploy-freeze.md  new" in page and "What its tools did" not in page
    assert there.command("runs", "--json") == 0
    assert as_json(capsys)[0]["source"] == "manifest"


def test_an_undo_is_listed_and_its_run_says_that_it_was_taken_back(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    assert there.command("undo", run_id, "--json") == 0
    undo = as_json(capsys)["run_id"]

    assert there.command("runs") == 0
    undone, first = rows(capsys)[1:]
    assert undone.split()[:3] == [undo[:8], "consolidation", "undo"] and undone.endswith(f"undo of {run_id[:8]}: 2 files")
    assert first.endswith(f"taken back by {undo[:8]}; written 2 (of 2 candidates)")
    assert there.command("runs", undo) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"Run {run_id} taken back by hand · ") and f"insomnia memory undo {undo} takes it back" in page
    assert there.command("runs", run_id) == 0
    page = capsys.readouterr().out
    assert f"Undo      it was taken back by {undo}; to have it again:" in page and f" insomnia memory undo {undo}\n" in page

    assert there.command("undo", undo) == 0
    capsys.readouterr()
    assert there.command("runs") == 0
    told = rows(capsys)
    assert len(told) == 4 and not told[3].startswith("taken back") and "taken back" in told[2] and "taken back" not in told[3]


def test_an_id_that_may_be_several_or_none_is_an_error(there: Remembering, capsys: Capture) -> None:
    extracted(there, run_id="aaaa1")
    extracted(there, run_id="aaaa2")

    assert there.command("runs", "aaaa") == 2
    told = capsys.readouterr().err
    assert "aaaa may be each of these; say which" in told and "aaaa1" in told and "aaaa2" in told
    for none in ("ffff", "", "x" * 500, "\x1b[2J", "'; DROP TABLE traces", '"', "%"):
        assert there.command("runs", none) == 1
        err = capsys.readouterr().err
        assert "there is no memory run" in err and "insomnia memory runs" in err and "\x1b" not in err


@pytest.mark.parametrize("damage", ["", "[]", '{"v": 1}', "\x00\xff", "{" * 100_000, '{"v": 2}'])
def test_a_manifest_that_cannot_be_read_hides_no_other_and_is_named(there: Remembering, damage: str, capsys: Capture) -> None:
    run_id = wrote(there)
    second = merged(there)
    (there.state / "memory" / "_trash" / run_id / "run.json").write_text(damage)

    assert there.command("runs") == 0
    told = capsys.readouterr()
    assert f"memory/_trash/{run_id}" in told.err and second[:8] in told.out
    assert there.command("runs", run_id) == 0  # the trace store still knows of it
    assert "Its candidates" not in capsys.readouterr().out
    for each in there.workspace.telemetry.glob("traces.db*"):
        each.unlink()
    assert there.command("runs", run_id) == 1
    assert f".insomnia/memory/_trash/{run_id}/run.json cannot be read" in capsys.readouterr().err


def test_a_damaged_trace_store_is_said_and_what_else_is_known_is_told(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    for beside in ("-wal", "-shm"):
        there.workspace.traces_db.with_name(f"traces.db{beside}").unlink(missing_ok=True)
    there.workspace.traces_db.write_bytes(b"damaged")

    assert there.command("runs") == 0

    told = capsys.readouterr()
    assert "the trace store cannot be used, so this is told from other files alone: it is damaged" in told.err
    assert run_id[:8] in told.out


def test_where_there_was_no_run_it_says_so(there: Remembering, capsys: Capture) -> None:
    assert there.command("runs") == 0
    told = capsys.readouterr()
    assert told.out == "" and "there was no memory run yet" in told.err
    assert there.command("runs", "--json") == 0
    assert as_json(capsys) == []


def test_a_place_without_a_bot_is_an_error_of_usage(there: Remembering, capsys: Capture) -> None:
    shutil.rmtree(there.state)

    assert there.command("runs") == 2
    assert "--workspace DIR" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--worker", "dreaming"], ["--limit", "0"], ["--since", "yesterday"]])
def test_a_word_that_is_none_is_an_error_of_usage(there: Remembering, argv: list[str], capsys: Capture) -> None:
    try:
        code = there.command("runs", *argv)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_list_and_page_keep_to_the_terminal(there: Remembering, columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    extracted(there, status=MemoryStatus.FAILED, reason=MemoryReason.MODEL_ERROR, detail="HTTP 529 " * 20)
    wrote(there)
    run_id = merged(there)

    assert there.command("runs") == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 4 and max(map(cells, told)) <= columns
    assert all(word in told[1] for word in ("completed", "merged 1", *(["consolidation"] if columns > 60 else [])))
    assert there.command("runs", run_id) == 0
    page = capsys.readouterr().out.splitlines()
    assert max(map(cells, page)) <= min(columns, 110)


def test_a_terminal_that_knows_ascii_only_is_told_in_ascii(there: Remembering, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote(there)
    run_id = merged(there)
    monkeypatch.setenv("LC_ALL", "C")

    for argv in ((), (run_id,), (run_id, "--json")):
        assert there.command("runs", *argv) == 0
        assert capsys.readouterr().out.isascii()


def test_a_reason_that_moves_the_cursor_does_not(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    manifest = there.state / "memory" / "_trash" / run_id / "run.json"
    manifest.write_text(manifest.read_text().replace("it stands in the record", "\\u001b[2J\\u202e gone"))

    assert there.command("runs", run_id) == 0
    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)


@pytest.mark.sweep
def test_thousands_of_runs_are_listed_and_found_at_once(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    trash = there.state / "memory" / "_trash"
    text = (trash / run_id / "run.json").read_text()
    trace = json.loads(text)["trace_id"]
    for number in range(1_000):
        (trash / f"r{number:04}").mkdir()
        (trash / f"r{number:04}" / "run.json").write_text(text.replace(run_id, f"r{number:04}").replace(trace, f"{number:032x}"))
    with there.emitting() as emit:
        for _ in range(3_000):
            emit.begin(SpanName.MEMORY_RUN, {Attr.MEMORY_RUN_ID: "other"}, label=MemoryWorker.EXTRACT, root=True).end()

    began = time.monotonic()
    assert there.command("runs", "--limit", "50") == 0
    assert there.command("runs", run_id) == 0
    assert time.monotonic() - began < 5.0
    assert capsys.readouterr().out.count("\n") > 51


def test_every_reason_trigger_disposition_and_operation_has_words() -> None:
    assert set(REASONS) == set(MemoryReason)
    assert set(TRIGGERS) == set(MemoryTrigger) - {MemoryTrigger.UNKNOWN}
    assert set(DISPOSITIONS) == set(Disposition) and set(DONE) == set(RecordOp)
