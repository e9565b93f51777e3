from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bot.local.model_script import BadStep, Script
from bot.local.model_steps import BreakStream, Hang, Refuse, Respond, Step


@dataclass(frozen=True, kw_only=True)
class Request:
    newest_user_text: str = "hello"
    session_id: str = "s"
    key: str = "k"
    is_compaction: bool = False
    is_memory: bool = False
    stream: bool = True


COMPACTION = Request(is_compaction=True)


def take(script: Script, text: str = "hello", *, key: str = "k", stream: bool = True) -> Step | None:
    return script.take(Request(newest_user_text=text, key=key, stream=stream))


def effect(step: Step | None) -> object:
    return step.effect if step else None


def test_steps_are_used_up_one_by_one() -> None:
    script = Script()
    script.say("one")
    script.usage(90_000)

    first, second = take(script), take(script)

    assert effect(first) == Respond(text="one")
    assert second is not None and second.usage == 90_000
    assert take(script) is None and script.pending == 0


def test_a_bound_step_waits_and_holds_up_no_other() -> None:
    script = Script()
    script.say("bound", match="release")
    script.say("of the other account", key="k2")
    script.say("free")

    assert effect(take(script)) == Respond(text="free")
    assert take(script) is None
    assert effect(take(script, "the release?")) == Respond(text="bound")
    assert effect(take(script, key="k2")) == Respond(text="of the other account")


def test_a_step_is_taken_as_often_as_it_says() -> None:
    script = Script()
    script.error(529, times=2)

    assert [take(script) is None for _ in range(3)] == [False, False, True]


def test_compactions_and_turns_do_not_take_each_others_steps() -> None:
    script = Script()
    script.compact_hang()
    script.say("a turn's")

    assert effect(take(script)) == Respond(text="a turn's")
    assert effect(script.take(COMPACTION)) == Hang()


def test_a_compaction_step_lasts_while_the_cli_tries_that_compaction() -> None:
    script = Script()
    script.compact_error(500)

    tries = [effect(script.take(COMPACTION)) for _ in range(3)]
    other = script.take(Request(is_compaction=True, session_id="another"))
    take(script)

    assert all(isinstance(one, Refuse) for one in tries) and other is None
    assert script.pending == 0 and script.take(COMPACTION) is None


def test_a_broken_stream_waits_for_a_stream() -> None:
    script = Script()
    script.stream_error()

    assert take(script, stream=False) is None
    assert effect(take(script)) == BreakStream("overloaded_error")


def test_errors_have_the_apis_form() -> None:
    script = Script()
    script.too_long()
    script.error(429, retry_after=2)
    script.limit(resets_at=4102444800)

    too_long, busy, limit = (effect(take(script)) for _ in range(3))

    assert isinstance(too_long, Refuse) and too_long.message.startswith("prompt is too long: 250000 tokens > 200000 maximum")
    assert isinstance(busy, Refuse) and (busy.type, busy.headers) == ("rate_limit_error", {"retry-after": "2"})
    assert isinstance(limit, Refuse) and limit.headers["anthropic-ratelimit-unified-reset"] == "4102444800"
    assert limit.headers["anthropic-ratelimit-unified-status"] == "rejected"


@pytest.mark.parametrize(
    "spec",
    [
        {"step": "usage", "tokens": 90_000, "match": "release"},
        {"step": "say", "text": "hi", "times": 2},
        {"step": "tool", "name": "query", "input": {"q": "x"}, "usage": 90_000},
        {"step": "too_long"},
        {"step": "error", "status": 500, "type": "api_error", "message": "no", "retry_after": 0.5, "times": 3},
        {"step": "hang"},
        {"step": "slow", "seconds": 2},
        {"step": "drop"},
        {"step": "empty"},
        {"step": "stream_error", "type": "api_error"},
        {"step": "limit", "resets_at": 4102444800, "key": "k"},
        {"step": "stop", "reason": "max_tokens"},
        {"step": "compact_error", "status": 500},
        {"step": "compact_hang"},
    ],
)
def test_every_step_can_be_written_as_json(spec: dict[str, Any]) -> None:
    script = Script()

    script.add(spec)

    assert script.pending == 1


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"step": "explode"}, "unknown; known: usage"),
        ({"text": "hi"}, "unknown"),
        ({"step": "say"}, "missing a required argument: 'text'"),
        ({"step": "say", "text": 5}, "'text' must be str"),
        ({"step": "usage", "tokens": True}, "'tokens' must be int"),
        ({"step": "hang", "compaction": True}, "does not take 'compaction'"),
        ({"step": "clear"}, "unknown"),
    ],
)
def test_a_step_that_nobody_can_follow_is_refused_in_words(spec: dict[str, Any], complaint: str) -> None:
    script = Script()

    with pytest.raises(BadStep, match=complaint):
        script.add(spec)

    assert script.pending == 0


def test_a_memory_worker_and_a_session_do_not_take_each_others_steps() -> None:
    script = Script()
    script.say("for the session")
    script.say("for the worker", memory=True)

    worker, again = (script.take(Request(is_memory=True)) for _ in range(2))

    assert (effect(worker), again, effect(take(script))) == (Respond(text="for the worker"), None, Respond(text="for the session"))


@pytest.mark.parametrize("value", [1, "yes", None])
def test_whose_a_step_is_must_be_true_or_false(value: object) -> None:
    with pytest.raises(BadStep, match="must be bool"):
        Script().add({"step": "empty", "memory": value})
