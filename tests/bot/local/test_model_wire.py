from __future__ import annotations

import json

from bot.local.model_steps import ToolCall
from bot.local.model_wire import Reply, Usage, sse, tokens_of_body, tokens_of_text


def reply(text: str = "hello", *, tool: ToolCall | None = None, prompt: int = 90_000) -> Reply:
    return Reply(id="msg_1", model="m", text=text, tool=tool, stop_reason="end_turn", usage=Usage(prompt=prompt, added=400, output=7))


def test_usage_is_split_as_a_caching_api_does_and_adds_up() -> None:
    usage = reply().as_json()["usage"]

    assert usage == {"input_tokens": 4, "cache_creation_input_tokens": 400, "cache_read_input_tokens": 89_596, "output_tokens": 7}


def test_a_tiny_prompt_has_no_negative_numbers() -> None:
    usage = reply(prompt=2).as_json()["usage"]

    assert [usage[name] for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")] == [2, 0, 0]


def test_a_stream_carries_what_the_whole_answer_carries() -> None:
    answer = reply("ab" * 500, tool=ToolCall("query", {"q": "東京"}))

    events = [*answer.opening(), *answer.events()]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]

    assert "".join(delta.get("text", "") for delta in deltas) == "ab" * 500
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"q": "東京"}
    assert [event["type"] for event in events[:3]] == ["message_start", "ping", "content_block_start"]
    assert events[-2]["usage"] == answer.as_json()["usage"] and events[-1] == {"type": "message_stop"}
    assert events[0]["message"]["usage"]["output_tokens"] == 1


def test_an_empty_answer_has_no_block() -> None:
    assert reply("").as_json()["content"] == []
    assert [event["type"] for event in reply("").events()] == ["message_delta", "message_stop"]


def test_an_event_is_one_line_of_json_under_its_name() -> None:
    assert sse({"type": "ping"}) == b'event: ping\ndata: {"type": "ping"}\n\n'


def test_japanese_costs_a_token_a_character_and_ascii_a_quarter() -> None:
    assert tokens_of_text("abcd" * 10) == 10
    assert tokens_of_text("東京都") == 3
    assert tokens_of_text("東京abcd") == 3


def test_a_body_is_measured_whole_and_by_its_newest_message() -> None:
    whole, newest = tokens_of_body({"system": "x" * 4000, "messages": [{"role": "user", "content": "あ" * 500}]})

    assert whole > 1500 and 500 <= newest < 520
    assert tokens_of_body({}) == (1, 0)
