"""The conversation of one Messages request as turns of text, without what the CLI itself puts into it.

Pure. Must stay true: a reminder or a local command that the CLI adds to a user message is never taken for something that a person wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bot.local.model_steps import ToolCall

COMPACTION = "CRITICAL: Respond with TEXT ONLY"  # so the CLI's request for a summary starts
TOOLS = "mcp__insomnia__"  # so the names of the bot's own tools begin
CLI_MADE = ("<system-reminder>", "<local-command", "<command-name>", "[Request interrupted by user")


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of `messages`: its texts (the CLI's own left out), the text of each tool result, and the tools that it calls."""

    role: str
    texts: tuple[str, ...]
    results: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()

    @property
    def calls_tool(self) -> bool:
        return bool(self.calls)

    @property
    def says(self) -> bool:
        """Whether there is anything in it that the CLI did not put there."""
        return bool(self.texts or self.results or self.calls)


def turns(body: Mapping[str, Any]) -> list[Turn]:
    return [_turn(entry) for entry in _objects(body.get("messages")) if entry.get("role") in {"user", "assistant"}]


def newest_user_text(conversation: Sequence[Turn]) -> str:
    """The last text block alone: after a failed turn, one user message holds two prompts."""
    return next((turn.texts[-1] for turn in reversed(conversation) if turn.role == "user" and turn.texts), "")


def is_compaction(conversation: Sequence[Turn]) -> bool:
    return newest_user_text(conversation).lstrip().startswith(COMPACTION)


def offers(body: Mapping[str, Any], tool: str) -> bool:
    return any(each.get("name") == tool for each in _objects(body.get("tools")))


def answered(conversation: Sequence[Turn]) -> Iterator[tuple[ToolCall, Mapping[str, Any]]]:
    """Every tool call with its result as an object; {} where it is none. `conversation`: turns that say something."""
    for turn, after in pairwise(conversation):
        for call, result in zip(turn.calls, after.results, strict=False):
            yield call, object_of(result)


def object_of(text: str) -> Mapping[str, Any]:
    """{} where the text is no JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _turn(entry: Mapping[str, Any]) -> Turn:
    content = entry.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
    texts = tuple(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    results = tuple(_result_text(block.get("content")) for block in blocks if block.get("type") == "tool_result")
    calls = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
    return Turn(str(entry["role"]), tuple(text for text in texts if not text.lstrip().startswith(CLI_MADE)), results, calls)


def _call(block: Mapping[str, Any]) -> ToolCall:
    given = block.get("input")
    return ToolCall(str(block.get("name", "")), given if isinstance(given, Mapping) else {})


def _result_text(content: object) -> str:
    return content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in _objects(content))
