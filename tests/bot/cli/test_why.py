"""`insomnia why`: from the arguments to what is printed, on files of a real workspace."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli import dispatch
from telemetry.events import Outcome
from tests.bot.explain.explaining import Left
from tests.telemetry.made_traces import BEGAN, CHANNEL, MS, THREAD_TS, TS, failed, known, refetched, run

LINK = f"https://example.slack.com/archives/{CHANNEL}/p1796040190000200?thread_ts={THREAD_TS}&cid={CHANNEL}"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return Left(tmp_path)


def why(left: Left, *argv: str) -> int:
    return dispatch(["why", *argv, "--workspace", str(left.workspace.root)])


@pytest.mark.parametrize("ref", ["last", TS, f"{CHANNEL}/{TS}", LINK, refetched().id, refetched().id[:8]])
def test_the_page_is_printed_for_every_form_of_a_reference(left: Left, ref: str, capsys: Capture) -> None:
    left.traces(refetched())

    assert why(left, ref) == 0

    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.startswith("Answered in 3.40 s · 2026-1")
    assert f"Trace     {refetched().id}\n" in told.out
    assert max(map(len, told.out.splitlines())) <= 80


@pytest.mark.parametrize("environ", [{"LC_ALL": "C"}, {"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_knows_ascii_only_is_told_in_ascii(
    left: Left, environ: dict[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    left.traces(refetched())
    left.row(refetched(), state="answering", user_profile={"display_name": "結衣"})
    assert why(left, TS) == 0
    assert not capsys.readouterr().out.isascii()
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert why(left, TS) == why(left, TS, "--json") == 0

    told = capsys.readouterr().out
    assert told.isascii() and "by ?? (U012ABC)" in told and "####" in told


def test_json_is_one_object_with_the_reference_as_it_was_given(left: Left, capsys: Capture) -> None:
    left.traces(refetched())

    assert why(left, LINK, "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert list(told) == [
        "v",
        "ref",
        "trace_id",
        "message",
        "outcome",
        "gate",
        "history",
        "session",
        "parts",
        "model",
        "tools",
        "memory",
        "links",
    ]
    assert (told["ref"], told["trace_id"], told["links"]) == (LINK, refetched().id, {})


def test_a_configured_viewer_is_linked(left: Left, capsys: Capture) -> None:
    (left.workspace.root / "insomnia.toml").write_text('[telemetry]\nviewer = "http://localhost:3000/explore?trace={trace_id}&x={y}"\n')
    left.traces(known())
    link = f"http://localhost:3000/explore?trace={known().id}&x={{y}}"

    assert why(left, "last") == 0
    assert f"Viewer    {link}\n" in capsys.readouterr().out
    assert why(left, "last", "--json") == 0
    assert json.loads(capsys.readouterr().out)["links"] == {"viewer": link}


def test_a_configuration_that_is_wrong_costs_the_link_alone(left: Left, capsys: Capture) -> None:
    (left.workspace.root / "insomnia.toml").write_text("[telemetry]\nviewer = 3\n")
    left.traces(known())

    assert why(left, "last") == 0

    told = capsys.readouterr()
    assert "Answered" in told.out
    assert told.err == "insomnia: insomnia.toml cannot be used, so there is no link to a viewer: insomnia config\n"


def test_an_unknown_reference_says_where_it_looked(left: Left, capsys: Capture) -> None:
    left.traces(known())

    assert why(left, "ffff0000") == 1

    told = capsys.readouterr()
    assert told.out == ""
    first, traces, *rest = told.err.splitlines()
    assert first == "insomnia: nothing is known of ffff0000. Searched:"
    assert traces.startswith("  - the trace store, since 2026-1")
    assert rest == [
        "  - the inbox, which is not there yet",
        "  - the bot's log, which is empty",
        "Recent replies: insomnia traces",
    ]


def test_an_ambiguous_prefix_lists_the_candidates(left: Left, capsys: Capture) -> None:
    left.traces(known(0xAAAA0001), failed(0xAAAA0002, began=BEGAN + MS))

    assert why(left, "aaaa") == 1

    told = capsys.readouterr().err.splitlines()
    assert told[0] == "insomnia: aaaa may be each of these; say which, by its trace or as CHANNEL/TS:"
    assert [line.split()[0] for line in told[1:]] == ["TRACE", failed(0xAAAA0002).id, known(0xAAAA0001).id]
    assert f"main   failed    {CHANNEL}/{TS}" in told[2]


@pytest.mark.parametrize("ref", ["", "latest", "#general/1796040190.000200", "https://example.slack.com/archives/C012ABC"])
def test_what_is_no_reference_is_a_usage_error_that_names_the_forms(left: Left, ref: str, capsys: Capture) -> None:
    assert why(left, ref) == 2
    assert "is none of these: a Slack permalink, CHANNEL/TS, TS, a trace id" in capsys.readouterr().err


def test_a_workspace_that_is_not_there_is_a_usage_error(left: Left, capsys: Capture) -> None:
    assert dispatch(["why", "last", "--workspace", str(left.workspace.root / "none")]) == 2
    assert "there is no directory" in capsys.readouterr().err


def test_a_terminal_that_knows_ascii_alone_gets_ascii(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    left.traces(failed())
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))

    assert why(left, "last") == 0

    sys.stdout.flush()
    assert b"####" in raw.getvalue()


def test_what_somebody_put_into_an_id_cannot_move_the_cursor(left: Left, capsys: Capture) -> None:
    odd = known()
    odd.spans[0]._attributes = {**(odd.spans[0].attributes or {}), "insomnia.route": "a\x1b[2J"}  # type: ignore[assignment]
    left.traces(odd)

    assert why(left, "last") == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_message_that_waits_while_no_bot_runs_says_so(left: Left, capsys: Capture) -> None:
    left.row(known())

    assert why(left, TS) == 0
    assert capsys.readouterr().out.startswith("Waiting: no bot runs; it is answered at the next start")


def test_a_dropped_and_a_failed_message_are_explained_with_exit_code_0(left: Left, capsys: Capture) -> None:
    left.row(known(1), outcome=Outcome.DROPPED, reason="not_routed")
    left.row(known(2), ts="1796040195.000000", state="answering", outcome=Outcome.FAILED, reason="deadline")

    assert [why(left, TS), why(left, "1796040195.000000")] == [0, 0]

    told = capsys.readouterr().out
    assert "Not answered: its channel has no route (not_routed)" in told
    assert "because the answer took longer than allowed (deadline)" in told


def test_a_memory_run_is_explained_too(left: Left, capsys: Capture) -> None:
    left.traces(run())

    assert why(left, run().id[:8]) == 0
    assert capsys.readouterr().out.startswith("memory.run memory_consolidation: completed after 1 min 01 s")


def test_the_command_reads_without_telemetrys_sdk(left: Left) -> None:
    left.traces(known())
    program = "import sys; from bot.__main__ import main; main(sys.argv[1:]); print('opentelemetry.sdk' in sys.modules)"
    argv = [sys.executable, "-c", program, "why", "last", "--workspace", str(left.workspace.root)]

    ran = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONIOENCODING": "utf-8"})

    assert ran.stderr == ""
    assert ran.stdout.splitlines()[-1] == "False"
