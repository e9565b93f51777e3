"""Whose word a candidate rests on and who may be shown it, from the entries that it cites. Pure.

What must stay true: a candidate is trusted as little as its least trusted entry, and shown no further than its most private
one; what comes from two private places belongs to neither, and is refused. What a person only quotes is not their word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from memory.records import Scope, Trust
from memory.redact import redact, visible
from memory.session_entries import LogEntry

# (channel id, id of the person it is a direct message with or "") -> where it may be told again.
ScopeOf = Callable[[str, str], Scope]

TRUST_ORDER = (Trust.USER, Trust.ASSISTANT, Trust.TOOL, Trust.EXTERNAL)
_QUOTE = re.compile(r"\s{0,8}(?:>|&gt;|＞)")
_OF_KIND = {"assistant": ("own", Trust.ASSISTANT), "user": ("person", Trust.USER)}


def by_channel_id(channel: str, person: str) -> Scope:
    """All that an id tells: a direct message is its person's, every channel may be a private one. Raises ValueError."""
    return Scope.user(person) if channel.startswith("D") and person else Scope.channel(channel)


def trust_of(entry: LogEntry) -> Trust:
    if entry.kind in ("tool_call", "tool_result"):
        return Trust.TOOL
    said, trust = _OF_KIND.get(entry.kind, ("", Trust.EXTERNAL))
    return trust if entry.trust == said else Trust.EXTERNAL


def least_trust(cited: Sequence[LogEntry]) -> Trust:
    return max((trust_of(entry) for entry in cited), key=TRUST_ORDER.index)


def own_and_quoted(text: str) -> tuple[str, str]:
    """The lines of the speaker, and those that they quote: behind `>`, or in a code block (one left open goes to the end)."""
    own, quoted, in_code = list[str](), list[str](), False
    for line in text.splitlines():
        fences = line.count("```")
        is_quoted = in_code or fences > 0 or _QUOTE.match(line) is not None
        (quoted if is_quoted else own).append(line)
        in_code ^= fences % 2 == 1
    return "\n".join(own), "\n".join(quoted)


def only_quoted(claim: str, cited: Sequence[LogEntry]) -> bool:
    """Nobody says it in their own lines: it stands in what they quote, or there is nothing but quotes."""
    split = [own_and_quoted(redact(visible(entry.text))) for entry in cited]
    own, quoted = ("".join(_letters(part) + "\n" for part in parts) for parts in zip(*split, strict=True))
    sought = _letters(claim)
    return sought not in own and (sought in quoted or not own.strip())


def _letters(text: str) -> str:
    """Without what a quote adds to it: signs, spaces, case."""
    return "".join(sign for sign in unicodedata.normalize("NFKC", text).casefold() if sign.isalnum())


def persons(said: Sequence[LogEntry]) -> Mapping[str, str]:
    """Who is spoken with in each direct message."""
    return {entry.channel: entry.speaker for entry in said if entry.kind == "user" and entry.channel.startswith("D")}


def narrowest(cited: Sequence[LogEntry], scope_of: ScopeOf, with_whom: Mapping[str, str]) -> Scope | None:
    """None: of two private places, or of none that is known."""
    try:
        scopes = {scope_of(entry.channel, with_whom.get(entry.channel, "")) for entry in cited}
    except ValueError:
        return None
    private = scopes - {Scope.workspace()}
    return None if len(private) > 1 else next(iter(private or scopes))
