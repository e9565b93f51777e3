from __future__ import annotations

import pytest

from bot.local.model_ranking import best, is_japanese, terms

ENGLISH = [
    "we moved the release to Friday",
    "lunch is on Thursday",
    "the database password rotates every 90 days",
    "Carol reviews the database schema",
]
JAPANESE = [
    "リリースは金曜日に変更しました",
    "昼食は木曜日です",
    "データベースのパスワードは90日ごとに変わります",
    "会議室は三階の東側です",
]


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("When is the release?", 0),
        ("which day did you move it, the RELEASES?", 0),
        ("when do we have lunch", 1),
        ("who reviewed the schema?", 3),
        ("90日って何？", 2),
    ],
)
def test_an_english_thread_is_searched_by_words(question: str, line: int) -> None:
    assert best(question, ENGLISH)[:1] == [line] or best(question, JAPANESE)[:1] == [line]


@pytest.mark.parametrize(
    ("question", "line"), [("リリースはいつですか？", 0), ("木曜の昼食は？", 1), ("ﾃﾞｰﾀﾍﾞｰｽのパスワードは？", 2), ("会議室はどこ", 3)]
)
def test_a_japanese_thread_is_searched_by_character_pairs(question: str, line: int) -> None:
    assert best(question, JAPANESE)[:1] == [line]


def test_shared_grammar_is_no_match() -> None:
    assert best("who are you and what is this about?", ENGLISH) == []
    assert best("これは何ですか", JAPANESE) == []


def test_a_rare_word_outweighs_a_frequent_one() -> None:
    lines = ["release notes", "release party", "release checklist", "the budget"]

    assert best("release budget", lines)[0] == 3


def test_among_equals_the_newer_line_wins() -> None:
    assert best("release", ["release on Friday", "lunch", "release on Monday"]) == [2, 0]


def test_no_more_than_the_limit_is_given_and_nothing_far_below_the_best() -> None:
    assert best("release", ["release a", "release b", "release c", "release d"], limit=3) == [3, 2, 1]
    assert best("database schema", ENGLISH) == [3]


def test_a_line_that_asks_is_worth_less_than_one_that_tells() -> None:
    assert best("when is the release?", ["the release is on Friday", "when is the release?"]) == [0]


def test_nothing_held_matches_nothing() -> None:
    assert best("release", []) == []


def test_kana_or_kanji_make_a_text_japanese() -> None:
    assert is_japanese("release はいつ") and is_japanese("会議") and not is_japanese("naïve release")


def test_forms_of_one_word_are_one_term() -> None:
    assert terms("moved") == terms("moves") == terms("MOVE")
