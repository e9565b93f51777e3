"""The parser on lines that nobody recorded, and that a CLI might print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.claude_stream import Stream, uuids_of
from bot.ports import (
    CallEnded,
    CallStarted,
    Compacted,
    Compacting,
    CompactionGaveUp,
    LimitTold,
    StreamEvent,
    ToolStarted,
    Usage,
)

LINES = Path(__file__).parent / "claude_lines"
ANSWERED = "I can only quote Slack threads"
Line = dict[str, Any]


def fed(*lines: Line) -> list[StreamEvent]:
    stream = Stream()
    return [event for at, line in enumerate(lines) for event in stream.feed(line, float(at))]


def system(subtype: str, **more: Any) -> Line:
    return {"type": "system", "subtype": subtype, **more}


def streamed(kind: str, **more: Any) -> Line:
    return {"type": "stream_event", "event": {"type": kind, **more}}


def call(id: str = "msg_1", *, input_tokens: int = 10, stop_reason: str | None = "end_turn") -> list[Line]:
    message = {"id": id, "model": "m", "usage": {"input_tokens": input_tokens, "cache_read_input_tokens": 5, "output_tokens": 1}}
    return [
        streamed("message_start", message=message),
        streamed("content_block_delta", delta={"type": "text_delta", "text": "x"}),
        streamed("message_delta", delta={"stop_reason": stop_reason}, usage={"output_tokens": 40}),
        streamed("message_stop"),
    ]


REQUESTING = system("status", status="requesting")
COMPACTING = system("status", status="compacting")
FAILED_TO_COMPACT = system("status", status=None, compact_result="failed", compact_error="API Error: 500")
ONE_CALL = ["CallStarted", "CallEnded"]


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ({"compact_metadata": {"trigger": "auto", "pre_tokens": 90_000, "post_tokens": 500, "duration_ms": 20}}, (90_000, 500, 0.02)),
        ({"compactMetadata": {"trigger": "auto", "preTokens": 90_000, "postTokens": 500, "durationMs": 20}}, (90_000, 500, 0.02)),
        ({"compact_metadata": {"trigger": "auto"}}, (None, None, None)),
        ({"compact_metadata": None}, (None, None, None)),
        ({}, (None, None, None)),
        ({"compact_metadata": {"pre_tokens": "many", "post_tokens": True, "duration_ms": None}}, (None, None, None)),
    ],
)
def test_c046_c047_a_boundary_alone_is_enough_and_numbers_it_does_not_tell_are_absent(line: Line, numbers: tuple[Any, ...]) -> None:
    (boundary,) = fed(system("compact_boundary", **line))

    assert isinstance(boundary, Compacted)
    assert (boundary.pre_tokens, boundary.post_tokens, boundary.duration_seconds) == numbers
    assert boundary.trigger == "auto"


def test_c048_a_compaction_that_failed_after_its_status_leaves_nothing_behind() -> None:
    events = fed(REQUESTING, COMPACTING, FAILED_TO_COMPACT, *call())

    assert [type(e) for e in events] == [CallStarted, Compacting, CompactionGaveUp, CallStarted, CallEnded]


def test_a_compaction_that_is_neither_done_nor_failed_holds_no_call_up() -> None:
    events = fed(REQUESTING, COMPACTING, system("status", status=None), *call())

    assert [type(e) for e in events] == [CallStarted, Compacting, CallEnded]


def test_the_call_after_a_compaction_is_announced_once_whether_or_not_the_cli_says_it_again() -> None:
    boundary = system("compact_boundary")

    silent, spoken = fed(REQUESTING, boundary, *call()), fed(REQUESTING, boundary, REQUESTING, *call())

    kinds = [CallStarted, Compacted, CallStarted, CallEnded]
    assert [type(e) for e in silent] == [type(e) for e in spoken] == kinds


def test_a_call_that_nobody_announced_begins_with_its_first_line() -> None:
    events = fed(*call())

    assert events[0] == CallStarted(0.0) and isinstance(events[1], CallEnded)


def test_the_usage_of_a_call_is_what_its_end_told_and_its_begin_where_that_is_silent() -> None:
    (_, ended) = fed(*call(input_tokens=10))
    lines = call(input_tokens=10)
    lines[2]["event"]["usage"] = {"input_tokens": 12, "cache_creation_input_tokens": 3, "output_tokens": 40}
    (_, told) = fed(*lines)

    assert isinstance(ended, CallEnded) and ended.usage == Usage(input=10, cache_read=5, output=40)
    assert isinstance(told, CallEnded) and told.usage == Usage(input=12, cache_write=3, output=40)


def test_an_endpoint_that_gives_no_stop_reason_still_fills_the_context() -> None:
    (_, ended) = fed(*call(stop_reason=None))

    assert isinstance(ended, CallEnded) and ended.usage.occupancy == 15


def test_a_stream_that_ends_without_its_last_word_is_no_call() -> None:
    start, delta, _, stop = call()

    assert fed(REQUESTING, start, delta, stop) == [CallStarted(0.0)]


def test_a_message_in_several_blocks_is_one_call() -> None:
    start, delta, end, stop = call("msg_1")
    blocks = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "toolu_1", "name": "look"}]
    said = [{"type": "assistant", "message": {"id": "msg_1", "model": "m", "content": [block]}} for block in blocks]

    events = fed(REQUESTING, start, delta, *said, end, stop)

    assert [type(e) for e in events] == [CallStarted, ToolStarted, CallEnded]


def test_a_message_that_was_not_streamed_is_one_call_however_many_blocks_it_has() -> None:
    said = [{"type": "assistant", "message": {"id": "msg_1", "model": "m", "content": [{"type": "text"}]}} for _ in range(2)]

    assert [type(e) for e in fed(REQUESTING, *said)] == [CallStarted, CallEnded]


def test_what_a_sub_agent_does_says_nothing_of_this_context() -> None:
    lines = [*call(), system("compact_boundary"), {"type": "conversation_reset"}, COMPACTING]

    assert fed(*({**line, "parent_tool_use_id": "toolu_1"} for line in lines)) == []


def test_the_summary_and_replayed_messages_are_no_events() -> None:
    said = {"role": "user", "content": "This session is being continued"}

    assert fed({"type": "user", "message": said, "isSynthetic": True}, {"type": "user", "message": {"content": [{"type": "text"}]}}) == []


@pytest.mark.parametrize("kind", ["command_lifecycle", "rate_limit_event", "prompt_suggestion", "", None, 7, ["system"]])
def test_kinds_of_lines_that_nobody_knows_are_passed_over(kind: object) -> None:
    assert fed({"type": kind, "subtype": "compact_boundary"}, system(str(kind))) == []


def limit_event(status: str, **more: object) -> Line:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": status, "resetsAt": 1_700_003_600, **more}}


def said_by(model: str, text: str) -> Line:
    return {"type": "assistant", "message": {"id": "msg_9", "model": model, "content": [{"type": "text", "text": text}]}}


@pytest.mark.parametrize(
    ("told", "near"),
    [(limit_event("allowed"), [False]), (limit_event("allowed_warning", utilization=0.93), [True]), (limit_event("rejected"), [])],
)
def test_c054_how_an_account_stands_is_told_and_a_rejection_is_left_to_the_turns_end(told: Line, near: list[bool]) -> None:
    assert [event.near for event in fed(told) if isinstance(event, LimitTold)] == near


@pytest.mark.parametrize(
    "told", [limit_event("rejected", isUsingOverage=True), limit_event("new_word"), {"type": "rate_limit_event", "rate_limit_info": 7}]
)
def test_what_says_nothing_of_the_account_is_passed_over(told: Line) -> None:
    assert fed(told) == []


BANNERS = ("You've hit your session limit · resets 11:13pm (UTC)", "You've hit your limit - resets 11:13pm (UTC)")


@pytest.mark.parametrize("banner", BANNERS)
@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize("spoken", [True, False], ids=["spoken", "result_alone"])
def test_c053_a_banner_is_an_error_however_it_arrives_and_tells_when_the_limit_ends(banner: str, is_error: bool, spoken: bool) -> None:
    stream = Stream()
    stream.feed(said_by("<synthetic>", banner) if spoken else system("init"), 1_700_000_000.0)

    answer = stream.answer({"subtype": "success", "is_error": is_error, "result": banner})

    assert (answer.error, answer.resets_at) == ("rate_limit", 1_700_003_580.0)


@pytest.mark.parametrize("banner", BANNERS)
def test_c053_a_model_that_quotes_a_banner_has_answered(banner: str) -> None:
    stream = Stream()
    stream.feed(said_by("claude-opus-5-5", banner), 0.0)

    answer = stream.answer({"subtype": "success", "is_error": False, "result": banner})

    assert (answer.error, answer.text) == (None, banner)


def test_the_event_knows_better_than_the_banner_when_the_limit_ends() -> None:
    stream = Stream()
    stream.feed(limit_event("rejected"), 1_700_000_000.0)
    stream.feed(said_by("<synthetic>", BANNERS[0]), 1_700_000_000.0)

    assert stream.answer({"subtype": "success", "is_error": True, "result": BANNERS[0]}).resets_at == 1_700_003_600.0


def test_a_limit_beyond_which_the_account_is_served_says_nothing_of_a_later_refusal() -> None:
    stream = Stream()
    stream.feed(limit_event("rejected", isUsingOverage=True), 1_700_000_000.0)

    assert stream.answer({"subtype": "success", "is_error": True, "api_error_status": 429, "result": "busy"}).resets_at is None


def test_a_turn_that_failed_for_another_reason_may_quote_a_banner() -> None:
    stream = Stream()
    stream.feed(said_by("claude-opus-5-5", BANNERS[0]), 0.0)

    assert stream.answer({"subtype": "success", "is_error": True, "terminal_reason": "stopped", "result": BANNERS[0]}).error == "stopped"


def test_what_the_cli_words_itself_is_no_answer() -> None:
    stream = Stream()
    stream.feed(said_by("<synthetic>", "Something of the CLI's own"), 0.0)

    assert stream.answer({"subtype": "success", "is_error": False, "result": "Something of the CLI's own"}).error == "model_error"


def test_microcompaction_leaves_the_threads_where_they_are() -> None:
    assert [type(event).__name__ for event in fed(system("microcompact_boundary"))] == ["Trimmed"]


def test_an_error_is_forgotten_with_its_turn() -> None:
    stream = Stream()
    stream.feed({"type": "assistant", "error": "rate_limit", "message": {"model": "<synthetic>", "content": []}}, 0.0)
    failed = stream.answer({"subtype": "success", "is_error": True, "result": "You've hit your limit"})
    answered = stream.answer({"subtype": "success", "is_error": False, "result": "yes"})

    assert (failed.error, answered.error, answered.text) == ("rate_limit", None, "yes")


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"subtype": "error_max_turns", "is_error": False}, "error_max_turns"),
        ({"subtype": "success", "is_error": True, "result": "Prompt is too long"}, "prompt_too_long"),
        ({"subtype": "success", "is_error": True, "terminal_reason": "prompt_too_long"}, "prompt_too_long"),
        ({"subtype": "success", "is_error": True, "api_error_status": 429}, "rate_limit"),
        ({"subtype": "success", "is_error": True, "terminal_reason": "api_error"}, "api_error"),
        ({}, "model_error"),
    ],
)
def test_every_failed_result_has_a_class(result: Line, error: str) -> None:
    assert Stream().answer(result).error == error


def test_the_cost_of_a_turn_is_its_own_and_stands_by_model() -> None:
    used = {"a": {"costUSD": 0.25}, "b": {"costUSD": 1}, "c": {}, "d": None}
    result = {"subtype": "success", "total_cost_usd": 99, "model_usage_since_last_result": used}

    answer = Stream().answer(result)

    assert (answer.cost_usd, answer.cost_by_model) == (1.25, {"a": 0.25, "b": 1.0, "c": 0.0, "d": 0.0})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = (
    *("type", "subtype", "status", "compact_result", "compact_metadata", "compactMetadata", "attempt", "retry_delay_ms", "event"),
    *("message", "error", "result", "is_error", "api_error_status", "model_usage_since_last_result", "user_message_uuids"),
)
INNER = ("type", "id", "model", "usage", "content", "delta", "message", "pre_tokens", "duration_ms", "stop_reason", "input_tokens")
WORDS = (
    *("system", "stream_event", "assistant", "user", "conversation_reset", "status", "compact_boundary", "api_retry", "requesting"),
    *("message_start", "message_delta", "message_stop", "content_block_delta", "tool_use", "tool_result", "success"),
)
odd = st.sampled_from(WORDS) | json_values
inner = st.dictionaries(
    st.sampled_from(INNER), odd | st.lists(st.dictionaries(st.sampled_from(INNER), odd, max_size=4), max_size=2), max_size=5
)
odd_lines = st.dictionaries(st.sampled_from(KEYS), odd | inner, max_size=8)


@pytest.mark.sweep
@given(st.lists(odd_lines, max_size=6))
def test_no_line_whatever_it_holds_raises(lines: list[Line]) -> None:
    stream = Stream()

    for at, line in enumerate(lines):
        stream.feed(line, float(at))
        stream.answer(line)
        uuids_of(line)
