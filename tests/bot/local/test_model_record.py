from __future__ import annotations

import json
from typing import Any

import pytest

from bot.local.model_record import RequestRecord, session_of


def body(text: str = "hello") -> dict[str, Any]:
    return {"metadata": {"user_id": json.dumps({"session_id": "s-1"})}, "messages": [{"role": "user", "content": text}], "stream": True}


def test_a_request_is_kept_with_what_tests_ask_for() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "first"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "found"}]}]},
    ]

    request = RequestRecord().add({**body(), "messages": messages}, key="k", size=10)

    assert (request.session_id, request.key, request.stream, request.is_compaction) == ("s-1", "k", True, False)
    assert request.messages_text == "first\nfound"
    assert request.newest_user_text == "first"


def test_only_so_many_requests_and_characters_are_kept() -> None:
    record = RequestRecord(max_requests=3, max_chars=100)

    for size in (10, 10, 10, 10, 95):
        record.add(body(), key="k", size=size)

    assert [request.n for request in record.requests] == [5]


def test_the_newest_request_stays_however_large_it_is() -> None:
    record = RequestRecord(max_chars=100)

    record.add(body(), key="k", size=1000)

    assert len(record.requests) == 1


def test_the_list_is_one_list_for_ever_and_numbers_go_on_after_it_was_cleared() -> None:
    record = RequestRecord()
    held = record.requests
    record.add(body(), key="k", size=1)
    held.clear()

    assert record.add(body(), key="k", size=1).n == 2 and held is record.requests


def test_a_request_without_a_session_has_none() -> None:
    assert [session_of(one) for one in ({}, {"metadata": {"user_id": "plain"}}, {"metadata": {"user_id": "[1]"}}, {"metadata": 1})] == [
        ""
    ] * 4


@pytest.mark.parametrize(
    ("tool", "memory", "consolidation"), [("stage_candidates", True, False), ("staging_list", True, True), ("memory_query", False, False)]
)
def test_a_memory_worker_is_known_by_the_tool_that_only_it_is_offered(tool: str, memory: bool, consolidation: bool) -> None:
    request = RequestRecord().add({**body(), "tools": ["odd", {"name": f"mcp__insomnia__{tool}"}]}, key="k", size=1)

    assert (request.is_memory, request.is_consolidation) == (memory, consolidation)
    assert not RequestRecord().add(body(), key="k", size=1).is_memory
