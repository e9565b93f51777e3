"""What is shown of a record that was found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.search_excerpt import MAX_CHARS, excerpt


def test_the_sentence_that_answers_is_shown() -> None:
    body = "合宿は京都で行う。宿は四条。幹事は佐藤さん。\nRooms are booked. The bus leaves at 8.30 sharp."

    assert excerpt(body, "幹事は誰？") == "幹事は佐藤さん。"
    assert excerpt(body, "when does the bus leave") == "The bus leaves at 8.30 sharp."


def test_where_nothing_answers_the_beginning_is_shown() -> None:
    assert excerpt("\n# First\n\nSecond.", "鍵") == "# First"


def test_of_a_long_sentence_the_stretch_with_the_answer_is_shown() -> None:
    shown = excerpt(f"{'あ' * 500}京都{'い' * 500}", "京都")

    assert "京都" in shown
    assert shown[0] == shown[-1] == "…"


@given(st.text(), st.text())
def test_it_is_one_short_line_whatever_the_text(text: str, query: str) -> None:
    shown = excerpt(text, query)

    assert len(shown) <= MAX_CHARS
    assert shown == " ".join(shown.split())
