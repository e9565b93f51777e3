"""What a text must not lose unnoticed: names, numbers, dates, code, addresses. Pure.

What must stay true: two writings of one thing are one (NFKC, case and white space do not count); what is found twice is
found once. It would rather find a word too many: that costs a declaration, a number lost costs the memory its use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

from memory.search_terms import is_grammar

_DAYS = r"mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
_MONTHS = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_UNIT = r"(?:\s?[%％]|[A-Za-z]{1,4}(?![A-Za-z])|[一-龠々ヶ]{1,3})?"
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"`[^`\n]{1,200}`",
        r"https?://[^\s<>\"'`、。）)」]{1,300}",
        r"(?<![\w/])(?:~|\.{1,2})?/[\w.-]{1,100}(?:/[\w.-]{1,100})*",
        r"[#@][\w.-]{1,80}",
        r"<[@#!][^>\n]{1,80}>",
        r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+",
        # With the unit that stands right behind it: 15:00, 4.2, 12台, 3月, 30 %, $40, 2026-12-04.
        rf"[$€£¥]?\d(?:[\d,.:/–-]{{0,40}}\d)?{_UNIT}",
        r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9_.-]{0,100}?\d[\w.-]{0,100}",
        r"\b[A-Z][A-Z0-9]{1,20}\b",
        r"[〇一二三四五六七八九十百千万億]{1,12}(?:年|月|日|時|分|秒|週|円|人|名|台|個|件|回|本|枚|階|割|点|度)",
        r"[ァ-ヴ][ァ-ヴー・]{2,40}",
        r"[一-龠々ァ-ヴーA-Za-z]{1,12}(?:さん|様|氏|くん|ちゃん|部長|課長|社長|先生)",
        r"[日月火水木金土]曜",
    )
)
_NUMBERS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty|ninety|hundred|thousand|million|dozen|half"
)
_WORDS = re.compile(rf"\b(?:{_DAYS}|{_MONTHS}|{_NUMBERS})\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[^\s.!?。！？:：\n])[ \t]+([A-Z][\w'’-]{1,40})")
# With a capital because a sentence begins: a name, where it is no word of grammar and stands nowhere without the capital.
_FIRST = re.compile(r"(?:^|(?<=[.!?。！？:：\n]))[ \t>*#-]{0,8}([A-Z][a-z]{1,40})(?!\w)")
_OPENING = """
    again also always another because each every everybody however let never nobody note now only please remember since some thanks these
    those today while yes
"""
_OPENERS = frozenset(_OPENING.split())
_SMALL = re.compile(r"(?<![\w'’-])[a-z][a-z'’-]{1,40}")


def specifics(text: str) -> frozenset[str]:
    """In one writing each, as `flat` makes it."""
    plain = unicodedata.normalize("NFKC", text)
    found = {match[0] for shape in (*_SHAPES, _WORDS) for match in shape.finditer(plain)}
    found |= {match[1] for match in _NAME.finditer(plain)}
    small = frozenset(_SMALL.findall(plain))
    found |= {name for match in _FIRST.finditer(plain) if not is_grammar(name := match[1]) and name.casefold() not in small | _OPENERS}
    return frozenset(one for each in found if (one := flat(each).strip(".,:;-–")))


class Kept:
    """What stands in these texts; `known`: the specifics of a text, where they were looked for before."""

    def __init__(self, texts: Iterable[str], *, known: Callable[[str], frozenset[str]] = specifics) -> None:
        there = list(texts)
        self._found = frozenset[str]().union(*map(known, there))
        self._whole = "\n".join(map(flat, there))

    def __contains__(self, one: str) -> bool:
        """A number inside of another number is not that number; a name inside of a longer word is still there to be read."""
        return one in self._found or (not has_number(one) and one in self._whole)


def lost(before: Iterable[str], after: Iterable[str]) -> frozenset[str]:
    """Specifics of the texts before that stand in none of the texts after."""
    kept = Kept(after)
    return frozenset(one for text in before for one in specifics(text) if one not in kept)


def has_number(text: str) -> bool:
    return any(sign.isnumeric() for sign in text)


def flat(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
