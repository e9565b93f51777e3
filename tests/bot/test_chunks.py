"""Where a text is cut."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chunks import FENCE, SHORTEST_LIMIT, pieces
from bot.mrkdwn import neutralise


def bodies(text: str, limit: int = SHORTEST_LIMIT) -> list[str]:
    return [piece.body for piece in pieces(text, limit)]


def test_paragraphs_are_preferred_to_lines_and_lines_to_words() -> None:
    assert bodies("a" * 40 + "\n\n" + "b b\n" + "c" * 40) == ["a" * 40 + "\n\n", "b b\n" + "c" * 40]
    assert bodies("a" * 40 + "\n" + "b b " + "c" * 40) == ["a" * 40 + "\n", "b b " + "c" * 40]
    assert bodies("a" * 40 + " " + "c" * 40) == ["a" * 40 + " ", "c" * 40]
    assert bodies("あ" * 40 + "。" + "い" * 40) == ["あ" * 40 + "。", "い" * 40]


@pytest.mark.parametrize(
    "whole", ["&amp;", "<https://x.org/a|a label of words>", "`x = 1`", "e\u0301\u0302", "👨‍👩‍👧‍👦", "👍🏽", "🇯🇵", "ｶﾞ", "❤\ufe0f"]
)
@pytest.mark.parametrize("shift", range(50, 65))
def test_what_is_one_thing_is_never_torn(whole: str, shift: int) -> None:
    cut = bodies("x" * shift + whole + "y" * 80)

    assert "".join(cut) == "x" * shift + whole + "y" * 80
    assert any(whole in body for body in cut)


def test_flags_in_a_row_are_cut_between_flags() -> None:
    cut = bodies("x" + "🇯🇵" * 60)

    assert all(len(body.lstrip("x")) % 2 == 0 for body in cut)


def test_a_link_or_cluster_longer_than_a_chunk_is_cut_all_the_same() -> None:
    for text in (f"<https://x.org/{'a' * 200}>", "e" + "\u0301" * 200):
        assert "".join(bodies(text)) == text
        assert all(len(body) <= SHORTEST_LIMIT for body in bodies(text))


def test_a_fence_is_closed_on_a_line_of_its_own_and_opened_with_its_language() -> None:
    cut = pieces("```rust\n" + "line of code\n" * 8 + "```\nafter", SHORTEST_LIMIT)

    assert [(piece.opening, piece.closing) for piece in cut] == [("", "```"), ("```rust\n", ""), ("", "")]
    assert cut[0].shown.endswith("of code\n```")
    assert cut[1].shown.startswith("```rust\nline of code\n")


def test_a_long_line_of_code_gets_a_newline_before_its_fence() -> None:
    cut = pieces("```" + "x" * 100 + "```", SHORTEST_LIMIT)

    assert [piece.shown for piece in cut] == ["```" + "x" * 57 + "\n```", "```\n" + "x" * 43 + "```"]


def test_blank_pieces_are_not_posted() -> None:
    assert bodies("") == []
    assert bodies(" \n" * 100) == []
    assert all(body.strip() for body in bodies("a" + "\n" * 300 + "b"))


def test_a_limit_without_room_for_code_is_refused() -> None:
    with pytest.raises(ValueError, match="code fence"):
        pieces("x", SHORTEST_LIMIT - 1)


texts = st.lists(
    st.sampled_from(
        [
            "```",
            "```python\n",
            "\n",
            "\n\n",
            " ",
            "word",
            "x" * 30,
            "&",
            "<https://x.org|a b>",
            "`c d`",
            "日本語。",
            "🇯🇵",
            "👍🏽",
            "e\u0301",
        ]
    ),
    max_size=60,
).map("".join)


@settings(max_examples=200, deadline=None)
@given(texts, st.sampled_from([64, 100, 333]))
def test_pieces_are_the_text_within_the_limit_with_even_fences(text: str, limit: int) -> None:
    sent = neutralise(text)
    cut = pieces(sent, limit)

    assert re.sub(r"\s", "", "".join(piece.body for piece in cut)) == re.sub(r"\s", "", sent)
    assert all(piece.body.strip() and len(piece.shown) <= limit for piece in cut)
    assert all(piece.shown.count(FENCE) % 2 == 0 for piece in cut)
    assert all(unicodedata.category(piece.body[0])[0] != "M" for piece in cut)
    assert not any(re.search("&[a-z]*$|<[^>]*$", piece.body) for piece in cut)
