"""How what is said now stands to what was said before, by plain rules: the words that both share, and the values that they give.

Pure. A value is a number, a time, a date or a weekday. Must stay true: of two texts that give different values none covers the other,
and a number that names a thing (`kestrel-12`, `4.2`) is no value: what is said of another thing contradicts nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from bot.local.model_ranking import is_grammar, terms
from memory.consolidation.specifics import flat, lost

COVERS = 0.8  # of the words of one text in the other: the rest is how it is said
SAME_SUBJECT, OF_LONGER = 0.85, 0.5  # of the words of the shorter and of the longer text, values left out: lunch is not supper
LEAST_SHARED = 2.0  # two words, or a word of two kanji with its signs: one alone is a coincidence

_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONTH = r"(?-i:January|February|March|April|May|June|July|August|September|October|November|December)"
_UNIT = r"(?:\s?[%％]|\s?(?:am|pm|h|min|s|ms|kb|mb|gb|tb)\b|[年月日時分秒週円台人件個本回度歳万億]{1,3})?"
_NUMBER = rf"(?<![\w.,:#@/-])[$€£¥]?\d(?:[\d,.:/–-]*\d)?{_UNIT}"
_VALUE = re.compile(rf"\b{_WEEKDAY}\b|\b{_MONTH}\b|[日月火水木金土]曜日?|{_NUMBER}", re.IGNORECASE)
_JAPANESE_BEFORE = re.compile(r"(?<=[\u3041-\u9fff])(?=\d)")  # where no space stands between a word and its number
_VERSION = re.compile(r"\d+(?:\.\d+)+")  # 4.2 without a unit: the name of something, as likely as not
_FIRST = re.compile(r"[A-Z][A-Za-z]+")
_LETTER = re.compile(r"(?<![A-Za-z0-9])(?!I\b)[A-Z](?![A-Za-z0-9'’])")  # team B, 会議室A
_HIRAGANA = re.compile("[\u3041-\u309f]")
_DENIES = re.compile(r"\b(?:not|never|without|no longer)\b|n['’]t\b|ない|ません|なく|なし|禁止|不要|中止", re.IGNORECASE)
_DENIES_NOTHING = re.compile(r"なければな(?:らない|りません)|ないといけ(?:ない|ません)")
# Words for that somebody said it, not for what.
_SAYING = frozenset(
    terms("decided decision agreed settled said note please remember now instead always also and then 決定 決 定 合意 変更")
)


class Likeness(Enum):
    SAME = "same"  # the same words
    COVERED = "covered"  # what is said now stands there already, with more
    AGAINST = "against"  # the same subject, and something else of it
    MORE = "more"  # all that stands there, and more
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """`bare`: the text without its values; `terms`, `subject`: its words with and without grammar. Words have a weight each."""

    letters: str
    content: Mapping[str, float]
    values: frozenset[str]
    denies: bool
    bare: str
    terms: Mapping[str, float]
    subject: Mapping[str, float]


def likeness(now: str, before: str) -> Likeness:
    """Of `now` to `before`."""
    new, old = _said(now), _said(before)
    if new.letters == old.letters:
        return Likeness.SAME
    if _covers(old, new):
        return Likeness.COVERED
    if (_differ(new.values, old.values) or new.denies != old.denies) and _same_subject(new, old):
        return Likeness.AGAINST
    return Likeness.MORE if _covers(new, old) else Likeness.OTHER


def values(text: str) -> frozenset[str]:
    """In one writing each: `Fridays` and `friday`, `金曜` and `金曜日` are one."""
    found = (flat(match[0]) for match in _VALUE.finditer(_plain(text)))
    return frozenset(_one_writing(value) for value in found if not _VERSION.fullmatch(value))


def denies(text: str) -> bool:
    return _DENIES.search(_DENIES_NOTHING.sub("", text)) is not None


@lru_cache(maxsize=256)  # the texts of one run, which are held against each other again and again
def _said(text: str) -> _Said:
    bare = _VALUE.sub(lambda match: match[0] if _VERSION.fullmatch(match[0]) else " ", _plain(text))
    return _Said(
        letters=flat(text).rstrip(".。!！"),
        content=_content(terms(text)),
        values=values(text),
        denies=denies(text),
        bare=bare,
        terms=terms(bare),
        subject=_content(terms(bare)),
    )


def _covers(more: _Said, less: _Said) -> bool:
    whole, agree = sum(less.content.values()), more.denies == less.denies
    share = _shared(less.content, more.content) / whole if whole else 0.0
    return agree and share >= COVERS and less.values <= more.values and not lost([less.bare], [more.bare])


def _same_subject(new: _Said, old: _Said) -> bool:
    shorter, longer = sorted((sum(new.subject.values()), sum(old.subject.values())))
    same_words = bool(new.subject) and new.terms == old.terms
    most_words = _shared(new.subject, old.subject) >= max(LEAST_SHARED, SAME_SUBJECT * shorter, OF_LONGER * longer)
    return (same_words or most_words) and not (_names(new.bare, old.bare) and _names(old.bare, new.bare))


def _names(of: str, beside: str) -> frozenset[str]:
    """Names in the one text that are not in the other. The word that a sentence begins with may be one."""
    first = _FIRST.match(of)
    begins = {first[0].casefold()} if first and not is_grammar(first[0].casefold()) else set[str]()
    letters = set(_LETTER.findall(of)) - set(_LETTER.findall(beside))
    return lost([of], [beside]) | {word for word in begins if word not in flat(beside)} | letters


def _differ(one: frozenset[str], other: frozenset[str]) -> bool:
    """Each has what the other has not; that one says more is no contradiction."""
    return bool(one - other) and bool(other - one)


def _content(words: Mapping[str, float]) -> dict[str, float]:
    """Without grammar: in Japanese, what is written in kanji and katakana."""
    return {term: weight for term, weight in words.items() if term not in _SAYING and not _HIRAGANA.search(term)}


def _shared(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(weight for term, weight in one.items() if term in other)


def _one_writing(value: str) -> str:
    return value.removesuffix("s") if value.endswith("days") else value.replace("曜日", "曜")


def _plain(text: str) -> str:
    return _JAPANESE_BEFORE.sub(" ", unicodedata.normalize("NFKC", text))
