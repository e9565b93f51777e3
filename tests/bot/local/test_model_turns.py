from __future__ import annotations

from typing import Any

from bot.local.model_turns import is_compaction, newest_user_text, turns


def user(*blocks: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]}


ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}
CALL = {"role": "assistant", "content": [{"type": "text", "text": "let me see"}, {"type": "tool_use", "id": "t", "name": "n", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "found"}]}
REQUEST = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."


def test_what_the_cli_says_is_nobodys_message() -> None:
    reminder = "<system-reminder>tools</system-reminder>"
    conversation = turns({"messages": [user(reminder, "hello"), {"role": "system", "content": "# Environment"}, user(reminder)]})

    assert [turn.texts for turn in conversation] == [("hello",), ()]
    assert newest_user_text(conversation) == "hello"


def test_a_compaction_request_is_told_from_a_question() -> None:
    conversation = turns({"messages": [user("hello"), ANSWER, user(RESULT, REQUEST)]})

    assert is_compaction(conversation)
    assert not is_compaction(conversation[:2])


def test_content_may_be_a_plain_string() -> None:
    assert turns({"messages": [{"role": "user", "content": "hello"}]})[0].texts == ("hello",)


def test_a_tool_call_and_its_result_are_told_from_text() -> None:
    call, result = turns({"messages": [CALL, user(RESULT)]})

    assert (call.calls_tool, call.texts) == (True, ("let me see",))
    assert (result.texts, result.results) == ((), ("found",))
