"""The conversation of one Messages request as turns of text, without what the CLI itself puts into it.

Pure. Must stay true: a reminder or a local command that the CLI adds to a user message is never taken for something that a person wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COMPACTION = "CRITICAL: Respond with TEXT ONLY"  # so the CLI's request for a summary starts
CLI_MADE = ("<system-reminder>", "<local-command", "<command-name>", "[Request interrupted by user")


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of `messages`: its texts (the CLI's own left out), the texts of its tool results, and whether it calls a tool."""

    role: str
    texts: tuple[str, ...]
    results: tuple[str, ...] = ()
    calls_tool: bool = False


def turns(body: Mapping[str, Any]) -> list[Turn]:
    return [_turn(entry) for entry in _objects(body.get("messages")) if entry.get("role") in {"user", "assistant"}]


def newest_user_text(conversation: Sequence[Turn]) -> str:
    """The last text block alone: after a failed turn, one user message holds two prompts."""
    return next((turn.texts[-1] for turn in reversed(conversation) if turn.role == "user" and turn.texts), "")


def is_compaction(conversation: Sequence[Turn]) -> bool:
    return newest_user_text(conversation).lstrip().startswith(COMPACTION)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _turn(entry: Mapping[str, Any]) -> Turn:
    content = entry.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
    texts = tuple(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    results = tuple(text for block in blocks if block.get("type") == "tool_result" for text in _result_texts(block.get("content")))
    calls = bool(blocks) and blocks[-1].get("type") == "tool_use"
    return Turn(str(entry["role"]), tuple(text for text in texts if not text.lstrip().startswith(CLI_MADE)), results, calls)


def _result_texts(content: object) -> list[str]:
    return [content] if isinstance(content, str) else [str(block.get("text", "")) for block in _objects(content)]
