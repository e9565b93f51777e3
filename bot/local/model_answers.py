"""What the embedded model answers where no script says otherwise, by who asks: a session, a memory worker, a compaction.

Pure, and no language model: `model_rules` quotes what stands in the request, so a thread that the session holds shows, and one that it
forgot shows too; `model_recall` asks the memory; `model_memory` and `model_consolidation` do the memory workers' work.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.local import model_consolidation, model_memory, model_recall, model_rules
from bot.local.model_context import read
from bot.local.model_record import ModelRequest
from bot.local.model_steps import ToolCall
from bot.local.model_turns import Turn, answered, turns


def by_rules(asked: ModelRequest, *, looks_up: bool = True) -> tuple[str, ToolCall | None]:
    """A text, or a tool call. `looks_up`: the memory may be asked before a session is answered."""
    conversation = [turn for turn in turns(asked.body) if turn.says]
    if asked.is_memory and not asked.is_compaction:
        return _as_worker(asked, conversation)
    context = read(conversation)
    if asked.is_compaction:
        return model_rules.summary(context), None
    if looks_up and (query := model_recall.query(asked.body, conversation, context)):
        return "", query
    question = context.asked.line.text if context.asked else ""
    return model_rules.answer(context, model_recall.recalled(conversation, question)), None


def _as_worker(asked: ModelRequest, conversation: Sequence[Turn]) -> tuple[str, ToolCall | None]:
    if asked.is_consolidation:
        call = model_consolidation.next_call(asked.newest_user_text, answered(conversation))
        return ("", call) if call else (model_consolidation.DONE, None)
    handed_in = any(turn.calls_tool for turn in conversation)
    return (model_memory.DONE, None) if handed_in else ("", model_memory.propose(asked.newest_user_text))
