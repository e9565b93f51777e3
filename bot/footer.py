"""The optional line under an answer: what of the thread was read again for it, and the short trace id. Pure.

What must stay true: the line is for people. Where the bot's own answers are read back, it is taken away again, or the model
would take it for a way to end an answer.
"""

from __future__ import annotations

import re

from bot.words import SENTENCES, Language, Sentence, say

SHORT_ID = 8
_BEGINNINGS = (Sentence.FOOTER_HELD, Sentence.FOOTER_READ, Sentence.FOOTER_ADDED)
_WORDS = "|".join(re.escape(words.partition("{")[0]) for sentence in _BEGINNINGS for words in SENTENCES[sentence])
_TRACE = "|".join(re.escape(words.partition("{")[0]) for words in SENTENCES[Sentence.TRACE])
_LINE = re.compile(rf"(?:\A|\n)\s*_?(?:{_WORDS})[^\n]*(?:{_TRACE})[0-9a-f]{{{SHORT_ID}}}_?\s*\Z")


def footer_line(language: Language, *, read: int, added: int, omitted: int, trace_id: str) -> str:
    """`read`: messages of the thread that were read again and went into the prompt; `added`: what others had said since."""
    if read:
        parts = [say(Sentence.FOOTER_READ, language, messages=read)]
    elif added:
        parts = [say(Sentence.FOOTER_ADDED, language, messages=added)]
    else:
        parts = [say(Sentence.FOOTER_HELD, language)]
    if omitted:
        parts.append(say(Sentence.FOOTER_OMITTED, language, omitted=omitted))
    return f"_{' · '.join([*parts, say(Sentence.TRACE, language, trace=trace_id[:SHORT_ID])])}_"


def without_footer(text: str) -> str:
    return _LINE.sub("", text)
