"""Lines of so many cells: what breaks where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.explain.wrapping import cut, whole, wrap
from telemetry.actionbar import cells


def test_english_breaks_at_spaces_and_what_follows_stands_under_the_first_word() -> None:
    assert wrap("one two three four", 14, label="Label ") == ["Label one two", "      three", "      four"]


def test_japanese_breaks_anywhere_but_not_before_what_closes() -> None:
    assert wrap("金曜の午後はデプロイしない。例外は部長に聞く。", 26) == ["金曜の午後はデプロイしな", "い。例外は部長に聞く。"]
    assert wrap("金曜の午後はデプロイしない。", 26) == ["金曜の午後はデプロイしな", "い。"]


def test_a_word_that_no_line_can_take_is_cut_and_a_command_is_not() -> None:
    assert wrap("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    assert wrap(f"to see it: {whole('insomnia why 00000001')}", 30) == ["to see it:", "insomnia why 00000001"]


def test_a_label_that_leaves_no_room_stands_alone() -> None:
    assert wrap("words", 12, label="  a label  ", indent=4) == ["  a label", "    words"]


def test_nothing_is_still_a_line() -> None:
    assert wrap("", 10) == [""] and wrap("", 10, label="  x  ") == ["  x"]


def test_what_is_cut_says_so_and_takes_no_more_room() -> None:
    assert (cut("金曜の午後", 7), cut("short", 5), cut("longer", 5), cut("x", 0)) == ("金曜の…", "short", "long…", "…")


@given(st.text(max_size=200), st.integers(20, 60))
def test_no_line_is_too_wide_and_no_sign_is_lost(text: str, width: int) -> None:
    text = text.replace("\ue000", "")

    lines = wrap(text, width, label="Label     ")

    assert "".join("".join(lines).split()) == "Label" + "".join(text.split())
    assert max(map(cells, lines)) <= width + CLOSING


CLOSING = 4  # a row of closing signs stays with what it closes


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_a_terminal_of_no_width_is_survived(width: int) -> None:
    assert "".join(wrap("東京 abc", width)) in ("東京abc", "東京 abc")
