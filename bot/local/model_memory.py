"""The embedded model at work for extract: it proposes candidates by plain rules, from lines that say so themselves.

Pure. Must stay true: a claim is a sentence of a person as it stands in a row, with that row's number as its evidence;
nothing is proposed from what an assistant or a tool said, nor from what a person only quotes, and a question that only asks
is no candidate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bot.local.model_ranking import is_japanese
from bot.local.model_steps import ToolCall
from bot.local.model_turns import TOOLS, object_of
from memory.provenance import own_and_quoted

STAGE = f"{TOOLS}stage_candidates"
MAX_CANDIDATES = 12  # as many as the tool takes
CLAIM_CHARS = 600
LEAST_CHARS = 8  # "Yes, agreed." says nothing to whoever reads it alone
CONFIDENCE = 0.9
DONE = "Handed in. (embedded model: no language model, I go by plain rules)"

# The first rule that fits a sentence names its kind.
RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            "question",
            r"\bopen question\b|\b(?:still|yet) (?:unclear|open|undecided)\b|\bto be decided\b|未定|未決|決まっていません|まだ決まって",
        ),
        ("decision", r"\bdeci(?:ded|sion)\b|\bagreed (?:to|on|that)\b|\bsettled on\b|\blet's go with\b|\bwe(?: wi|')ll go with\b"),
        ("decision", r"決め(?:た|ました|よう)|決定|に決ま(?:った|りました)|ことにし(?:た|ました|ます)|で合意"),
        (
            "lesson",
            r"\blesson\b|\b(?:we|i) learned\b|\bturn(?:s|ed) out\b|\bnext time\b|\broot cause\b|教訓|学びました|次回(?:から|は)|原因は",
        ),
        (
            "preference",
            r"\bprefer(?:s|red)?\b|\bwould rather\b|\b(?:i|we) (?:like|dislike)\b|が好き|の?(?:方|ほう)が(?:いい|良い|好)|好みは|苦手",
        ),
        ("request", r"^(?:could|can|would) you\b|\bplease\b|\bremind (?:me|us)\b|ください|下さい|お願い(?:し|いた)|てほしい|て欲しい"),
        ("constraint", r"\bmust(?: not|n't)?\b|\bnever\b|\bnot allowed\b|\bno later than\b|\bdeadline\b|\bat most\b|\bat least\b"),
        ("constraint", r"てはいけ(?:ない|ません)|禁止|必須|なければな(?:らない|りません)|までに|厳守|必ず|上限|締め?切り"),
        ("knowledge", r"\bstands for\b|\bis short for\b|\bis defined as\b|\bwe call\b|\bthe (?:policy|rule) is\b"),
        ("knowledge", r"の略|という意味|と呼(?:ぶ|びます)|方針は"),
    )
)
_SENTENCE = re.compile(r"[^。！？!?\n]+?(?:[。！？!?]+|\.(?=\s|$)|\n|$)", re.DOTALL)
_MENTION = re.compile(r"<@[A-Z0-9]+>|^@\S+\s+")
_ASKS = re.compile(r"[?？]\s*$|か[。？]?\s*$")
WHY = {
    False: "It was said outright, and whoever comes back to the matter needs it.",
    True: "本人がはっきり述べており、後でこの件に戻る人に必要です。",
}

Json = Mapping[str, Any]


def propose(prompt: str) -> ToolCall:
    """All candidates of the prompt's rows in one call; an empty list where no line says anything of the kind."""
    found: dict[str, Json] = {}
    for number, text in _rows(prompt):
        for sentence in _sentences(own_and_quoted(text)[0]):
            kind = kind_of(sentence)
            if kind is not None:
                found.setdefault(sentence, _candidate(kind, sentence, number))
    return ToolCall(STAGE, {"candidates": list(found.values())[:MAX_CANDIDATES]})


def kind_of(sentence: str) -> str | None:
    if len(sentence) < (LEAST_CHARS // 2 if is_japanese(sentence) else LEAST_CHARS):
        return None
    kind = next((kind for kind, pattern in RULES if pattern.search(sentence)), None)
    return None if kind not in ("request", "question") and _ASKS.search(sentence) else kind


def _rows(prompt: str) -> Iterator[tuple[int, str]]:
    """Number and text of each entry that a person said and that may be cited: one JSON object a line."""
    for line in prompt.split("\n"):
        row = object_of(line)
        if row.get("kind") == "user" and isinstance(row.get("n"), int):
            yield row["n"], str(row.get("text", ""))


def _candidate(kind: str, sentence: str, number: int) -> Json:
    why = WHY[is_japanese(sentence)]
    return {"kind": kind, "claim": sentence[:CLAIM_CHARS], "why_useful": why, "evidence": [number], "confidence": CONFIDENCE}


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        sentence = " ".join(_MENTION.sub("", match[0]).split())
        if sentence:
            yield sentence
