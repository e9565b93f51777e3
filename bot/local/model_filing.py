"""How the embedded model names what it files: slug, title, description and kind, from the words of the claim alone. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from bot.local.model_ranking import is_grammar, is_japanese
from bot.local.model_rules import shorten
from memory.consolidation.specifics import flat

TITLE_CHARS, SUBJECT_CHARS = {False: 70, True: 40}, {False: 60, True: 30}  # by whether it is Japanese: its signs are twice as wide
SLUG_WORDS, SLUG_CHARS = 6, 48
HASH_CHARS = 8

_WORD = re.compile(r"[a-z0-9]+")
_SAYING = frozenset(("we", "decided", "decision", "agreed", "settled", "please", "note", "remember", "also"))
_KNOWLEDGE: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("term", r"\bstands for\b|\bis short for\b|\bis defined as\b|\bwe call\b|\bmeans\b|の略|という意味|と呼[ぶび]"),
        ("policy", r"\bpolicy\b|方針|ポリシー"),
        ("rule", r"\brules?\b|ルール|規則|規程"),
        ("howto", r"\bhow to\b|\bin order to\b|\bsteps? to\b|手順|方法|やり方|には[、,]"),
    )
)


def slug_of(kind: str, claim: str) -> str:
    """Its English words; where there are too few of them, the kind and what nobody else's claim has."""
    words = subject_words(claim)
    if is_japanese(claim) or len(words) < 2:
        return f"{kind}-{_short_hash(claim)}"
    slug = ""
    for word in words[:SLUG_WORDS]:
        longer = f"{slug}-{word}" if slug else word
        slug = longer if len(longer) <= SLUG_CHARS else slug
    return slug or f"{kind}-{_short_hash(claim)}"


def another_slug(slug: str, candidate: str) -> str:
    """Where the slug is taken. `candidate`: its id, of which there is one."""
    return f"{slug[: 63 - HASH_CHARS].rstrip('-')}-{_short_hash(candidate)}"


def title_of(claim: str) -> str:
    """Its first words."""
    return _first_words(claim, TITLE_CHARS)


def description_of(claim: str) -> str:
    """When to read it, in the language of the claim."""
    if is_japanese(claim):
        return f"「{_first_words(claim, SUBJECT_CHARS)}」の話が出たとき"
    return f"When it is about {', '.join(subject_words(claim)[:SLUG_WORDS]) or _first_words(claim, SUBJECT_CHARS)}"


def knowledge_kind_of(claim: str) -> str:
    return next((kind for kind, pattern in _KNOWLEDGE if pattern.search(claim)), "fact")


def subject_words(claim: str) -> list[str]:
    """English ones, without grammar and without words for that somebody said it, each once."""
    found = _WORD.findall(unicodedata.normalize("NFKC", claim).casefold())
    return list(dict.fromkeys(word for word in found if word not in _SAYING and not is_grammar(word)))


def _first_words(claim: str, limits: dict[bool, int]) -> str:
    line, most = " ".join(claim.split()).rstrip("。．.!！"), limits[is_japanese(claim)]
    if len(line) <= most:
        return line
    cut = line[:most] if is_japanese(claim) else line[: most + 1].rpartition(" ")[0] or line[:most]
    return shorten(f"{cut.rstrip(' ,、:：;')}…", limit=most + 1)


def _short_hash(text: str) -> str:
    return hashlib.sha256(flat(text).encode("utf-8", "replace")).hexdigest()[:HASH_CHARS]
