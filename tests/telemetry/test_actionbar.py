"""The line about memory: its sentences, its widths, what it keeps in a narrow place."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.actionbar import LIMIT_SECONDS, Colour, age, cells, status_line, status_parts, summary
from telemetry.memory_events import REASONS, MemoryStatus, MemoryWorker
from telemetry.status_file import RunStatus, Status

NOW = 1_000.0
EXTRACT, CONSOLIDATION = "memory_extract", "memory_consolidation"
DONE = RunStatus(run_id="r1", worker=EXTRACT, trigger="session_end", status="completed", at=NOW - 4, began_at=NOW - 9, staged=3)
RUNNING = replace(DONE, status="started", at=NOW - 4, began_at=NOW - 4, staged=0)
OPS = {"write": 1, "merge": 2, "drop": 4, "delete": 6, "edit": 0}


def saying(run: RunStatus | None) -> Status:
    return Status(pid=1, at=NOW, memory=run)


def line(run: RunStatus | None, width: int = 80, **how: bool) -> str:
    return status_line(saying(run), width, NOW, **how)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (RUNNING, "⟳ MEMORY extract running… · 4s"),
        (DONE, "✓ MEMORY extract done: staged 3 · 4s"),
        (
            replace(DONE, worker=CONSOLIDATION, reason="records_updated", staged=0, ops=OPS),
            "✓ MEMORY consolidation done: wrote 1, merged 2, dropped 4 · 4s",
        ),
        (
            replace(DONE, worker=CONSOLIDATION, status="skipped", reason="no_staging", staged=0),
            "↷ MEMORY consolidation skipped: no staging · 4s",
        ),
        (
            replace(DONE, worker=CONSOLIDATION, reason="nothing_adopted", staged=0, ops=dict.fromkeys(OPS, 0)),
            "✓ MEMORY consolidation done: nothing adopted · 4s",
        ),
        (
            replace(DONE, worker=CONSOLIDATION, reason="no_record_changes", staged=0),
            "✓ MEMORY consolidation done: no record changes · 4s",
        ),
        (
            replace(DONE, worker=CONSOLIDATION, reason="records_updated", staged=0, ops={"edit": 2, "trim": 1, "delete": 1}),
            "✓ MEMORY consolidation done: edited 2, trimmed 1, deleted 1 · 4s",
        ),
        (
            replace(DONE, worker=CONSOLIDATION, status="failed", reason="store_conflict", staged=0, ops=OPS),
            "✗ MEMORY consolidation failed: store_conflict · 4s",
        ),
        (replace(DONE, status="failed", reason="model_error", staged=0), "✗ MEMORY extract failed: model_error · 4s"),
        (replace(DONE, status="cancelled", reason="user_cancelled", staged=0), "⊘ MEMORY extract cancelled: user cancelled · 4s"),
        (replace(DONE, reason="no_candidates", staged=0), "✓ MEMORY extract done: no candidates · 4s"),
        (replace(DONE, status="completed", reason="records_updated", staged=0, ops={"delete": 2}), "✓ MEMORY extract done: deleted 2 · 4s"),
        (replace(RUNNING, began_at=NOW - 301, limit_seconds=300.0), "? MEMORY extract stalled? · 5m"),
        (replace(DONE, status="of a newer bot", staged=0), "? MEMORY extract unknown · 4s"),
        (None, "MEMORY – no run yet"),
    ],
)
def test_a_run_is_told_with_symbol_word_and_age(run: RunStatus | None, sentence: str) -> None:
    assert line(run) == sentence


def test_without_a_status_or_a_bot_that_is_what_it_says() -> None:
    assert status_line(None, 80, NOW) == "MEMORY ? no status"
    assert status_line(None, 80, NOW, bot_up=False) == "◼ BOT stopped"
    assert status_line(replace(saying(DONE), at=NOW - 7_300), 80, NOW, bot_up=False) == "◼ BOT stopped · 2h"


@pytest.mark.parametrize(("limit", "allowed"), [(300.0, 300.0), (0.0, LIMIT_SECONDS)], ids=["its own limit", "the general one"])
def test_a_run_is_stalled_only_beyond_its_limit(limit: float, allowed: float) -> None:
    running = replace(RUNNING, limit_seconds=limit)

    assert "running…" in line(replace(running, began_at=NOW - allowed))
    assert "stalled?" in line(replace(running, began_at=NOW - allowed - 1))


def test_the_log_has_the_same_words_without_symbol_and_age() -> None:
    assert summary(worker=EXTRACT, status="completed", staged=3) == "MEMORY extract done: staged 3"
    assert summary(worker=EXTRACT, status="started") == "MEMORY extract running…"
    assert line(DONE).removeprefix("✓ ").partition(" · ")[0] == summary(worker=EXTRACT, status="completed", staged=3)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (86_399, "23h"), (86_400, "1d"), (9e6, "104d")],
)
def test_an_age_is_told_in_the_largest_unit(seconds: float, said: str) -> None:
    assert age(seconds) == said


@pytest.mark.parametrize("worker", MemoryWorker)
@pytest.mark.parametrize("status", MemoryStatus)
def test_twenty_columns_hold_worker_and_outcome_of_every_run(worker: MemoryWorker, status: MemoryStatus) -> None:
    reasons = REASONS[worker].get(status, ("",))
    word = summary(worker=worker, status=status).split()[2].rstrip(":")

    for reason in reasons:
        told = line(replace(DONE, worker=worker.value, status=status.value, reason=str(reason), ops=OPS, began_at=NOW), 20)
        assert cells(told) <= 20
        assert word in told
        assert worker.value.removeprefix("memory_")[:6] in told


@pytest.mark.parametrize(
    ("width", "sentence"),
    [
        (61, "✓ consolidation done: wrote 1, merged 2, dropped 4 · 4s"),
        (54, "✓ consolidation done: wrote 1, merged 2, … · 4s"),
        (40, "✓ consolidation done: wrote 1, … · 4s"),
        (26, "✓ consolidation done · 4s"),
        (20, "✓ consolidation done"),
        (19, "✓ consol. done · 4s"),
        (14, "✓ consol. done"),
        (6, "✓ done"),
        (5, "✓ do…"),
        (1, "…"),
        (0, ""),
    ],
)
def test_the_name_goes_first_then_details_and_age_the_outcome_last(width: int, sentence: str) -> None:
    assert line(replace(DONE, worker=CONSOLIDATION, staged=0, ops=OPS), width) == sentence


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (replace(RUNNING, worker=CONSOLIDATION), "⟳ consol. running…"),
        (replace(DONE, worker=CONSOLIDATION, reason="nothing_adopted", staged=0), "✓ consolidation done"),
        (replace(DONE, worker=CONSOLIDATION, status="skipped", reason="no_staging", staged=0), "↷ consol. skipped"),
        (replace(DONE, worker=CONSOLIDATION, status="failed", reason="linter_failed", staged=0), "✗ consol. failed"),
        (replace(DONE, worker=CONSOLIDATION, status="cancelled", reason="superseded", staged=0), "⊘ consol. cancelled"),
        (replace(RUNNING, worker=CONSOLIDATION, began_at=NOW - 301, limit_seconds=300.0), "? consol. stalled?"),
    ],
)
def test_twenty_columns_say_how_a_consolidation_came_out(run: RunStatus, sentence: str) -> None:
    told = line(run, 20)

    assert told.partition(" · ")[0] == sentence
    assert cells(told) <= 20


TEXTS = st.text(max_size=30)
RUNS = st.builds(
    RunStatus,
    run_id=TEXTS,
    worker=TEXTS,
    trigger=TEXTS,
    status=TEXTS | st.sampled_from([status.value for status in MemoryStatus]),
    at=st.floats(-1e12, 1e12),
    reason=TEXTS | st.just("記憶の失敗ﾃﾞｰﾀ\u3099"),
    began_at=st.floats(-1e12, 1e12),
    limit_seconds=st.floats(0, 1e6),
    staged=st.integers(0, 10**12),
    ops=st.dictionaries(st.sampled_from(sorted(OPS)), st.integers(0, 10**12)),
)


@given(run=RUNS, width=st.integers(0, 120), plain_ascii=st.booleans())
def test_no_line_is_wider_than_asked_for_or_moves_the_cursor(run: RunStatus, width: int, plain_ascii: bool) -> None:
    told = line(run, width, plain_ascii=plain_ascii)

    assert cells(told) <= width
    assert not {unicodedata.category(sign) for sign in told} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert told.isascii() or not plain_ascii


def test_japanese_takes_two_cells_each_and_a_combining_mark_none() -> None:
    assert cells("記憶") == 4
    assert cells("か\u3099") == 2
    assert cells("ﾃﾞ") == 2
    assert status_line(saying(replace(DONE, worker="記憶記憶記憶", status="x")), 10, NOW) == "? unknown"


def test_a_terminal_that_knows_ascii_only_gets_signs_that_it_has() -> None:
    assert line(RUNNING, plain_ascii=True) == "> MEMORY extract running... | 4s"
    assert line(DONE, plain_ascii=True) == "+ MEMORY extract done: staged 3 | 4s"
    assert line(None, plain_ascii=True) == "MEMORY - no run yet"
    assert line(replace(DONE, status="failed", reason="model_error"), 5, plain_ascii=True) == "x fa."


def test_every_outcome_looks_different_without_its_colour() -> None:
    runs = [replace(DONE, status=status.value, began_at=NOW) for status in MemoryStatus] + [replace(RUNNING, began_at=0.0)]

    for plain_ascii in (False, True):
        words = {line(run, plain_ascii=plain_ascii).split()[3].rstrip(":") for run in runs}
        assert len(words) == len(runs)


def test_the_outcome_has_a_colour_and_the_age_is_grey() -> None:
    parts = status_parts(saying(replace(DONE, status="failed", reason="model_error")), 80, NOW)

    assert [part.text for part in parts if part.colour is Colour.RED] == ["✗ ", "failed"]
    assert parts[-1].text == " · 4s" and parts[-1].colour is Colour.GREY
