"""`insomnia traces`: what is listed, in which words, and what is said where there is nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bot.cli import dispatch
from tests.bot.explain.explaining import Left
from tests.telemetry.made_traces import BEGAN, CHANNEL, MS, TEAM, THREAD_TS, TS, Made, failed, known, refetched, reset, root, run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    """A bot runs over it."""
    monkeypatch.setattr("bot.cli.traces.bot_runs", lambda _: True)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    left = Left(tmp_path)
    dropped = Made(6, BEGAN + 5_000 * MS)
    root(dropped, 2, REPLY_OUTCOME="dropped", REPLY_REASON="not_allowed")
    left.traces(
        refetched(1),
        known(2, began=BEGAN + 1_000 * MS),
        failed(3, began=BEGAN + 2_000 * MS),
        run(4, began=BEGAN + 3_000 * MS),
        reset(5, "crash", began=BEGAN + 4_000 * MS),
        dropped,
    )
    left.traces(known(7, began=BEGAN + 6_000 * MS), unended=True)
    return left


def traces(left: Left, *argv: str) -> int:
    return dispatch(["traces", *argv, "--workspace", str(left.workspace.root)])


def rows(capsys: Capture) -> list[str]:
    """Without the time, which is the machine's."""
    return [line[21:] for line in capsys.readouterr().out.splitlines()]


def test_replies_and_runs_are_listed_newest_first(left: Left, capsys: Capture) -> None:
    assert traces(left) == 0

    assert rows(capsys) == [
        "TRACE     ROUTE  OUTCOME                GATE                          TOOK        MESSAGE",
        f"00000007  main   running                known (held)                              {CHANNEL}/{TS}",
        f"00000006  main   dropped (not_allowed)                                2 ms        {CHANNEL}/{TS}",
        "00000004         completed                                            1 min 01 s  memory.run memory_consolidation",
        f"00000003  main   failed (model_limit)   refetched (after_compaction)  9.00 s      {CHANNEL}/{TS}",
        f"00000002  main   answered               known (held)                  1.50 s      {CHANNEL}/{TS}",
        f"00000001  main   answered               refetched (after_compaction)  3.40 s      {CHANNEL}/{TS}",
    ]


@pytest.mark.parametrize(
    ("argv", "numbers"),
    [
        (["--route", "main", "--limit", "2"], ["00000007", "00000006"]),
        (["--outcome", "failed"], ["00000003"]),
        (["--outcome", "dropped"], ["00000006"]),
        (["--decision", "refetched"], ["00000003", "00000001"]),
        (["--decision", "known", "--outcome", "answered"], ["00000002"]),
        (["--since", "2026-11-30T12:03:14.500+00:00"], ["00000007", "00000006"]),
        (["--limit", "1"], ["00000007"]),
    ],
)
def test_the_list_is_narrowed(left: Left, argv: list[str], numbers: list[str], capsys: Capture) -> None:
    assert traces(left, *argv) == 0
    assert [row.split()[0] for row in rows(capsys)[1:]] == numbers


def test_since_takes_how_long_ago(left: Left, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.cli.since.time.time", lambda: BEGAN / 1e9 + 3_600 + 5.5)

    assert traces(left, "--since", "1h") == 0
    assert [row.split()[0] for row in rows(capsys)[1:]] == ["00000007"]


def test_json_holds_the_same(left: Left, capsys: Capture) -> None:
    assert traces(left, "--outcome", "failed", "--json") == 0

    assert json.loads(capsys.readouterr().out) == [
        {
            "trace_id": failed(3).id,
            "kind": "reply",
            "name": "process slack",
            "route": "main",
            "reason": "model_limit",
            "decision": "refetched",
            "gate_reason": "after_compaction",
            "team": TEAM,
            "channel": CHANNEL,
            "ts": TS,
            "thread_ts": THREAD_TS,
            "outcome": "failed",
            "started": BEGAN / 1e9 + 2.0,
            "seconds": 9.0,
            "attempt": 1,
        }
    ]


def test_where_no_bot_runs_nothing_does(left: Left, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    assert traces(left) == 0
    assert rows(capsys)[1].split()[:3] == ["00000007", "main", "interrupted"]
    assert traces(left, "--outcome", "interrupted", "--json") == 0
    assert [(one["trace_id"][:8], one["outcome"]) for one in json.loads(capsys.readouterr().out)] == [("00000007", "interrupted")]
    assert traces(left, "--outcome", "answered", "--limit", "1") == 0
    assert [row.split()[0] for row in rows(capsys)[1:]] == ["00000002"]


def test_a_terminal_that_knows_ascii_only_is_told_in_ascii(left: Left, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(8, BEGAN + 9_000 * MS)
    root(made, 2, REPLY_OUTCOME="answered", ROUTE="サポート")
    left.traces(made)
    monkeypatch.setenv("LC_ALL", "C")

    assert traces(left) == traces(left, "--json") == 0

    told = capsys.readouterr().out
    assert told.isascii() and "????" in told and "\\u30b5" in told


@pytest.mark.parametrize(("columns", "headings"), [(140, 7), (100, 6), (60, 5)])
def test_a_terminal_gets_as_many_columns_as_it_is_wide(
    left: Left, columns: int, headings: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert traces(left, "--outcome", "answered") == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told[0].split()) == headings
    assert max(map(len, told)) <= columns


def test_nothing_that_is_like_that_is_no_failure(left: Left, capsys: Capture) -> None:
    assert traces(left, "--route", "none") == 0

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "insomnia: no trace is like that; without the options all recent ones are shown: insomnia traces\n"


def test_nothing_as_json_is_an_empty_list(left: Left, capsys: Capture) -> None:
    assert traces(left, "--route", "none", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--outcome", "failt"], "there is no outcome failt; did you mean failed? There are: answered, "),
        (["--decision", "knwon"], "there is no decision knwon; did you mean known? There are: known, new, "),
        (["--since", "yesterday"], "--since yesterday: say how long ago (90s, 15m, 1h, 2d, 1w) or a time (2026-01-31T09:00)"),
    ],
)
def test_a_word_that_is_none_is_a_usage_error(left: Left, argv: list[str], told: str, capsys: Capture) -> None:
    assert traces(left, *argv) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-1", "x", "9" * 20, "9" * 5_000, "１"])
def test_a_limit_that_is_none_is_a_usage_error_in_words(left: Left, limit: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        traces(left, "--limit", limit)

    assert ended.value.code == 2
    assert f"argument --limit: {limit[:40]} is not a whole number from 1 to 999999999\n" in capsys.readouterr().err


def test_any_time_may_be_asked_for(left: Left) -> None:
    assert traces(left, "--since", "999999999w") == traces(left, "--since", "9999-12-31T00:00", "--limit", "999999999") == 0


def test_without_a_store_it_says_how_to_get_one(tmp_path: Path, capsys: Capture) -> None:
    assert dispatch(["traces", "--workspace", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"insomnia: there are no traces yet in {tmp_path}; the bot writes them as it works: insomnia up\n"


def test_a_damaged_store_is_said(left: Left, capsys: Capture) -> None:
    left.workspace.traces_db.write_bytes(b"damaged")
    for beside in ("-wal", "-shm"):
        left.workspace.traces_db.with_name(f"traces.db{beside}").unlink(missing_ok=True)

    assert traces(left) == 1
    assert "the trace store cannot be used: it is damaged (file is not a database)" in capsys.readouterr().err
