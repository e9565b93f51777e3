"""What is asked in Japanese or English finds its record first, and what a plain scan finds is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.search import Document, Index
from memory.search_terms import Match, fold, query_terms
from tests.memory.search_probes import ENGLISH, JAPANESE, NOTES, PLAIN_TEXT

WORDS = """記憶 記 憶 金曜 曜日 の は デプロイ でぷろい ﾃﾞﾌﾟﾛｲ deploy deploys deployment DEPLOY ＡＰＩ api rapid a the is 京都 東京都 ー 税
    消費税 café cafe 12 2012 abc-123 x_y 한국어 * - " ( AND col: 🎉 。 ？"""
PIECES = st.sampled_from([*WORDS.split(), " ", "\n", "\u200b", "\U000e0100", "\ud800"])
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=8).map("".join)
DOCUMENTS = st.lists(
    st.builds(Document, st.integers(0, 7), TEXTS, TEXTS, TEXTS, st.sampled_from(["", "2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z"])),
    max_size=6,
    unique_by=lambda document: document.key,
)


def keys(index: Index[str], query: str) -> list[str]:
    return [hit.key for hit in index.search(query)]


@pytest.mark.parametrize(("query", "wanted"), JAPANESE.items())
def test_a_question_in_japanese_finds_its_record_first(query: str, wanted: str) -> None:
    assert keys(Index(NOTES), query)[0] == wanted


@pytest.mark.parametrize(("query", "wanted"), ENGLISH.items())
def test_a_question_in_english_finds_its_record_first(query: str, wanted: str) -> None:
    assert keys(Index(NOTES), query)[0] == wanted


@pytest.mark.parametrize("query", PLAIN_TEXT)
def test_operators_are_plain_text(query: str) -> None:
    odd = Document("odd", "odd", "", f"before {query} behind")

    assert keys(Index([odd]), query) == ["odd"]
    assert keys(Index([Document("even", "", "", "まったく別")]), query) == []


def test_not_is_a_word_and_leaves_nothing_out() -> None:
    assert keys(Index(NOTES), "田中 NOT 見積もり")[0] == "tanaka-contact"
    assert keys(Index(NOTES), "-田中")[0] == "tanaka-contact"


def test_an_empty_query_lists_everything_the_newest_first() -> None:
    dates = [note.updated_at for key in keys(Index(NOTES), " 　\n") for note in NOTES if note.key == key]

    assert len(dates) == len(NOTES)
    assert dates == sorted(dates, reverse=True)


def test_of_equals_the_newest_comes_first() -> None:
    old, new = (Document(f"n{day}", "同じ題", "", "同じ文", f"2026-10-0{day}T00:00:00Z") for day in (1, 2))

    assert keys(Index([old, new]), "同じ題") == keys(Index([new, old]), "同じ題") == ["n2", "n1"]


def test_a_word_itself_comes_before_longer_words_around_it() -> None:
    index = Index([Document("around", "rapid", "", ""), Document("itself", "api", "", "")])

    assert keys(index, "api") == ["itself", "around"]


def test_a_title_says_more_than_a_body() -> None:
    index = Index([Document("in body", "別の話", "", "京都"), Document("as title", "京都", "", "別の話")])

    assert keys(index, "京都") == ["as title", "in body"]


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\ufe0f", "\U000e0100", "\u2060"])
def test_what_nobody_sees_parts_no_word(unseen: str) -> None:
    assert keys(Index([Document("n", f"記{unseen}憶の de{unseen}ploy", "", "")]), "記憶") == ["n"]
    assert keys(Index([Document("n", "記憶の deploy", "", "")]), f"de{unseen}ploy") == ["n"]


def test_a_short_word_is_not_looked_for_inside_of_others() -> None:
    index = Index([Document("video", "video", "", ""), Document("id", "id", "", "")])

    assert keys(index, "id") == ["id"]


# -- properties --------------------------------------------------------------------------------------------------------
@given(DOCUMENTS, TEXTS)
def test_what_a_plain_scan_finds_is_found_and_nothing_else(documents: list[Document[int]], query: str) -> None:
    found = {hit.key for hit in Index(documents).search(query)}

    assert found == {document.key for document in documents if _scanned(document, query)}


def _scanned(document: Document[int], query: str) -> bool:
    """As one would do it by hand: every character and word looked at, no index."""
    text = fold(f"{document.title}\n{document.description}\n{document.body}")
    words = "".join(c if _is_of_a_word(c) else " " for c in text).split()
    wanted = query_terms(query)
    if not wanted:
        return fold(query).strip() in text
    return any(term.text in (words if term.match is Match.WORD else text) for term in wanted)


def _is_of_a_word(character: str) -> bool:
    return character.isalnum() and {term.match for term in query_terms(character)} == {Match.WORD}


@given(DOCUMENTS, st.integers(0, 5), st.integers(0, 20), st.integers(1, 12))
def test_any_stretch_of_a_text_finds_that_text(documents: list[Document[int]], which: int, start: int, length: int) -> None:
    if not documents:
        return
    document = documents[which % len(documents)]
    stretch = fold(document.body)[start : start + length]
    wanted = query_terms(stretch)

    if not wanted or any(term.match is not Match.WORD for term in wanted):  # short words and those of questions stand for themselves alone
        assert document.key in {hit.key for hit in Index(documents).search(stretch)}


@given(DOCUMENTS, TEXTS, st.sets(st.integers(0, 7)))
def test_what_may_not_be_seen_changes_neither_results_nor_order_nor_scores(
    documents: list[Document[int]], query: str, hidden: set[int]
) -> None:
    seen = [document for document in documents if document.key not in hidden]

    among = Index(documents).search(query, among={document.key for document in seen})

    assert [(hit.key, pytest.approx(hit.score)) for hit in among] == [(hit.key, hit.score) for hit in Index(seen).search(query)]


@given(st.lists(DOCUMENTS, max_size=3), st.sets(st.integers(0, 7)), TEXTS)
def test_an_index_kept_up_to_date_finds_what_a_fresh_one_finds(rounds: list[list[Document[int]]], removed: set[int], query: str) -> None:
    kept: Index[int] = Index()
    for document in (one for documents in rounds for one in documents):
        kept.put(document)
    for key in removed:
        kept.remove(key)

    left = {document.key: document for documents in rounds for document in documents if document.key not in removed}
    fresh = Index(left.values()).search(query)

    assert [(hit.key, pytest.approx(hit.score)) for hit in kept.search(query)] == [(hit.key, hit.score) for hit in fresh]
    assert len(kept) == len(left)


@given(st.text(), st.text())
def test_nothing_raises_whatever_the_text(text: str, query: str) -> None:
    Index([Document(0, text, text, text)]).search(query)


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)
