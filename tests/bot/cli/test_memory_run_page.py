"""`insomnia memory runs RUN`: the page of one run, from real runs in a real trace store."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.events import TraceRef
from tests.bot.cli.remembering import Capture, Remembering, as_json, extracted, merged, rows, then, two_notes, wrote
from tests.memory.consolidating import Hand, candidate, stage
from tests.telemetry.made_traces import CHANNEL, THREAD_TS, TS, known, trace_id

ROOT = Path(__file__).parents[3]


def test_a_page_tells_all_of_a_run_in_its_order(there: Remembering, capsys: Capture) -> None:
    there.replies(known(1))
    wrote(there)
    run_id = merged(there, link=TraceRef(trace_id(1), "1" * 16))

    assert there.command("runs", run_id[:5]) == 0

    told = capsys.readouterr().out
    head, _, rest = told.partition("\n\n")
    facts, _, lists = rest.partition("\n\n")
    assert head.startswith("Consolidation completed after ") and "(records_updated) · " in head
    lines = {line[:10].strip(): line[10:] for line in facts.splitlines() if line[:10].strip()}
    assert lines["Run"] == run_id
    assert lines["Trigger"] == "somebody asked for it (manual)"
    assert lines["After"] == f"the reply to {CHANNEL}/{TS} in the thread {THREAD_TS}:"
    assert " " * 10 + "insomnia why 00000001" in facts.splitlines()
    assert lines["Given"] == "2 candidates of the scope workspace"
    assert (lines["Did"], lines["Settled"]) == ("merged 1", "discarded 1, applied 1")
    assert lines["Lost"] == "0 of 2 records, 0 of 4 names, numbers and dates of its scope"
    assert lines["Undo"].startswith(f"insomnia memory undo {run_id} takes it back")
    assert lists.split("\n\n")[0].splitlines() == [
        "What its tools did, in order:",
        "  staging_list",
        "  memory_query                             found: 2 records",
        "  memory_merge     decision/deploy-freeze  rejected: L601 a change after which a name, number, date",
        "      or address is missing that was not declared to go",
        "  memory_merge     decision/deploy-freeze  planned, applied",
        "  staging_resolve                          settled: 5e551011.00000005.000 discarded",
    ]
    assert lists.split("\n\n")[1].splitlines() == [
        "Its candidates:",
        "  5e551011.00000005.000  discarded  あいさつだけ。",
        "  5e551011.00000005.001  applied    decision/deploy-freeze: it stands in the record",
    ]
    assert lists.split("\n\n")[2].splitlines() == [
        "Files, below .insomnia:",
        "  merged   memory/decision/deploy-freeze.md",
        "  deleted  memory/decision/friday-freeze.md  merged into deploy-freeze",
    ]


def test_an_extract_runs_page_says_what_it_read_and_with_which_model(there: Remembering, capsys: Capture) -> None:
    extracted(there)

    assert there.command("runs", "x1") == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "Read session 5e551011-aaaa of the route main, entries 12 to 40 of its log, 20 of them shown to the model" in told
    assert "Model claude-x: 1 call, 900 tokens in (0 from the cache), 40 out, $0.0123" in told
    assert "Undo" not in told


def test_a_failed_run_says_why_in_the_list_and_on_its_page(there: Remembering, capsys: Capture) -> None:
    two_notes(there)

    async def escapes(hand: Hand, ids: list[str]) -> None:
        await hand.write("password", ids[0], content="The password is hunter2-Xk29vPqL77.")

    there.run(then(escapes))

    assert there.command("runs") == 0
    told = capsys.readouterr().out
    assert "failed" in told and "linter failed (every change was refused (1): L501, L608)" in told
    run_id = told.splitlines()[1].split()[2]
    assert there.command("runs", run_id) == 0
    page = capsys.readouterr().out
    assert "Because every change that the model asked for was refused; every change was refused (1): L501, L608" in " ".join(page.split())
    assert "decision/password  rejected: L501 something that looks like a password" in page
    assert "Files" not in page and "Undo" not in page


def test_a_reply_that_the_trace_store_has_forgotten_is_said_to_be(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there, link=TraceRef("ab" * 16, "1" * 16))

    assert there.command("runs", run_id) == 0
    assert "After     a reply that the trace store has forgotten\n" in capsys.readouterr().out
    assert there.command("runs", run_id, "--json") == 0
    assert as_json(capsys)["reply"]["trace_id"] == "ab" * 16


def test_what_was_planned_and_not_committed_is_not_called_applied(there: Remembering, capsys: Capture) -> None:
    two_notes(there)

    async def breaks(hand: Hand, ids: list[str]) -> None:
        await hand.write("note", ids[0])
        raise RuntimeError("the connection broke")

    result = there.run(then(breaks))

    assert there.command("runs", result.run_id) == 0
    page = capsys.readouterr().out
    assert "decision/note  planned\n" in page and "applied" not in page


@pytest.mark.kill
def test_a_run_that_a_later_process_ended_is_one_run_that_was_recovered(there: Remembering, capsys: Capture) -> None:
    """Its own process was killed after the commit: what it did stands in the first trace, its end in the second."""
    two_notes(there)
    there.replies(known(1))
    killed = subprocess.run([sys.executable, "-m", "tests.bot.cli.remembering", str(there.workspace.root)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert there.command("runs", "--json") == 0
    (before,) = as_json(capsys)
    assert (before["status"], before["counts"]) == ("interrupted", {}) and len(before["run_id"]) == 16

    with there.emitting() as emit:
        (ended,) = there.bench.restarted(emit=emit).recover()

    assert ended.recovered and ended.run_id == before["run_id"]
    assert there.command("runs", "--json") == 0
    (run,) = as_json(capsys)
    assert (run["run_id"], run["status"], run["reason"], run["recovered"]) == (ended.run_id, "completed", "records_updated", True)
    assert (run["given"], run["counts"], run["source"], run["seconds"]) == (2, {"written": 2}, "trace", None)
    assert run["died"] == before["trace_id"] != run["trace_id"] and run["reply"] is None
    assert there.command("runs") == 0
    assert rows(capsys)[1].endswith("written 2 (of 2 candidates); its process died; a later one ended it")
    for name in (ended.run_id, run["died"][:12], run["trace_id"][:12]):
        assert there.command("runs", name) == 0
        page = capsys.readouterr().out
        assert "  memory_write  decision/deploy-freeze  planned, applied\n" in page
        assert f"it had begun is in the trace {run['died']}" in " ".join(page.split())


def test_the_page_says_why_a_record_was_dropped(there: Remembering, capsys: Capture) -> None:
    two_notes(there)
    wrote(there)

    async def drops(hand: Hand, ids: list[str]) -> None:
        await hand("memory_drop", kind="decision", slug="friday-freeze", category="outdated", why="それは終わりました。")
        for one in ids:
            await hand("staging_resolve", candidate=one, disposition="discarded", reason="Known.")

    stage(there.state, candidate("Hello, all of you.", n=5), start=5)
    run_id = there.run(then(drops)).run_id

    assert there.command("runs", run_id) == 0
    assert "removed; outdated: それは終わりました。" in capsys.readouterr().out
    assert there.command("runs", run_id, "--json") == 0
    assert [each["why"] for each in as_json(capsys)["files"]] == ["outdated: それは終わりました。"]
