"""`status.json`: what is written can be read, and nothing that stands in its place can hurt a reader."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.status_file import (
    MAX_BYTES,
    MAX_TEXT,
    AccountStatus,
    ReplyStatus,
    RunStatus,
    SessionStatus,
    Status,
    abandoned,
    clean,
    dumps,
    loads,
    read_status,
    write_private_atomic,
)

RUN = RunStatus(
    run_id="c1",
    worker="memory_consolidation",
    trigger="idle",
    status="started",
    at=2.5,
    began_at=1.5,
    limit_seconds=300.0,
    trace_id="0af7",
    ops={"write": 2},
)
FULL = Status(
    pid=7,
    at=3.5,
    slack_mode="socket",
    connected=True,
    last_event_at=3.0,
    model_kind="anthropic",
    account="仕事",
    accounts=(AccountStatus(name="仕事", state="limited", until=9.5), AccountStatus(name="spare", state="available")),
    queue_depth=2,
    sessions=(SessionStatus(route="main", key="dm:1", state="idle", epoch=2, known_threads=3, context_tokens=4, limit_tokens=5),),
    memory=RUN,
    reply=ReplyStatus(route="main", outcome="failed", at=2.0, seconds=1.25, reason="deadline", message_ts="1.2", trace_id="0af8"),
)


def test_what_is_written_is_read_again() -> None:
    assert loads(dumps(FULL)) == FULL
    assert loads(dumps(Status(pid=1, at=0.0))) == Status(pid=1, at=0.0)


def test_a_newer_writer_may_say_more() -> None:
    told = json.loads(dumps(FULL))
    told["mood"] = "good"
    told["memory"]["colour"] = "blue"

    assert loads(json.dumps(told)) == FULL


def test_a_bot_that_was_started_before_an_upgrade_says_less() -> None:
    told = json.loads(dumps(FULL))
    del told["accounts"]

    assert loads(json.dumps(told)) == replace(FULL, accounts=())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"v": 1}',
        "[" * 100_000,
        dumps(FULL)[:-40],
        dumps(FULL).replace('"v": 1', '"v": 2'),
        dumps(FULL).replace('"pid": 7', '"pid": "7"'),
        dumps(FULL).replace('"at": 3.5', '"at": NaN'),
        dumps(FULL).replace('"queue_depth": 2', f'"queue_depth": {10**400}'),
        dumps(FULL).replace('"queue_depth": 2', '"queue_depth": true'),
        dumps(FULL).replace('"dm:1"', '["dm:1"]'),
        " " * MAX_BYTES + dumps(FULL),
    ],
    ids=range(14),
)
def test_a_file_that_cannot_be_understood_is_no_status(text: str, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(text, encoding="utf-8")

    assert read_status(tmp_path / "status.json") is None


@given(st.binary(max_size=300))
def test_no_bytes_make_a_reader_raise(content: bytes) -> None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    try:
        loads(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def test_what_is_no_file_is_no_status_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "real.json").write_text(dumps(FULL), encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real.json")
    (tmp_path / "not-utf8").write_bytes(b"\xff\xfe")

    assert [read_status(tmp_path / name) for name in ("missing", "fifo", "folder", "link", "not-utf8")] == [None] * 5


def test_text_of_the_file_is_one_short_line_that_moves_no_cursor() -> None:
    assert clean("a\x1b[2J\nb\u202ec\u2028d\ud800") == "a[2J bc d"
    assert len(clean("x" * 1_000)) == MAX_TEXT
    assert loads(dumps(replace(FULL, account="\x1b]0;gotcha\x07"))).account == "]0;gotcha"


def test_a_run_of_a_process_that_is_gone_was_interrupted_and_an_ended_one_stays() -> None:
    ended = replace(RUN, status="completed", reason="records_updated")

    assert abandoned(RUN) == replace(RUN, status="failed", reason="interrupted")
    assert abandoned(ended) == ended
    assert abandoned(None) is None


def test_it_is_replaced_whole_and_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as old:
        write_private_atomic(path, "new")

        assert old.read() == "old", "who had it open reads on in the old one"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "status.json").symlink_to(victim)
    (tmp_path / "status.json.new").symlink_to(victim)

    write_private_atomic(tmp_path / "status.json", "new")

    assert victim.read_text() == "precious"
    assert (tmp_path / "status.json").read_text() == "new"


def test_a_lone_surrogate_does_not_cost_the_file(tmp_path: Path) -> None:
    write_private_atomic(tmp_path / "status.json", dumps(replace(FULL, account="a\ud800b")))

    read = read_status(tmp_path / "status.json")
    assert read is not None and read.account == "a?b"


def test_what_could_not_be_written_leaves_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / "status.json").mkdir()
    (tmp_path / "status.json" / "in the way").touch()

    with pytest.raises(OSError):
        write_private_atomic(tmp_path / "status.json", "new")

    assert os.listdir(tmp_path) == ["status.json"]
