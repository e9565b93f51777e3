"""One turn's stream as spans: `chat` for each model call, `execute_tool` for each tool, under the turn's `invoke_agent`.

A resident process reads TRACEPARENT once, so its own spans cannot join a reply's trace; all timings are in the stream.
"""

from __future__ import annotations

from collections.abc import Container

from bot.claude_mcp import PREFIX
from bot.ports import ApiRetry, CallEnded, CallStarted, StreamEvent, ToolEnded, ToolStarted, Usage
from telemetry.emit import AttrValue, Emit, Span
from telemetry.events import ModelCalled
from telemetry.names import Attr, SpanName

PROVIDER = "anthropic"


class TurnSpans:
    """Begun inside the `invoke_agent` span; `finish` closes what the stream left open, however the turn ended.

    `self_told`: names of tools that open their span themselves.
    """

    def __init__(self, emit: Emit, *, route: str, model: str, self_told: Container[str] = ()) -> None:
        self._emit, self._route, self._model, self._self_told = emit, route, model, self_told
        self._chat: Span | None = None
        self._chat_began = 0.0
        self._tools: dict[str, Span] = {}
        self.usage = Usage()
        self.first_token_at: float | None = None

    def on_event(self, event: StreamEvent) -> None:
        match event:
            case CallStarted():
                self._start(event.at)
            case CallEnded():
                self._end(event)
            case ApiRetry():
                self._retried(event)
            case ToolStarted() if event.name not in self._self_told:
                name = event.name.removeprefix(PREFIX)
                attributes: dict[Attr, AttrValue] = {Attr.GEN_AI_OPERATION: "execute_tool", Attr.GEN_AI_TOOL_CALL_ID: event.id}
                self._tools[event.id] = self._emit.begin(SpanName.EXECUTE_TOOL, attributes | {Attr.GEN_AI_TOOL_NAME: name}, label=name)
            case ToolEnded():
                self._tool_ended(event)
            case _:
                pass

    def _start(self, at: float) -> None:
        if self._chat is not None:  # announced before a compaction, and made only now
            self._chat_began = at
            return
        attributes: dict[Attr, AttrValue] = {
            Attr.GEN_AI_OPERATION: "chat",
            Attr.GEN_AI_PROVIDER: PROVIDER,
            Attr.GEN_AI_REQUEST_MODEL: self._model,
        }
        self._chat, self._chat_began = self._emit.begin(SpanName.CHAT, attributes, label=self._model), at

    def _end(self, call: CallEnded) -> None:
        if self._chat is None:  # a call whose request the stream did not announce
            self._start(call.at)
        chat, self._chat = self._chat, None
        assert chat is not None
        u = call.usage
        attributes: dict[Attr, AttrValue] = {
            Attr.GEN_AI_RESPONSE_MODEL: call.model,
            Attr.GEN_AI_RESPONSE_ID: call.id,
            Attr.GEN_AI_FINISH_REASONS: [call.stop_reason] if call.stop_reason else [],
            Attr.GEN_AI_INPUT_TOKENS: u.occupancy,
            Attr.GEN_AI_OUTPUT_TOKENS: u.output,
            Attr.GEN_AI_CACHE_READ_TOKENS: u.cache_read,
            Attr.GEN_AI_CACHE_CREATION_TOKENS: u.cache_write,
            Attr.GEN_AI_CACHE_WRITE_TOKENS: u.cache_write,
        }
        if call.first_token_at is not None:
            self.first_token_at = self.first_token_at or call.first_token_at
            attributes[Attr.MODEL_FIRST_TOKEN] = max(0.0, call.first_token_at - self._chat_began)
        chat.set(attributes)
        with self._emit.within(chat):  # so that the metric's exemplar leads to this call
            self._called(call.model or self._model, u, max(0.0, call.at - self._chat_began))
        chat.end()
        self.usage = Usage(
            self.usage.input + u.input,
            self.usage.output + u.output,
            self.usage.cache_read + u.cache_read,
            self.usage.cache_write + u.cache_write,
        )

    def _called(self, model: str, usage: Usage, seconds: float, error: str | None = None) -> None:
        self._emit(
            ModelCalled(
                route=self._route,
                model=model,
                input_tokens=usage.occupancy,
                output_tokens=usage.output,
                cache_read_tokens=usage.cache_read,
                cache_write_tokens=usage.cache_write,
                seconds=seconds,
                error=error,
            )
        )

    def _retried(self, retry: ApiRetry) -> None:
        """What follows is announced as a call of its own."""
        if self._chat is not None:
            with self._emit.within(self._chat):
                self._called(self._model, Usage(), max(0.0, retry.at - self._chat_began), error=retry.error)
        self._failed(retry.error)

    def _failed(self, error: str) -> None:
        chat, self._chat = self._chat, None
        if chat is not None:
            chat.fail(error)
            chat.end()

    def _tool_ended(self, event: ToolEnded) -> None:
        span = self._tools.pop(event.id, None)
        if span is not None:
            if event.failed:
                span.fail("tool_error")
            span.end()

    def finish(self, error: str | None) -> None:
        self._failed(error or "unfinished")
        for span in self._tools.values():
            span.set({Attr.TOOL_LATE: True})
            span.end()
        self._tools.clear()
