"""Entries of a session log as JSON rows for a model, and what they weigh. Pure.

What must stay true: a row holds no secret and no body of a tool's result; its text cannot end the row. Tokens are counted
on the safe side: UTF-8 bytes of the row / 3, which is about right for Japanese and a third too many for English.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from memory.redact import redact, visible
from memory.session_entries import LogEntry

BYTES_PER_TOKEN = 3
MAX_CONTEXT_CHARS, MAX_CALL_CHARS = 500, 300
# What could look like the end of a line or of the marks around the rows, or is not seen at all.
_ESCAPED = re.compile("[<\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
CUT = " … [cut: the rest of this entry was too long]"


@lru_cache(maxsize=4096)
def clean_text(text: str) -> str:
    """Without secrets, and without signs that nobody sees."""
    return redact(visible(text))


def row(entry: LogEntry, *, tokens: int, evidence: bool = True) -> str:
    """One line of JSON, cut where it would take more than `tokens`."""
    said = _said(entry) if evidence else _cut(_said(entry), MAX_CONTEXT_CHARS)
    line = _line(entry, said, evidence=evidence)
    while estimate(line) > tokens and len(said) > len(CUT) + 16:
        said = _cut(said, max(1, len(said) * tokens // (estimate(line) + 1) - len(CUT) - 8))
        line = _line(entry, said, evidence=evidence)
    return line


def row_tokens(entry: LogEntry) -> int:
    """0 for what is left out."""
    return estimate(_line(entry, _said(entry), evidence=True)) if entry.readable else 0


def estimate(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _line(entry: LogEntry, said: str, *, evidence: bool) -> str:
    who = {"by": clean_text(entry.speaker_name)} if entry.speaker_name else {}
    trust = {"trust": entry.trust} if entry.trust else {}
    number = {"n": entry.seq} if evidence and entry.citable else {"not_evidence": True}
    fields = {**number, "at": entry.ts[:16], "kind": entry.kind, **who, **trust, "text": said}
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(fields, ensure_ascii=False))


def _said(entry: LogEntry) -> str:
    if entry.kind == "tool_result":
        return f"[result of a tool, {len(entry.text)} characters, left out]"
    said = clean_text(entry.text)
    return _cut(said, MAX_CALL_CHARS) if entry.kind == "tool_call" else said


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text.removesuffix(CUT)[:chars] + CUT
