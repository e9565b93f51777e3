"""What can be wrong with the text of one record, whoever wrote it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from memory.lint_rules import Rule
from memory.records import Record
from memory.redact import redact

MAX_TITLE_CHARS = 120
MAX_DESCRIPTION_CHARS = 200
MAX_BODY_CHARS = 8_000  # 2,000 tokens of English, 8,000 of Japanese

_REDACTED = re.compile(r"\[REDACTED:([a-z_]{1,40})\]")
# They join emoji, and letters of some scripts; fillers look like nothing and count as letters.
_JOINERS, _FILLERS = "\u200c\u200d", "\u115f\u1160\u3164\uffa0"
_RELATIVE = re.compile(
    r"\b(?:today|yesterday|tomorrow|tonight|(?:last|next|this) (?:week|month|year|monday|tuesday|wednesday|thursday|friday))\b"
    r"|今日|昨日|明日|本日|一昨日|明後日|[先今来](?:週|月)|[昨来]年|今年",
    re.IGNORECASE,
)
# Orders to a model, after NFKC. Each gap is bounded, so that no text makes the search slow.
_INJECTIONS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|system)\b.{0,20}\b(?:instruction|prompt|rule|message)s?\b",
        r"\byou are now\b.{0,40}\b(?:in|an?|the)\b.{0,20}\b(?:mode|assistant|admin|developer|unrestricted)\b",
        r"\b(?:reveal|print|repeat|show|output)\b.{0,30}\b(?:system prompt|your instructions|hidden instructions)\b",
        r"\bdo not (?:tell|inform|mention\b.{0,20}\bto)\b.{0,20}\buser\b",
        r"</?(?:system|assistant|instructions?)>|\[/?INST\]|<\|im_(?:start|end)\|>",
        r"(?:以前|これまで|上記|前|先).{0,8}(?:指示|命令|ルール).{0,6}(?:無視|忘れ|破棄)",
        r"システムプロンプト.{0,10}(?:表示|出力|教え|見せ|無視)",
        r"(?:この|次の|以下の)(?:指示|命令)に(?:必ず)?従[えいっ]",
    )
)


@dataclass(frozen=True, slots=True)
class Finding:
    rule: Rule
    message: str
    mend: str


def check_text(record: Record) -> Iterator[Finding]:
    parts = {"title": record.title, "description": record.description, "text": record.body}
    for name, text in parts.items():
        if not text.strip():
            yield Finding(Rule.EMPTY, f"the {name} is empty", "say it, or remove the record")
        yield from _hidden(name, text, one_line=name != "text")
        yield from check_secrets(name, text)
        if any(pattern.search(unicodedata.normalize("NFKC", text)) for pattern in _INJECTIONS):
            mend = "say what is so, not what a model shall do; tell a quotation in your own words"
            yield Finding(Rule.INJECTION, f"the {name} has a sentence that gives orders to a model", mend)
        if found := _RELATIVE.search(text):
            yield Finding(Rule.RELATIVE_DATE, f"the {name} says `{found[0]}`", "write the date: 2026-01-31")
    yield from _lengths(record)


def check_secrets(name: str, text: str) -> Iterator[Finding]:
    """What it is, never what it says."""
    kinds = Counter(_REDACTED.findall(redact(text))) - Counter(_REDACTED.findall(text))
    if kinds:
        named = ", ".join(sorted(kind.replace("_", " ") for kind in kinds))
        mend = "take it out, and change it if it was ever committed; if it is none, say it in other words"
        yield Finding(Rule.SECRET, f"the {name} has what looks like a secret ({named})", mend)


def _lengths(record: Record) -> Iterator[Finding]:
    limits = (
        (Rule.TITLE_LONG, "title", record.title, MAX_TITLE_CHARS),
        (Rule.TITLE_LONG, "description", record.description, MAX_DESCRIPTION_CHARS),
        (Rule.BODY_LONG, "text", record.body, MAX_BODY_CHARS),
    )
    for rule, name, text, most in limits:
        if len(text) > most:
            yield Finding(rule, f"the {name} has {len(text):,} characters, {len(text) - most:,} too many", f"keep it to {most:,}")


def _hidden(name: str, text: str, *, one_line: bool) -> Iterator[Finding]:
    found = {sign for sign in set(text) if _is_hidden(sign) or (one_line and sign in "\n\t")}
    if found:
        named = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(found)[:5])
        yield Finding(Rule.INVISIBLE, f"the {name} has characters that cannot be seen: {named}", "remove them, or type the passage anew")


def _is_hidden(sign: str) -> bool:
    if sign in "\n\t" or sign in _JOINERS:
        return False
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") or sign in _FILLERS
