"""When the embedded model looks into the memory, and what it takes from there.

Pure. Must stay true: it asks once a message, and only where the message asks something that no line of its thread fits; what it takes is
one record's own words, never those of a record that was replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bot.local.model_context import CONTINUED, Context
from bot.local.model_ranking import best
from bot.local.model_rules import Recalled, quotable, shorten
from bot.local.model_steps import ToolCall
from bot.local.model_turns import TOOLS, Turn, answered, offers
from memory.reading_schemas import MAX_QUERY_CHARS

QUERY = f"{TOOLS}memory_query"
_ASKS = re.compile(r"[?？](?=[\s」』）)\"'”]|$)|か(?:。|$)", re.MULTILINE)


def asks(text: str) -> bool:
    return _ASKS.search(text) is not None


def query(body: Mapping[str, Any], conversation: Sequence[Turn], context: Context) -> ToolCall | None:
    """None: there is nothing to be looked up, or it was looked up already."""
    asked = context.asked
    if asked is None or not offers(body, QUERY) or not _is_fresh(conversation[-1]):
        return None
    if not asks(asked.line.text) or _is_answered(context, asked.line.text):
        return None
    return ToolCall(QUERY, {"query": shorten(" ".join(asked.line.text.split()), limit=MAX_QUERY_CHARS)})


def recalled(conversation: Sequence[Turn], question: str) -> Recalled | None:
    """From the answer that has just come: the best record that fits the question."""
    call, answer = next(iter(answered(conversation[-2:])), (None, {}))
    if call is None or call.name != QUERY:
        return None
    found = [each for each in answer.get("results", ()) if each.get("status") != "replaced" and each.get("excerpt")]
    fitting = best(question, [f"{each.get('title')} {each['excerpt']}" for each in reversed(found)], limit=1)
    if not fitting:
        return None
    one = list(reversed(found))[fitting[0]]
    return Recalled(f"{one['kind']}/{one['slug']}", str(one["excerpt"]), by_person=one.get("trust") in ("user", "assistant"))


def _is_fresh(newest: Turn) -> bool:
    """The question itself: nothing came after it, and no summary has taken its place."""
    return newest.role == "user" and bool(newest.texts) and not newest.texts[-1].startswith(CONTINUED)


def _is_answered(context: Context, question: str) -> bool:
    """By a line of the thread; one that asks too answers nothing."""
    return bool(best(question, [line.text for line in quotable(context.earlier()) if not asks(line.text)]))
