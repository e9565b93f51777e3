"""The parser on lines that the real CLI printed (claude_lines/record.py records them), and on lines that it might print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.claude_stream import Stream, uuids_of
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
)

LINES = Path(__file__).parent / "claude_lines"
ANSWERED = "I can only quote Slack threads"
ONE_CALL = ["CallStarted", "CallEnded"]


class Turns:
    """Recorded lines, a new `Stream` a turn as the driver has it. A line's time is its number."""

    def __init__(self, name: str) -> None:
        lines = [json.loads(line) for line in (LINES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        self.events: list[list[StreamEvent]] = [[]]
        self.answers: list[Answer] = []
        self.uuids: list[list[str]] = []
        stream = Stream()
        for at, line in enumerate(lines):
            self.events[-1] += stream.feed(line, float(at))
            if line["type"] == "result":
                self.answers.append(stream.answer(line))
                self.uuids.append(uuids_of(line))
                stream, self.events = Stream(), [*self.events, []]
        self.sent = list(dict.fromkeys(str(line["command_uuid"]) for line in lines if line["type"] == "command_lifecycle"))

    @property
    def kinds(self) -> list[list[str]]:
        return [[type(event).__name__ for event in turn] for turn in self.events if turn]

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for turn in self.events for event in turn if isinstance(event, kind)]


def test_each_turn_is_one_call_and_one_answer_under_our_uuid() -> None:
    turns = Turns("three_turns")

    assert turns.kinds == [ONE_CALL] * 3
    assert [a.error for a in turns.answers] == [None] * 3
    assert all(a.text.startswith(ANSWERED) and a.cost_usd > 0 for a in turns.answers)
    assert turns.uuids == [[uuid] for uuid in turns.sent]


def test_a_call_has_its_usage_its_model_and_its_first_token() -> None:
    (ended,) = Turns("not_streamed").all(CallEnded)
    first, *_ = Turns("three_turns").all(CallEnded)

    assert (first.model, first.stop_reason) == ("claude-opus-5-5", "end_turn")
    assert first.usage.output > 1 and first.usage.occupancy == first.usage.input + first.usage.cache_read + first.usage.cache_write > 300
    assert first.first_token_at < first.at
    assert (ended.first_token_at, ended.usage.output > 1) == (None, True)


def test_a_compaction_before_a_turn_comes_before_the_call_whose_usage_counts() -> None:
    turns = Turns("compaction_before_a_turn")
    (boundary,) = turns.all(Compacted)
    calls = turns.all(CallEnded)

    assert turns.kinds[-1] == ["CallStarted", "Compacting", "Compacted", "CallStarted", "CallEnded"]
    assert (boundary.trigger, boundary.pre_tokens > 90_000, boundary.post_tokens < 2_000) == ("auto", True, True)
    assert boundary.duration_seconds == 0.5
    assert [c.usage.occupancy >= 90_000 for c in calls] == [False, True, False]
    assert turns.answers[-1].cost_usd > calls[-1].usage.output * 1e-5  # the compaction's own call is in the bill only


def test_the_call_that_a_compaction_held_up_begins_after_it() -> None:
    turns = Turns("compaction_before_a_turn")
    announced, begun = (e for e in turns.events[2] if isinstance(e, CallStarted))
    (boundary,) = turns.all(Compacted)

    assert announced.at < boundary.at == begun.at


def test_a_compaction_in_a_tool_loop_stands_between_its_two_calls() -> None:
    turns = Turns("compaction_in_a_tool_loop")

    assert turns.kinds[-1] == [
        *("CallStarted", "ToolStarted", "ToolEnded", "CallEnded"),
        *("CallStarted", "Compacting", "Compacted", "CallStarted", "CallEnded"),
    ]
    assert [c.stop_reason for c in turns.all(CallEnded)[-2:]] == ["tool_use", "end_turn"]
    assert turns.all(CallEnded)[-1].usage.occupancy < 2_000


def test_a_prompt_that_was_too_long_is_compacted_and_its_call_announced_once_more() -> None:
    turns = Turns("compaction_after_too_long")

    assert turns.kinds[-1] == ["CallStarted", "Compacting", "Compacted", "CallStarted", "CallEnded"]
    assert (turns.answers[-1].error, turns.answers[-1].text.startswith(ANSWERED)) == (None, True)


def test_our_own_compaction_has_a_boundary_and_a_cost_and_no_call() -> None:
    turns = Turns("compaction_manual")

    assert turns.kinds[-1] == ["Compacting", "Compacted"]
    assert turns.all(Compacted)[0].trigger == "manual"
    assert (turns.answers[-1].error, turns.answers[-1].text, turns.answers[-1].cost_usd > 0) == (None, "", True)
    assert turns.uuids[-1] in ([], turns.sent[-1:])


@pytest.mark.parametrize("name", ["compaction_failed", "compaction_manual_failed"])
def test_c048_a_failed_compaction_is_told_and_has_no_boundary(name: str) -> None:
    turns = Turns(name)

    assert len(turns.all(Compacting)) == len(turns.all(CompactionGaveUp)) == 1
    assert turns.all(Compacted) == []


def test_c048_after_a_failed_compaction_the_turn_goes_on() -> None:
    turns = Turns("compaction_failed")

    assert turns.kinds[-1] == ["CallStarted", "Compacting", "CompactionGaveUp", "CallStarted", "CallEnded"]
    assert (turns.answers[-1].error, turns.answers[-1].text.startswith(ANSWERED)) == (None, True)


def test_a_cleared_conversation_is_told() -> None:
    assert Turns("cleared").kinds[-1] == [Cleared.__name__]


def test_a_tool_is_told_with_its_id_its_name_and_how_it_ended() -> None:
    turns = Turns("tool_use")
    (started,), (ended,) = turns.all(ToolStarted), turns.all(ToolEnded)

    assert (started.name, started.id, ended.failed) == ("no_such_tool", ended.id, True)
    assert [c.stop_reason for c in turns.all(CallEnded)] == ["tool_use", "end_turn"]


def test_an_api_failure_is_an_error_although_the_cli_calls_it_a_success() -> None:
    turns = Turns("api_errors")

    assert [(a.status, a.error) for a in turns.answers] == [
        (400, "model_error"),
        (401, "authentication_failed"),
        (403, "authentication_failed"),
        (404, "model_not_found"),
        (500, "server_error"),
        (529, "server_error"),
    ]
    assert turns.all(CallEnded) == []
    assert [r.error for r in turns.all(ApiRetry)] == ["authentication_failed", "server_error", "overloaded"]


def test_a_usage_limit_is_an_error_and_its_banner_no_answer() -> None:
    (answer,) = Turns("usage_limit").answers

    assert (answer.error, answer.status) == ("rate_limit", 429)


def test_a_plan_tells_that_it_is_near_its_limit_and_when_the_limit_ends() -> None:
    turns = Turns("usage_limit_of_a_plan")
    near, beyond = turns.answers

    assert [told.near for told in turns.all(LimitTold)] == [True]
    assert (near.error, near.resets_at) == (None, None) and near.text.startswith(ANSWERED)
    assert (beyond.error, beyond.resets_at) == ("rate_limit", 4_102_444_800.0) and "hit your" in beyond.text


def test_a_single_exchange_that_is_too_long_is_named_so() -> None:
    turns = Turns("too_long_on_the_only_exchange")

    assert [a.error for a in turns.answers] == ["prompt_too_long"]
    assert turns.all(Compacted) == []


@pytest.mark.parametrize("name", ["retried", "dropped"])
def test_a_retry_ends_the_call_and_begins_the_next_one_after_its_wait(name: str) -> None:
    turns = Turns(name)
    (retry,), (ended,) = turns.all(ApiRetry), turns.all(CallEnded)

    assert turns.kinds == [["CallStarted", "ApiRetry", "CallStarted", "CallEnded"]]
    assert turns.all(CallStarted)[1].at == retry.at + 0.5
    assert (ended.stop_reason, turns.answers[0].error) == ("end_turn", None)


def test_streams_that_broke_are_no_calls_of_their_own() -> None:
    turns = Turns("not_streamed")

    assert turns.kinds == [ONE_CALL]
    assert turns.answers[0].text.startswith(ANSWERED)


@pytest.mark.parametrize("name", ["interrupted", "interrupted_after_words"])
def test_an_interrupted_call_did_not_end_and_its_turn_is_an_error(name: str) -> None:
    turns = Turns(name)

    assert turns.kinds[0] == ["CallStarted"]
    assert turns.answers[0].error == "aborted_streaming"
    assert turns.uuids[0] == turns.sent[:1]


def test_the_turn_after_an_interrupt_is_answered_under_its_own_uuid() -> None:
    turns = Turns("interrupted")

    assert turns.kinds[1] == ONE_CALL
    assert turns.uuids[1] == turns.sent[1:]


def test_an_unknown_id_ends_at_once_without_a_turn() -> None:
    turns = Turns("resume_unknown")

    assert (turns.events, turns.uuids) == ([[], []], [[]])
    assert turns.answers[0].error == "error_during_execution"
