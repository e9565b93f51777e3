"""The CLI's output lines as stream events: the wire format of one resident process, read and nothing else.

`Stream.feed` takes one parsed line and gives what happened, in order. Unknown lines give nothing: the CLI adds kinds of
lines from version to version. Measured on 2.1.332; the fixtures under tests/bot/claude_lines are what it printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bot.ports import (
    Answer,
    ApiRetry,
    CallEnded,
    CallStarted,
    Cleared,
    Compacted,
    Compacting,
    CompactionGaveUp,
    StreamEvent,
    ToolEnded,
    ToolStarted,
    Usage,
)

SYNTHETIC = "<synthetic>"  # the model name under which the CLI words API errors itself
Line = Mapping[str, Any]


@dataclass(slots=True)
class _Call:
    id: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = ""
    first_token_at: float | None = None


class Stream:
    """The state that spans lines: the model call under way, and the error that the CLI named last."""

    def __init__(self) -> None:
        self._call: _Call | None = None
        self._streamed: str = ""
        self._error = ""

    def feed(self, line: Line, at: float) -> list[StreamEvent]:
        if line.get("parent_tool_use_id"):
            return []  # a sub-agent's own context says nothing of this one
        match line.get("type"):
            case "system":
                return self._system(line, at)
            case "stream_event":
                return self._streaming(line.get("event") or {}, at)
            case "assistant":
                return self._assistant(line, at)
            case "user":
                return _tool_results(line, at)
            case "conversation_reset":
                return [Cleared(at)]
            case _:
                return []

    def _system(self, line: Line, at: float) -> list[StreamEvent]:
        match line.get("subtype"):
            case "status" if line.get("status") == "requesting":
                return [CallStarted(at)]
            case "status" if line.get("status") == "compacting":
                return [Compacting(at)]
            case "status" if line.get("compact_result") == "failed":
                return [CompactionGaveUp(at)]
            case "compact_boundary":
                return [compacted(line, at)]
            case "api_retry":
                return [ApiRetry(at, int(line.get("attempt") or 0), str(line.get("error") or "unknown"))]
            case _:
                return []

    def _streaming(self, event: Line, at: float) -> list[StreamEvent]:
        match event.get("type"):
            case "message_start":
                message = event.get("message") or {}
                self._call = _Call(str(message.get("id") or ""), str(message.get("model") or ""), usage_of(message.get("usage")))
                self._streamed = self._call.id
            case "content_block_delta" if self._call and self._call.first_token_at is None:
                self._call.first_token_at = at
            case "message_delta" if self._call:
                told = usage_of(event.get("usage"))
                self._call.usage = _merge(self._call.usage, told)
                self._call.stop_reason = str((event.get("delta") or {}).get("stop_reason") or "")
            case "message_stop" if self._call:
                call, self._call = self._call, None
                return [CallEnded(at, call.id, call.model, call.usage, call.stop_reason, call.first_token_at)]
        return []

    def _assistant(self, line: Line, at: float) -> list[StreamEvent]:
        message = line.get("message") or {}
        if line.get("error"):
            self._error = str(line["error"])
        found: list[StreamEvent] = []
        if message.get("model") != SYNTHETIC and message.get("id") != self._streamed:
            self._streamed = str(message.get("id") or "")  # not streamed: the CLI fell back to a plain request
            found.append(
                CallEnded(
                    at,
                    self._streamed,
                    str(message.get("model") or ""),
                    usage_of(message.get("usage")),
                    str(message.get("stop_reason") or ""),
                    None,
                )
            )
        return found + [ToolStarted(at, str(b["id"]), str(b["name"])) for b in _blocks(message) if b.get("type") == "tool_use"]

    def answer(self, result: Line) -> Answer:
        """What the turn's `result` line says. An API failure arrives as `subtype: success` with `is_error`."""
        failed = bool(result.get("is_error")) or result.get("subtype") != "success"
        error = self._classify(result) if failed else None
        self._error = ""
        by_model = {str(m): float(u.get("costUSD") or 0) for m, u in (result.get("model_usage_since_last_result") or {}).items()}
        status = result.get("api_error_status")
        return Answer(
            text=str(result.get("result") or ""),
            error=error,
            status=int(status) if isinstance(status, int) else None,
            cost_usd=sum(by_model.values()),
            cost_by_model=by_model,
        )

    def _classify(self, result: Line) -> str:
        reason, status = str(result.get("terminal_reason") or ""), result.get("api_error_status")
        if reason == "prompt_too_long" or str(result.get("result") or "").lower().startswith("prompt is too long"):
            return "prompt_too_long"
        if status == 429 or self._error == "rate_limit":
            return "rate_limit"
        if status in (401, 403) or self._error == "authentication_failed":
            return "authentication_failed"
        return self._error or reason or str(result.get("subtype") or "unknown")


def compacted(line: Line, at: float) -> Compacted:
    """A boundary line; its numbers stand under `compact_metadata` or, elsewhere, in camelCase, or nowhere."""
    meta = line.get("compact_metadata") or line.get("compactMetadata") or {}
    told = {_snake(k): v for k, v in meta.items()}
    ms = told.get("duration_ms")
    return Compacted(
        at=at,
        trigger=str(told.get("trigger") or "auto"),
        pre_tokens=_whole(told.get("pre_tokens")),
        post_tokens=_whole(told.get("post_tokens")),
        duration_seconds=ms / 1000 if isinstance(ms, int | float) else None,
    )


def usage_of(usage: object) -> Usage:
    u = usage if isinstance(usage, Mapping) else {}
    return Usage(
        input=_whole(u.get("input_tokens")) or 0,
        output=_whole(u.get("output_tokens")) or 0,
        cache_read=_whole(u.get("cache_read_input_tokens")) or 0,
        cache_write=_whole(u.get("cache_creation_input_tokens")) or 0,
    )


def uuids_of(result: Line) -> list[str]:
    """Which of our messages a result answers; some local commands and errors name none."""
    many, one = result.get("user_message_uuids"), result.get("user_message_uuid")
    return [str(u) for u in many] if isinstance(many, list) else [str(one)] if one else []


def _merge(start: Usage, end: Usage) -> Usage:
    """`message_delta` has the true output; it may leave the input out, which `message_start` told."""
    return replace(end if end.occupancy else start, output=max(start.output, end.output))


def _tool_results(line: Line, at: float) -> list[StreamEvent]:
    message = line.get("message") or {}
    return [
        ToolEnded(at, str(b.get("tool_use_id") or ""), bool(b.get("is_error"))) for b in _blocks(message) if b.get("type") == "tool_result"
    ]


def _blocks(message: Line) -> list[Line]:
    content = message.get("content")
    return [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
