"""What a text must not lose unnoticed: names, numbers, dates, code, addresses. Pure.

What must stay true: two writings of one thing are one (NFKC, case and white space do not count); what is found twice is
found once. It would rather find a word too many: that costs a declaration, a number lost costs the memory its use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

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
        r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*\d[\w.-]*",
        r"\b[A-Z][A-Z0-9]{1,20}\b",
        r"[ァ-ヴ][ァ-ヴー・]{2,40}",
        r"[一-龠々ァ-ヴーA-Za-z]{1,12}(?:さん|様|氏|くん|ちゃん|部長|課長|社長|先生)",
        r"[日月火水木金土]曜",
    )
)
_WORDS = re.compile(rf"\b(?:{_DAYS}|{_MONTHS})\b", re.IGNORECASE)
# A capital inside of a sentence is a name; at its beginning nobody can tell.
_NAME = re.compile(r"(?<=[^\s.!?。！？:：\n])[ \t]+([A-Z][\w'’-]{1,40})")


def specifics(text: str) -> frozenset[str]:
    """In one writing each, as `flat` makes it."""
    plain = unicodedata.normalize("NFKC", text)
    found = {match[0] for shape in (*_SHAPES, _WORDS) for match in shape.finditer(plain)}
    found |= {match[1] for match in _NAME.finditer(plain)}
    return frozenset(one for each in found if (one := flat(each).strip(".,:;-–")))


def lost(before: Iterable[str], after: Iterable[str]) -> frozenset[str]:
    """Specifics of the texts before that stand in none of the texts after."""
    there = list(after)
    kept = frozenset[str]().union(*map(specifics, there)) if there else frozenset[str]()
    whole = "\n".join(map(flat, there))
    missing = frozenset[str]().union(*map(specifics, before)) - kept
    # A number inside of another number is not that number; a name inside of a longer word is still there to be read.
    return frozenset(one for one in missing if any(sign.isdigit() for sign in one) or one not in whole)


def flat(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
