"""Records ranked for a query: BM25 over words and character pairs, in memory, without a model.

What must stay true: what a plain scan for the query's terms finds is found, and nothing else; a document that may not be
seen changes no result, no order and no score; no text of a query is an operator, and none raises.

Title and description count three times: they say what a record is about. Ties go to the newest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from memory.search_terms import Match, Term, fold, query_terms, terms

Key = TypeVar("Key", bound=Hashable)

SATURATION, LENGTH_SHARE = 1.2, 0.75  # BM25's k1 and b, at their usual values
HEADING_WEIGHT = 3


@dataclass(frozen=True, slots=True)
class Document(Generic[Key]):
    """`updated_at`: ISO 8601 in UTC, so that text order is time order."""

    key: Key
    title: str
    description: str
    body: str
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class Hit(Generic[Key]):
    """`score` compares hits of one query only; 0: the query has no letter or digit, and was looked for as it stands."""

    key: Key
    score: float


@dataclass(frozen=True, slots=True)
class _Indexed(Generic[Key]):
    document: Document[Key]
    length: float
    words: tuple[str, ...]
    pairs: tuple[str, ...]


class Index(Generic[Key]):
    def __init__(self, documents: Iterable[Document[Key]] = ()) -> None:
        self._indexed: dict[Key, _Indexed[Key]] = {}
        self._words: dict[str, dict[Key, float]] = {}
        self._pairs: dict[str, dict[Key, float]] = {}
        for document in documents:
            self.put(document)

    def __len__(self) -> int:
        return len(self._indexed)

    def put(self, document: Document[Key]) -> None:
        """Adds it, or replaces the one with its key."""
        self.remove(document.key)
        words, pairs = _weighted(document)
        for postings, counts in ((self._words, words), (self._pairs, pairs)):
            for term, count in counts.items():
                postings.setdefault(term, {})[document.key] = count
        length = float(words.total() + pairs.total())
        self._indexed[document.key] = _Indexed(document, length, tuple(words), tuple(pairs))

    def remove(self, key: Key) -> None:
        """Nothing happens where it is not there."""
        indexed = self._indexed.pop(key, None)
        if indexed is None:
            return
        for postings, there in ((self._words, indexed.words), (self._pairs, indexed.pairs)):
            for term in there:
                del postings[term][key]
                if not postings[term]:
                    del postings[term]

    def search(self, query: str, *, among: Set[Key] | None = None) -> list[Hit[Key]]:
        """Best first, all of them. `among`: the keys that may be seen, each of them indexed; None: all.

        A query of spaces alone lists everything, the newest first.
        """
        seen = self._indexed.keys() if among is None else among
        if wanted := query_terms(query):
            scores = self._scores(wanted, seen)
        else:
            literal = fold(query).strip()
            scores = {key: 0.0 for key in seen if literal in _folded(self._indexed[key].document)}
        # Rounded: the last digits depend on the order of adding up.
        newest = sorted(scores, key=lambda key: (self._indexed[key].document.updated_at, str(key)), reverse=True)
        return [Hit(key, scores[key]) for key in sorted(newest, key=lambda key: -round(scores[key], 9))]

    def _scores(self, wanted: Mapping[Term, float], seen: Set[Key]) -> dict[Key, float]:
        scores: dict[Key, float] = {}
        usual = sum(self._indexed[key].length for key in seen) / len(seen) if seen else 0.0
        for term, weight in wanted.items():
            counts = {key: count for key, count in self._counts(term).items() if key in seen}
            rarity = weight * math.log(1 + (len(seen) - len(counts) + 0.5) / (len(counts) + 0.5))
            for key, count in counts.items():
                room = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * self._indexed[key].length / usual)
                scores[key] = scores.get(key, 0.0) + rarity * count * (SATURATION + 1) / (count + room)
        return scores

    def _counts(self, term: Term) -> Mapping[Key, float]:
        match term.match:
            case Match.WORD:
                return self._words.get(term.text, {})
            case Match.PAIR:
                return self._pairs.get(term.text, {})
            case Match.WITHIN:
                return _together(self._words, lambda word: term.text in word)
            case Match.CHARACTER:
                return _together(self._pairs, lambda pair: term.text in pair)


def _together(postings: Mapping[str, Mapping[Key, float]], matches: Callable[[str], bool]) -> Mapping[Key, float]:
    found: dict[Key, float] = {}
    for term, counts in postings.items():
        if matches(term):
            for key, count in counts.items():
                found[key] = found.get(key, 0.0) + count
    return found


def _weighted(document: Document[Key]) -> tuple[Counter[str], Counter[str]]:
    words, pairs = terms(document.body)
    for heading in (document.title, document.description):
        for counts, of_heading in zip((words, pairs), terms(heading), strict=True):
            for term, count in of_heading.items():
                counts[term] += HEADING_WEIGHT * count
    return words, pairs


def _folded(document: Document[Key]) -> str:
    return fold(f"{document.title}\n{document.description}\n{document.body}")
