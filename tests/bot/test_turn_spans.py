"""A turn's stream as spans and as calls that are counted: each once, none left open, none that was never made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.ports import ApiRetry, CallEnded, CallStarted, Compacting, StreamEvent, ToolEnded, ToolStarted, Usage
from bot.turn_spans import TurnSpans
from telemetry.events import ModelCalled
from telemetry.names import Attr, SpanName
from tests.bot.fakes import MODEL, compacted
from tests.bot.recording import FakeSpan, RecordingEmit

USAGE = Usage(input=10, output=7, cache_read=80, cache_write=20)


def ended(at: float, *, first_token_at: float | None = None, stop: str = "end_turn") -> CallEnded:
    return CallEnded(at, "msg_1", "model-1-2026", USAGE, stop, first_token_at)


class Told:
    def __init__(self) -> None:
        self.emit = RecordingEmit()
        self.turn = TurnSpans(self.emit, route="main", model=MODEL)

    def hears(self, *events: StreamEvent, error: str | None = None) -> list[FakeSpan]:
        with self.emit.span(SpanName.INVOKE_AGENT, label="main"):
            for event in events:
                self.turn.on_event(event)
            self.turn.finish(error)
        (turn,) = self.emit.roots
        assert [span.ends for span in turn.children] == [1] * len(turn.children)
        return turn.children

    @property
    def calls(self) -> list[tuple[str, float, int, str | None]]:
        return [(f.model, f.seconds, f.input_tokens, f.error) for f in self.emit.of(ModelCalled)]


@pytest.fixture
def told() -> Iterator[Told]:
    yield Told()


def test_a_call_is_a_span_with_its_usage_and_its_first_token(told: Told) -> None:
    (chat,) = told.hears(CallStarted(10.0), ended(12.5, first_token_at=10.5))

    assert chat.name == f"chat {MODEL}" and chat.error is None
    assert chat.attributes[Attr.GEN_AI_REQUEST_MODEL] == MODEL
    assert chat.attributes[Attr.GEN_AI_RESPONSE_MODEL] == "model-1-2026"
    assert chat.attributes[Attr.GEN_AI_INPUT_TOKENS] == 110 and chat.attributes[Attr.GEN_AI_OUTPUT_TOKENS] == 7
    assert chat.attributes[Attr.GEN_AI_FINISH_REASONS] == ["end_turn"]
    assert chat.attributes[Attr.MODEL_FIRST_TOKEN] == 0.5
    assert told.calls == [("model-1-2026", 2.5, 110, None)]
    assert told.turn.first_token_at == 10.5


def test_a_call_is_counted_inside_its_own_span(told: Told) -> None:
    (chat,) = told.hears(CallStarted(10.0), ended(12.5))

    assert [span for fact, span in told.emit.told if isinstance(fact, ModelCalled)] == [chat]


def test_the_usage_of_a_turn_is_that_of_all_its_calls_and_its_first_token_the_first(told: Told) -> None:
    told.hears(CallStarted(1.0), ended(2.0, first_token_at=1.5, stop="tool_use"), CallStarted(3.0), ended(4.0, first_token_at=3.5))

    assert told.turn.usage == Usage(input=20, output=14, cache_read=160, cache_write=40)
    assert told.turn.first_token_at == 1.5


def test_a_tool_is_a_span_between_the_calls(told: Told) -> None:
    spans = told.hears(
        CallStarted(1.0),
        ended(2.0),
        ToolStarted(2.1, "t1", "Read"),
        ToolStarted(2.2, "t2", "Glob"),
        ToolEnded(2.3, "t1", False),
        ToolEnded(2.4, "t2", True),
        CallStarted(3.0),
        ended(4.0),
    )

    assert [span.name for span in spans] == [f"chat {MODEL}", "execute_tool Read", "execute_tool Glob", f"chat {MODEL}"]
    assert [span.error for span in spans] == [None, None, "tool_error", None]


def test_a_tool_that_outlives_its_turn_is_marked_late(told: Told) -> None:
    _, tool = told.hears(CallStarted(1.0), ended(2.0), ToolStarted(2.1, "t1", "Read"))

    assert tool.attributes[Attr.TOOL_LATE] is True and tool.error is None


def test_a_tool_end_that_nobody_began_is_nothing(told: Told) -> None:
    assert told.hears(ToolEnded(1.0, "t9", False)) == []


def test_a_call_that_the_cli_tries_again_failed_and_was_counted(told: Told) -> None:
    first, second = told.hears(CallStarted(1.0), ApiRetry(3.0, 1, "overloaded"), CallStarted(4.0), ended(6.0))

    assert (first.error, second.error) == ("overloaded", None)
    assert told.calls == [(MODEL, 2.0, 0, "overloaded"), ("model-1-2026", 2.0, 110, None)]


def test_a_retry_of_nothing_is_nothing(told: Told) -> None:
    assert told.hears(ApiRetry(3.0, 1, "overloaded")) == []
    assert told.calls == []


def test_a_call_that_was_announced_before_a_compaction_is_one_call_and_took_only_its_own_time(told: Told) -> None:
    (chat,) = told.hears(CallStarted(1.0), Compacting(1.1), compacted(), CallStarted(60.0), ended(62.0, first_token_at=61.0))

    assert chat.error is None and chat.attributes[Attr.MODEL_FIRST_TOKEN] == 1.0
    assert told.calls == [("model-1-2026", 2.0, 110, None)]


def test_an_answer_that_nobody_announced_is_a_call_all_the_same(told: Told) -> None:
    (chat,) = told.hears(ended(5.0))

    assert chat.error is None and told.calls == [("model-1-2026", 0.0, 110, None)]


@pytest.mark.parametrize(("error", "told_as"), [("interrupted", "interrupted"), (None, "unfinished")])
def test_a_call_that_the_turn_left_open_failed(told: Told, error: str | None, told_as: str) -> None:
    (chat,) = told.hears(CallStarted(1.0), error=error)

    assert chat.error == told_as


def test_tokens_written_to_the_cache_are_told_under_the_name_of_the_conventions_too(told: Told) -> None:
    (chat,) = told.hears(CallStarted(1.0), ended(2.0))

    assert chat.attributes[Attr.GEN_AI_CACHE_CREATION_TOKENS] == chat.attributes[Attr.GEN_AI_CACHE_WRITE_TOKENS] == USAGE.cache_write
