"""The sentence of a text that says most about a query, for whoever chooses among what was found."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memory.search_terms import Match, Term, fold, query_terms, terms

MAX_CHARS = 160
_SENTENCES = re.compile(r"(?<=[。．！？!?])|(?<=\.)\s|\n")


def excerpt(text: str, query: str) -> str:
    """At most 160 characters on one line; the first sentence where none says anything, "" where there is no text."""
    sentences = [" ".join(sentence.split()) for sentence in _SENTENCES.split(text)]
    wanted = query_terms(query)
    best = max((s for s in sentences if s), key=lambda sentence: _says(sentence, wanted), default="")
    return best if len(best) <= MAX_CHARS else _around(best, wanted)


def _says(sentence: str, wanted: Mapping[Term, float]) -> float:
    words, pairs = terms(sentence)
    there = {Match.WORD: words, Match.PAIR: pairs}
    folded = fold(sentence)
    return sum(w for term, w in wanted.items() if (term.text in there[term.match] if term.match in there else term.text in folded))


def _around(sentence: str, wanted: Mapping[Term, float]) -> str:
    """A stretch of a long sentence: of overlapping ones the first that says most."""
    starts = range(0, len(sentence), MAX_CHARS // 2)
    start = max(starts, key=lambda start: _says(sentence[start : start + MAX_CHARS - 2], wanted))
    stretch = sentence[start : start + MAX_CHARS - 2].strip()
    return f"{'…' if start else ''}{stretch}{'…' if start + MAX_CHARS - 2 < len(sentence) else ''}"
