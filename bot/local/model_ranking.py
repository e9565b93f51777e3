"""Which lines fit a question, by the words and character pairs that they share.

Pure. Words for scripts that put spaces between them, pairs of characters for Japanese; a term that stands in few lines weighs more.
Hiragana is mostly grammar, so a pair of two of them hardly counts. Among equals the newer line wins.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise

_HIRAGANA = "\u3041-\u309f"
_JAPANESE = rf"{_HIRAGANA}\u30a0-\u30ff\u3400-\u9fff\u3005"
_RUN = re.compile(rf"[{_JAPANESE}]+|[^\W_{_JAPANESE}]+")
_IS_JAPANESE = re.compile(rf"[{_JAPANESE}]")
_IS_HIRAGANA = re.compile(rf"[{_HIRAGANA}]")
_IS_KANJI = re.compile(r"[\u3400-\u9fff]")
_SUFFIXES = ("ing", "ed", "es", "s")
_GRAMMAR_WORDS = """
a about again all am an and any are as at be been but by can could did do does for from had has have he her him his how i if in is it its
just me my no not of on or our please she should so tell than that the their them then there they this thread to up us was we were what
when where which who whom whose why will with would yes you your 何 誰 今 方 件
"""
_GRAMMAR = frozenset(_GRAMMAR_WORDS.split())
ENOUGH = 1.0  # weight of shared terms below which a line does not fit: one word, one pair of kanji, two half ones
QUESTION = 0.5  # what a line that asks is worth: it shares the words of a question and answers nothing
NEAR_BEST = 0.6  # a line that scores less than this part of the best one is not worth quoting beside it


def is_japanese(text: str) -> bool:
    return _IS_JAPANESE.search(text) is not None


def is_grammar(word: str) -> bool:
    """`word` in small letters."""
    return word in _GRAMMAR


def terms(text: str) -> dict[str, float]:
    """Term → weight (0 to 1)."""
    found: dict[str, float] = {}
    for run in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        found.update(_pairs(run) if is_japanese(run) else {_stem(run): 1.0})
    return {term: weight for term, weight in found.items() if term not in _GRAMMAR}


def best(question: str, lines: Sequence[str], *, limit: int = 3) -> list[int]:
    """Indexes of the lines that fit, best first; `lines` are oldest first."""
    wanted, held = terms(question), [terms(line) for line in lines]
    shared = [wanted.keys() & line.keys() for line in held]
    rarity = _rarity(held)
    scores = [_worth(text) * sum(wanted[term] * rarity[term] for term in line) for text, line in zip(lines, shared, strict=True)]
    fitting = [index for index, line in enumerate(shared) if sum(wanted[term] for term in line) >= ENOUGH]
    fitting.sort(key=lambda index: (-round(scores[index], 6), -index))
    return [index for index in fitting[:limit] if scores[index] >= NEAR_BEST * scores[fitting[0]]]


def _worth(line: str) -> float:
    return QUESTION if line.rstrip().endswith(("?", "？", "か。", "か")) else 1.0


def _rarity(held: Sequence[Mapping[str, float]]) -> dict[str, float]:
    counts: dict[str, int] = {}
    for line in held:
        for term in line:
            counts[term] = counts.get(term, 0) + 1
    return {term: math.log(1 + len(held) / count) for term, count in counts.items()}


def _pairs(run: str) -> dict[str, float]:
    found = {character: 0.5 for character in run if _IS_KANJI.match(character)}
    for pair in map("".join, pairwise(run)):
        found[pair] = (1.0, 0.5, 0.1)[len(_IS_HIRAGANA.findall(pair))]
    return found


def _stem(word: str) -> str:
    """`moved`, `moves` and `move` are one word. Numbers and short words stay as they are."""
    if word in _GRAMMAR or not word.isascii() or not word.isalpha():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word.removesuffix(suffix)
            break
    return word.removesuffix("e") if len(word) > 3 else word
