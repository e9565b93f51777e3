"""Whether a record can be said to hold what a candidate claims. Pure.

What must stay true: it stops only what nobody could take for the same: a claim of which next to no word, or most of its numbers,
stand in no part of the record. Two ways to say one thing are one, as far as words tell; the rest is the model's to judge.
"""

from __future__ import annotations

import re
import unicodedata

from memory.records import Record
from memory.search_terms import Match, Term, fold, query_terms, terms

# Of the weight of a claim's words: paraphrases in one language were measured at 0.26 and more, unrelated texts at 0.03 and less.
LEAST_SHARED = 0.12
LEAST_NUMBERS = 0.5  # 15時 and 15:00 are one number; a date that is added each time it is said must not count for all
_DIGITS = re.compile(r"\d+")


def holds(record: Record, claim: str) -> bool:
    text = f"{record.title}\n{record.description}\n{record.body}\n{record.slug.replace('-', ' ')}"
    numbers, wanted = _numbers(claim), query_terms(claim)
    if numbers and len(numbers & _numbers(text)) < LEAST_NUMBERS * len(numbers):
        return False
    words, pairs = terms(text)
    parts, characters = " ".join(words), fold(text)

    def has(term: Term) -> bool:
        where = {Match.WORD: words, Match.PAIR: pairs, Match.WITHIN: parts, Match.CHARACTER: characters}[term.match]
        return term.text in where

    shared = sum(weight for term, weight in wanted.items() if has(term))
    return shared >= LEAST_SHARED * sum(wanted.values())


def _numbers(text: str) -> frozenset[str]:
    return frozenset(found.lstrip("0") or "0" for found in _DIGITS.findall(unicodedata.normalize("NFKC", text)))
