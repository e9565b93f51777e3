"""The Messages API's form: answers as one JSON object or as server-sent events, errors, and the numbers of `usage`.

Pure. Must stay true: both forms of one answer carry the same content and the same usage.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.local.model_steps import ToolCall

Json = dict[str, Any]

UNCACHED = 4  # `input_tokens` of a caching API: what follows the last cache breakpoint
DELTA_CHARS = 60  # of a text in one event: several events for a usual answer, a handful for a long one
MODELS = ("claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer, split as a caching API does: what this request added was written, all before it was read."""

    prompt: int
    added: int
    output: int

    def as_json(self, *, output: int | None = None) -> Json:
        uncached = min(UNCACHED, self.prompt)
        written = min(self.added, self.prompt - uncached)
        return {
            "input_tokens": uncached,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": self.prompt - uncached - written,
            "output_tokens": self.output if output is None else output,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    id: str
    model: str
    text: str
    tool: ToolCall | None
    stop_reason: str
    usage: Usage

    def as_json(self) -> Json:
        return {**self._head(), "content": self._blocks(), "stop_reason": self.stop_reason, "usage": self.usage.as_json()}

    def opening(self) -> list[Json]:
        """What a stream begins with, whatever becomes of it."""
        head = {**self._head(), "content": [], "stop_reason": None, "usage": self.usage.as_json(output=1)}
        return [{"type": "message_start", "message": head}, {"type": "ping"}]

    def events(self) -> Iterator[Json]:
        """The rest of the stream."""
        for index, block in enumerate(self._blocks()):
            empty, deltas = _in_deltas(block)
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        end = {"stop_reason": self.stop_reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": self.usage.as_json()}
        yield {"type": "message_stop"}

    def _head(self) -> Json:
        return {"id": self.id, "type": "message", "role": "assistant", "model": self.model, "stop_sequence": None}

    def _blocks(self) -> list[Json]:
        blocks: list[Json] = [{"type": "text", "text": self.text}] if self.text else []
        if self.tool is not None:
            tool_id = f"toolu_{self.id.removeprefix('msg_')}"
            blocks.append({"type": "tool_use", "id": tool_id, "name": self.tool.name, "input": dict(self.tool.input)})
        return blocks


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


def sse(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def error(kind: str, message: str, *, request_id: str = "") -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id or new_id("req")}


def models() -> Json:
    listed = [{"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in MODELS]
    return {"data": listed, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


def tokens_of_text(text: str) -> int:
    """An honest estimate: four ASCII characters to a token, one token to any other character (Japanese)."""
    ascii_characters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return ascii_characters // 4 + len(text) - ascii_characters


def tokens_of_body(body: Mapping[str, Any]) -> tuple[int, int]:
    """Of the whole prompt, and of that part which its newest message added."""
    entries = body.get("messages")
    newest = _tokens(entries[-1]) if isinstance(entries, list) and entries else 0
    return max(1, sum(_tokens(body.get(part)) for part in ("system", "tools", "messages"))), newest


def _tokens(value: object) -> int:
    return 0 if value is None else tokens_of_text(json.dumps(value, ensure_ascii=False))


def _in_deltas(block: Json) -> tuple[Json, Sequence[Json]]:
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    text: str = block["text"]
    size = max(DELTA_CHARS, len(text) // 20)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
