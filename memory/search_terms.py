"""Text → terms: what a record is found by, and how much each term of a query counts.

What must stay true: nothing raises, whatever the text; both sides are folded the same way; a term is a fact of the text
alone, so that a plain scan for it finds the same records. There is no dictionary: where words are not separated, every
two neighbouring characters are a term, so a word of two characters is found wherever it stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

# Han with 々 and 〆, kana with ー, Hangul, Thai, Lao, Burmese, Khmer: scripts without spaces, or with words that grow at the end.
_UNSPACED = (
    "\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uac00-\ud7a3\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17dd\U00020000-\U000323af"
)
_RUNS = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}]+")
_UNSPACED_BESIDE = re.compile(f"[{_UNSPACED}]")
_GRAMMATICAL = re.compile("[\u3041-\u309f誰]")  # hiragana, and `who`

_ACCENTS = re.compile("[\u0300-\u036f]")
# Seen by nobody: soft hyphen, zero-width characters and direction marks, variation selectors.
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
_TO_HIRAGANA = {katakana: katakana - 0x60 for katakana in (*range(0x30A1, 0x30F7), 0x30FD, 0x30FE)}

# Words of a question, not of its subject: they count little, and only as whole words.
_QUESTION = """
    a about after all am an and any are as at be been before but by can could did do does for from had has have he her him his how i if
    in into is it its me my no not of on or our out said say she should so some than that the their them then there they this to up us
    was we were what when where which who whom whose why will with would you your
"""
_FUNCTION_WORDS = frozenset(_QUESTION.split())
_ENDINGS = ("ings", "ies", "ing", "ed", "es", "s", "e", "y")
_SHORTEST_STEM = 4
SHORTEST_PART = 3  # a shorter word stands in too many others

# Pairs of hiragana are mostly grammar, in a question above all; pairs with one hiragana are ends of words and particles.
_WHOLE, _HALF_GRAMMAR, _GRAMMAR, _WITHIN = 1.0, 0.4, 0.1, 0.4


class Match(StrEnum):
    WORD = "word"  # this very word
    WITHIN = "within"  # any word with this part
    PAIR = "pair"  # two neighbouring characters
    CHARACTER = "character"  # one character, in whatever pair or alone


@dataclass(frozen=True, slots=True)
class Term:
    match: Match
    text: str


def fold(text: str) -> str:
    """Full and half width, case, accents, hiragana and katakana made one; what nobody sees is left out."""
    return _fold_width(text).translate(_TO_HIRAGANA)


def terms(text: str) -> tuple[Counter[str], Counter[str]]:
    """Words and pairs of a text, with how often each occurs. A character that stands alone is its own pair."""
    words: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for run in _RUNS.finditer(fold(text)):
        if run["unspaced"]:
            pairs.update(_pairs(run[0]))
        else:
            words[run[0]] += 1
    return words, pairs


def is_grammar(word: str) -> bool:
    """An English word of any sentence."""
    return word.casefold() in _FUNCTION_WORDS


def query_terms(query: str) -> dict[Term, float]:
    """What to look for, and its weight. Empty: there is no letter or digit in the query."""
    wanted: dict[Term, float] = {}
    text = _fold_width(query)
    for run in _RUNS.finditer(text):
        # `A社` is a name: no English sentence goes on without a space.
        joined = _UNSPACED_BESIDE.search(text[max(0, run.start() - 1) : run.end() + 1])
        found = _of_run(run[0]) if run["unspaced"] else _of_word(run[0], is_name=joined is not None)
        for term, weight in found.items():
            wanted[term] = max(weight, wanted.get(term, 0.0))
    return wanted


def _fold_width(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", _INVISIBLE.sub("", text))
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", decomposed).casefold())


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _of_run(run: str) -> dict[Term, float]:
    """`run` still with its katakana: what is written in them is a word, not grammar."""
    if len(run) == 1:
        return {Term(Match.CHARACTER, run.translate(_TO_HIRAGANA)): _weight(run)}
    found: dict[Term, float] = {}
    for pair in _pairs(run):
        term = Term(Match.PAIR, pair.translate(_TO_HIRAGANA))
        found[term] = max(_weight(pair), found.get(term, 0.0))
    return found


def _weight(characters: str) -> float:
    grammar = len(_GRAMMATICAL.findall(characters))
    return _GRAMMAR if grammar == len(characters) else _HALF_GRAMMAR if grammar else _WHOLE


def _of_word(word: str, *, is_name: bool) -> dict[Term, float]:
    if word in _FUNCTION_WORDS and not is_name:
        return {Term(Match.WORD, word): _GRAMMAR}
    found = {Term(Match.WORD, word): _WHOLE}
    if len(part := _stem(word)) >= SHORTEST_PART:
        found[Term(Match.WITHIN, part)] = _WITHIN
    return found


def _stem(word: str) -> str:
    """Without one English ending: `deploys` is looked for in `deployment` too."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
