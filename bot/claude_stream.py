"""The CLI's output lines as stream events: the wire format of one resident process, read and nothing else.

`Stream.feed` takes one parsed line and gives what happened, in order. Unknown lines give nothing: the CLI adds kinds of
lines from version to version. Measured on 2.1.332; the fixtures under tests/bot/claude_lines are what it printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bot.limit_banner import is_banner, resets_at
from bot.ports import (
    Answer,
    ApiRetry,
    CallEnded,
    CallStarted,
    Cleared,
    Compacted,
    Compacting,
    CompactionGaveUp,
    LimitTold,
    StreamEvent,
    ToolEnded,
    ToolStarted,
    Trimmed,
    Usage,
)
from telemetry.events import FailReason

SYNTHETIC = "<synthetic>"  # the model name under which the CLI words API errors itself
INTERRUPTED = "[Request interrupted by user"  # a text of the CLI's own, before it closes what it streamed
Line = Mapping[str, Any]


@dataclass(slots=True)
class _Call:
    id: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = ""
    first_token_at: float | None = None
    whole: bool = False


class Stream:
    """The state that spans lines: the model call under way, and the error that the CLI named last.

    Of a compaction the CLI tells when it begins and how it ends, and nothing of the model call that it takes: no usage of
    it can be taken for the turn's. It announces the turn's own call before it compacts, and makes it afterwards; so that
    call is announced again here. Nor does it announce a retry.
    """

    def __init__(self) -> None:
        self._call: _Call | None = None
        self._streamed: str = ""
        self._error = ""
        self._said_by = ""  # the model that the newest text is of; the CLI words its own under a name that no model has
        self._limit_ends: float | None = None
        self._at = 0.0
        self._announced = self._again = False  # a call that is not answered; one that a compaction held up
        self._retry_at: float | None = None

    def feed(self, line: Line, at: float) -> list[StreamEvent]:
        self._at = at
        if line.get("parent_tool_use_id"):
            return []  # a sub-agent's own context says nothing of this one
        match line.get("type"):
            case "system":
                return self._system(line, at)
            case "stream_event":
                return self._streaming(_object(line.get("event")), at)
            case "assistant":
                return self._assistant(line, at)
            case "user":
                return self._user(line, at)
            case "conversation_reset":
                return [Cleared(at)]
            case "rate_limit_event":
                return self._limit(_object(line.get("rate_limit_info")), at)
            case _:
                return []

    def _system(self, line: Line, at: float) -> list[StreamEvent]:
        match line.get("subtype"):
            case "status" if line.get("status") == "requesting":
                return self._requesting(at)
            case "status" if line.get("status") == "compacting":
                return [Compacting(at)]
            case "status" if line.get("compact_result") == "failed":
                return [CompactionGaveUp(at), *self._held_up(at)]
            case "compact_boundary":
                return [compacted(line, at), *self._held_up(at)]
            case "microcompact_boundary":
                return [Trimmed(at)]
            case "api_retry":
                self._announced, self._retry_at = False, at + (_number(line.get("retry_delay_ms")) or 0.0) / 1000
                return [ApiRetry(at, _whole(line.get("attempt")) or 0, _word(line.get("error")))]
            case _:
                return []

    def _limit(self, told: Line, at: float) -> list[StreamEvent]:
        """Of an account that is beyond its limit the turn's end tells; it may be served all the same, and billed apart."""
        match told.get("status"):
            case "rejected" if not told.get("isUsingOverage"):
                self._limit_ends = _number(told.get("resetsAt"))
            case "allowed" | "allowed_warning" as status:
                return [LimitTold(at, near=status == "allowed_warning")]
        return []

    # -- model calls ---------------------------------------------------------------------------------------------------
    def _requesting(self, at: float) -> list[StreamEvent]:
        told, self._announced, self._again = self._again, True, False
        return [] if told else [CallStarted(at)]

    def _held_up(self, at: float) -> list[StreamEvent]:
        self._again = self._announced
        return [CallStarted(at)] if self._announced else []

    def _streaming(self, event: Line, at: float) -> list[StreamEvent]:
        match event.get("type"):
            case "message_start":
                return self._begun(_object(event.get("message")), at)
            case "content_block_delta" if self._call and self._call.first_token_at is None:
                self._call.first_token_at = at
            case "message_delta" if self._call:
                self._call.usage = _merge(self._call.usage, usage_of(event.get("usage")))
                self._call.stop_reason = str(_object(event.get("delta")).get("stop_reason") or "")
                self._call.whole = True
            case "message_stop" if self._call:
                call, self._call = self._call, None
                if call.whole:  # else it broke off: the CLI closes what it opened, and asks again or gives up
                    return [self._ended(at, call)]
        return []

    def _begun(self, message: Line, at: float) -> list[StreamEvent]:
        unannounced, self._again = not self._announced, False
        self._announced = True
        self._call = _Call(str(message.get("id") or ""), str(message.get("model") or ""), usage_of(message.get("usage")))
        self._streamed = self._call.id
        return [CallStarted(min(at, self._retry_at or at))] if unannounced else []

    def _ended(self, at: float, call: _Call) -> CallEnded:
        self._announced, self._retry_at = False, None
        return CallEnded(at, call.id, call.model, call.usage, call.stop_reason, call.first_token_at)

    def _assistant(self, line: Line, at: float) -> list[StreamEvent]:
        message, found = _object(line.get("message")), list[StreamEvent]()
        if line.get("error"):
            self._error = _word(line["error"])
        id, model = str(message.get("id") or ""), str(message.get("model") or "")
        self._said_by = model
        if model != SYNTHETIC and id != self._streamed:
            self._streamed = id  # not streamed: the CLI fell back to a plain request
            found.append(self._ended(at, _Call(id, model, usage_of(message.get("usage")), str(message.get("stop_reason") or ""))))
        tools = [b for b in _blocks(message) if b.get("type") == "tool_use"]
        return found + [ToolStarted(at, str(b.get("id") or ""), str(b.get("name") or "")) for b in tools]

    def _user(self, line: Line, at: float) -> list[StreamEvent]:
        blocks = _blocks(_object(line.get("message")))
        if any(str(b.get("text")).startswith(INTERRUPTED) for b in blocks):
            self._call = None  # what is closed next did not end by itself
        results = [b for b in blocks if b.get("type") == "tool_result"]
        return [ToolEnded(at, str(b.get("tool_use_id") or ""), bool(b.get("is_error"))) for b in results]

    # -- the end of a turn ---------------------------------------------------------------------------------------------
    def answer(self, result: Line) -> Answer:
        """What the turn's `result` line says. An API failure arrives as `subtype: success` with `is_error`, or as a text of the CLI's."""
        text = str(result.get("result") or "")
        failed = bool(result.get("is_error")) or result.get("subtype") != "success" or self._is_of_the_cli(text)
        error = self._classify(result) if failed else None
        limit_ends = (self._limit_ends or resets_at(text, now=self._at)) if error == "rate_limit" else None
        self._error, self._said_by, self._limit_ends = "", "", None
        used = _object(result.get("model_usage_since_last_result"))
        by_model = {str(model): _number(_object(usage).get("costUSD")) or 0.0 for model, usage in used.items()}
        return Answer(
            text=text,
            error=error,
            status=_whole(result.get("api_error_status")),
            resets_at=limit_ends,
            cost_usd=sum(by_model.values()),
            cost_by_model=by_model,
        )

    def _is_of_the_cli(self, text: str) -> bool:
        """A model may quote whatever it likes."""
        return bool(text) and (self._said_by == SYNTHETIC or (not self._said_by and is_banner(text)))

    def _classify(self, result: Line) -> str:
        reason, status = str(result.get("terminal_reason") or ""), result.get("api_error_status")
        if reason == "prompt_too_long" or str(result.get("result") or "").lower().startswith("prompt is too long"):
            return "prompt_too_long"
        of_the_cli = self._said_by in ("", SYNTHETIC)
        if status == 429 or self._error == "rate_limit" or (of_the_cli and is_banner(str(result.get("result") or ""))):
            return "rate_limit"
        if status in (401, 403) or self._error == "authentication_failed":
            return "authentication_failed"
        unnamed = not result.get("is_error") and result.get("subtype") == "success"  # it has no word for what it said itself
        return self._error or _word(None if unnamed else reason or result.get("subtype"))


def compacted(line: Line, at: float) -> Compacted:
    """A boundary line; its numbers stand under `compact_metadata` or, elsewhere, in camelCase, or nowhere."""
    told = {_snake(k): v for k, v in _object(line.get("compact_metadata") or line.get("compactMetadata")).items()}
    ms = _number(told.get("duration_ms"))
    return Compacted(
        at=at,
        trigger=str(told.get("trigger") or "auto"),
        pre_tokens=_whole(told.get("pre_tokens")),
        post_tokens=_whole(told.get("post_tokens")),
        duration_seconds=None if ms is None else ms / 1000,
    )


def usage_of(usage: object) -> Usage:
    u = _object(usage)
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


def _word(error: object) -> str:
    """Where the CLI only says that it does not know, what people and the rest of the trace are told."""
    return str(error) if error and error != "unknown" else FailReason.MODEL_ERROR.value


def _merge(start: Usage, end: Usage) -> Usage:
    """`message_delta` has the true output; it may leave the input out, which `message_start` told."""
    return replace(end if end.occupancy else start, output=max(start.output, end.output))


def _blocks(message: Line) -> list[Line]:
    content = message.get("content")
    return [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []


def _object(value: object) -> Line:
    return value if isinstance(value, Mapping) else {}


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
