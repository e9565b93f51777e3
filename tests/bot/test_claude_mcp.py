"""The in-process MCP server: every request gets one answer, whatever is asked and whatever a tool does."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from bot.claude_mcp import RESULT_CHARS, ToolCalls, ToolServer, config_arguments, full_names
from bot.ports import Tool, ToolResult

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
Call = Callable[[Mapping[str, Any], str], Awaitable[ToolResult]]


def tool(call: Call, name: str = "echo") -> Tool:
    return Tool(name=name, description="says it again", schema=SCHEMA, call=call)


async def echo(arguments: Mapping[str, Any], use_id: str) -> ToolResult:
    return ToolResult(f"{use_id}: {arguments.get('text')}")


async def fails(arguments: Mapping[str, Any], use_id: str) -> ToolResult:
    raise RuntimeError(f"a secret: {arguments}")


async def hangs(arguments: Mapping[str, Any], use_id: str) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError


async def call(server: ToolServer, name: object = "echo", **arguments: object) -> Mapping[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {"claudecode/toolUseId": "toolu_1"}}
    return await server.answer({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})


def said(answer: Mapping[str, Any]) -> tuple[str, bool]:
    (content,) = answer["result"]["content"]
    return content["text"], answer["result"]["isError"]


async def test_it_speaks_the_version_that_the_cli_speaks_and_lists_its_tools() -> None:
    server = ToolServer([tool(echo)])

    hello = await server.answer({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2030-01-01"}})
    listed = await server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    noted = await server.answer({"jsonrpc": "2.0", "method": "notifications/initialized"})

    assert (hello["id"], hello["result"]["protocolVersion"], hello["result"]["capabilities"]) == (0, "2030-01-01", {"tools": {}})
    assert listed["result"]["tools"] == [{"name": "echo", "description": "says it again", "inputSchema": SCHEMA}]
    assert noted == {"jsonrpc": "2.0", "result": {}}


async def test_a_call_reaches_its_tool_with_the_id_of_the_tool_use() -> None:
    assert said(await call(ToolServer([tool(echo)]), text="京都")) == ("toolu_1: 京都", False)


@pytest.mark.parametrize("method", ["resources/list", "", "tools/destroy", "None"])
async def test_an_unknown_method_is_a_json_rpc_error(method: str) -> None:
    answer = await ToolServer([tool(echo)]).answer({"jsonrpc": "2.0", "id": 9, "method": method})

    assert (answer["id"], answer["error"]["code"], "result" in answer) == (9, -32601, False)


@pytest.mark.parametrize("params", [None, [], {"name": "none"}, {"name": "echo", "arguments": [1]}, {"name": ["echo"]}, {"arguments": {}}])
async def test_a_call_that_names_no_tool_or_brings_no_object_is_a_json_rpc_error(params: object) -> None:
    answer = await ToolServer([tool(echo)]).answer({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})

    assert answer["error"]["code"] == -32602


async def test_a_tool_that_raises_is_an_error_for_the_model_and_no_word_of_its_arguments_is_printed(capsys: Any) -> None:
    text, failed = said(await call(ToolServer([tool(fails)]), text="xoxb-secret"))

    printed = capsys.readouterr().err
    assert failed and "go on without it" in text and "RuntimeError in the tool echo" in printed
    assert "secret" not in text + printed.replace('raise RuntimeError(f"a secret: {arguments}")', "")


async def test_a_tool_that_hangs_is_given_up() -> None:
    async with asyncio.timeout(1):
        text, failed = said(await call(ToolServer([tool(hangs)], seconds=0.01)))

    assert failed and "given up" in text


async def test_a_book_of_a_result_is_cut_and_says_so() -> None:
    async def book(arguments: Mapping[str, Any], use_id: str) -> ToolResult:
        return ToolResult("本" * 100_000 + "\ud800")

    text, failed = said(await call(ToolServer([tool(book)])))

    assert not failed and len(text) < RESULT_CHARS + 100 and "20000 of 100001 characters" in text


# -- the calls of one process --------------------------------------------------------------------------------------------
TURN: contextvars.ContextVar[str] = contextvars.ContextVar("turn", default="none")


def request(number: str, method: str = "tools/call", *, server: str = "insomnia") -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {"name": "echo", "arguments": {}}}
    return {"request_id": number, "request": {"subtype": "mcp_message", "server_name": server, "message": message}}


class Process:
    def __init__(self, call: Call) -> None:
        self.answers: dict[str, Any] = {}
        self.calls = ToolCalls([tool(call)], respond=self.answers.__setitem__)

    def ask(self, line: dict[str, Any]) -> bool:
        return self.calls.take(line, contextvars.copy_context())


async def test_a_tool_runs_in_the_context_of_the_turn_that_asked() -> None:
    async def whose(arguments: Mapping[str, Any], use_id: str) -> ToolResult:
        return ToolResult(TURN.get())

    process = Process(whose)
    turn = contextvars.copy_context()
    turn.run(TURN.set, "the asking turn")

    assert process.calls.take(request("r1"), turn)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert said(process.answers["r1"]["mcp_response"]) == ("the asking turn", False)


async def test_what_is_not_for_this_server_is_left_to_others() -> None:
    process = Process(echo)

    assert not process.ask(request("r1", server="another"))
    assert not process.ask({"request_id": "r2", "request": {"subtype": "can_use_tool", "tool_name": "Bash"}})
    assert not process.ask({"request_id": "r3"})
    assert not ToolCalls([], respond=process.answers.__setitem__).take(request("r4"), contextvars.copy_context())


async def test_a_call_that_the_cli_takes_back_and_those_of_an_ended_turn_are_not_answered() -> None:
    process = Process(hangs)
    for number in ("r1", "r2", "r3"):
        process.ask(request(number))
    await asyncio.sleep(0)

    process.calls.cancel("r1")
    process.calls.cancel("never asked")
    process.calls.cancel_all()
    await process.calls.end()

    assert process.answers == {} and process.calls._tasks == {}


def test_without_tools_the_cli_is_told_of_no_server() -> None:
    assert config_arguments([]) == [] and full_names([]) == []
    assert full_names([tool(echo)]) == ["mcp__insomnia__echo"]
