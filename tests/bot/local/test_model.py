from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from bot.local.model import EmbeddedModel

pytestmark = pytest.mark.slack
TOKEN = "made-up-token"
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


def body(text: str = "hello", *, stream: bool = False) -> dict[str, Any]:
    return {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]}


def compaction() -> dict[str, Any]:
    return body("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.")


@pytest.fixture
async def model() -> AsyncIterator[EmbeddedModel]:
    async with EmbeddedModel(control_token=TOKEN) as running:
        yield running


@pytest.fixture
async def http(model: EmbeddedModel) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=model.url, timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


async def events_of(response: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in (await response.text()).splitlines() if line.startswith("data: ")]


async def test_it_answers_whole(http: aiohttp.ClientSession) -> None:
    async with http.post("/v1/messages?beta=true", json=body()) as response:
        answer = await response.json()

    assert answer["stop_reason"] == "end_turn" and "embedded model" in answer["content"][0]["text"]


async def test_it_answers_as_a_stream(http: aiohttp.ClientSession) -> None:
    async with http.post("/v1/messages?beta=true", json=body(stream=True)) as response:
        events = await events_of(response)

    assert response.content_type == "text/event-stream"
    assert [events[0]["type"], events[1]["type"], events[-1]["type"]] == ["message_start", "ping", "message_stop"]


async def test_it_records_what_it_was_asked(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    await http.post("/v1/messages", json=body("one"), headers={"x-api-key": "k-1"})
    await http.post("/v1/messages", json=compaction(), headers={"authorization": "Bearer k-2"})

    assert [(request.key, request.is_compaction, request.n) for request in model.requests] == [("k-1", False, 1), ("k-2", True, 2)]


async def test_the_small_endpoints_answer(http: aiohttp.ClientSession) -> None:
    count = await (await http.post("/v1/messages/count_tokens", json=body("あ" * 100))).json()
    listed = await (await http.get("/v1/models")).json()

    assert count["input_tokens"] >= 100 and listed["data"]
    assert [(await http.get("/")).status, (await http.head("/")).status] == [200, 200]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/v1/complete", 404), ("GET", "/v1/messages", 405)]
)
async def test_what_it_does_not_serve_is_an_error_in_the_apis_form(
    http: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with http.request(method, path) as response:
        answer = await response.json()

    assert response.status == status and answer["type"] == "error" and path in answer["error"]["message"]


@pytest.mark.parametrize("raw", [b"", b"not json", b"[]", b"{}"])
async def test_a_body_that_is_no_request_is_refused(http: aiohttp.ClientSession, raw: bytes) -> None:
    async with http.post("/v1/messages", data=raw) as response:
        assert response.status == 400 and (await response.json())["error"]["type"] == "invalid_request_error"


async def test_scripted_errors_have_status_headers_and_form(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    model.script.limit(resets_at=4102444800)

    async with http.post("/v1/messages", json=body(stream=True)) as response:
        assert response.status == 429 and response.headers["anthropic-ratelimit-unified-reset"] == "4102444800"
        assert (await response.json())["error"]["type"] == "rate_limit_error"


async def test_an_answer_that_a_script_says_something_about_is_the_answer_and_no_look_into_the_memory(
    http: aiohttp.ClientSession, model: EmbeddedModel
) -> None:
    asked = body('<message-0123abcd id="T0/C0/1.1" at="x" from="Carol (U0CAROL, person)">\nWhen?\n</message-0123abcd>')
    asked["tools"] = [{"name": "mcp__insomnia__memory_query"}]
    model.script.usage(90_000)

    told = [await (await http.post("/v1/messages", json=asked)).json() for _ in range(2)]

    assert [answer["stop_reason"] for answer in told] == ["end_turn", "tool_use"]


async def test_a_tool_call_ends_the_answer(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    model.script.tool("query", {"q": "x"}, usage=90_000)

    answer = await (await http.post("/v1/messages", json=body())).json()

    assert answer["stop_reason"] == "tool_use" and answer["content"][0]["input"] == {"q": "x"}
    assert answer["usage"]["cache_read_input_tokens"] > 89_000


@pytest.mark.parametrize("stream", [True, False])
async def test_a_dropped_connection_is_no_answer(http: aiohttp.ClientSession, model: EmbeddedModel, stream: bool) -> None:
    model.script.drop()

    with pytest.raises(aiohttp.ClientError):
        async with http.post("/v1/messages", json=body(stream=stream)) as response:
            await response.read()

    assert (await http.get("/")).status == 200


async def test_a_broken_stream_ends_with_an_error_event(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    model.script.stream_error("overloaded_error")

    async with http.post("/v1/messages", json=body(stream=True)) as response:
        events = await events_of(response)

    assert events[-1]["error"]["type"] == "overloaded_error" and response.status == 200


async def test_a_hanging_stream_pings_and_does_not_hold_up_the_end(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    model.script.hang()
    model.script.compact_hang()

    async with http.post("/v1/messages", json=body(stream=True)) as response:
        first = [await response.content.readline() for _ in range(4)]
        other = await http.post("/v1/messages", json=body(stream=True))

    assert first[0] == b"event: message_start\n" and first[3] == b"event: ping\n"
    assert other.status == 200 and model.script.pending == 1


async def test_a_slow_answer_is_whole_in_the_end(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    model.script.slow(0.05)

    async with http.post("/v1/messages", json=body(stream=True)) as response:
        assert (await events_of(response))[-1]["type"] == "message_stop"


async def test_the_script_and_the_record_are_reached_by_http(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    steps = [{"step": "say", "text": "one", "match": "hello"}, {"step": "say", "text": "two"}]

    async with http.post("/control/script", json=steps, headers=AUTHORIZED) as response:
        assert await response.json() == {"ok": True, "pending": 2}
    said = [(await (await http.post("/v1/messages", json=body(text))).json())["content"][0]["text"] for text in ("first", "hello")]
    listed = await (await http.get("/control/requests?after=1", headers=AUTHORIZED)).json()

    assert said == ["two", "one"]
    assert listed == [{"n": 2, "session_id": "", "is_compaction": False, "is_memory": False, "text": "hello", "newest_user_text": "hello"}]


async def test_clearing_forgets_requests_and_steps(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    model.script.say("never")
    await http.post("/v1/messages", json=compaction())

    await http.post("/control/clear", headers=AUTHORIZED)

    assert model.requests == [] and model.script.pending == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": TOKEN}, 401),
        ({**AUTHORIZED, "origin": "http://evil.test"}, 403),
    ],
)
async def test_nobody_steers_it_without_the_token_or_from_a_web_page(
    http: aiohttp.ClientSession, headers: dict[str, str], status: int
) -> None:
    answers = [
        await http.post("/control/script", json={"step": "hang"}, headers=headers),
        await http.get("/control/requests", headers=headers),
        await http.post("/control/clear", headers=headers),
        await http.get("/control/nowhere", headers=headers),
    ]

    assert [answer.status for answer in answers] == [status] * 4


async def test_a_wrong_step_adds_none_of_its_list(http: aiohttp.ClientSession, model: EmbeddedModel) -> None:
    steps = [{"step": "say", "text": "fine"}, {"step": "say"}]

    async with http.post("/control/script", json=steps, headers=AUTHORIZED) as response:
        assert response.status == 400 and "'text'" in (await response.json())["error"]["message"]

    assert model.script.pending == 0


@pytest.mark.parametrize("raw", ["no json", "[1]", "5"])
async def test_a_script_that_is_none_is_refused(http: aiohttp.ClientSession, raw: str) -> None:
    async with http.post("/control/script", data=raw, headers=AUTHORIZED) as response:
        assert response.status == 400


async def test_it_has_no_address_before_and_after_and_can_begin_again() -> None:
    model = EmbeddedModel(control_token=TOKEN)

    for _ in range(2):
        async with model:
            assert model.control_url == f"{model.url}/control/" and model.url.startswith("http://127.0.0.1:")
        assert model.url == model.control_url == ""


async def test_a_port_that_is_taken_is_an_error_at_once(model: EmbeddedModel) -> None:
    with pytest.raises(OSError):
        async with EmbeddedModel(control_token=TOKEN, port=int(model.url.rpartition(":")[2])):
            pass
