"""Tools of our own process, offered to one CLI process over its control protocol: an MCP server without a socket.

What must stay true: every request gets exactly one answer, whatever its tool does (raises, hangs, returns a book); a tool
runs in the context of the turn that asked, so its spans and its asker are that turn's; its task ends with the turn, and
with the process. The names of arguments and their values are the model's: no word of them is printed.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bot.ports import Tool, ToolResult
from bot.version import VERSION

SERVER = "insomnia"
PREFIX = f"mcp__{SERVER}__"  # so the model sees the tools of this server
PROTOCOL = "2025-11-25"  # where the CLI does not say which one it speaks
RESULT_CHARS = 20_000  # above 25,000 tokens (Japanese: as many characters) the CLI puts a result into a file, which nobody may read
TOOL_SECONDS = 30.0  # a tool that takes longer is stuck: reads and stagings take milliseconds
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
USE_ID = "claudecode/toolUseId"

Json = Mapping[str, Any]


class BadRequest(Exception):
    """A JSON-RPC error: `code` and a sentence for whoever asked."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ToolServer:
    """The protocol: one JSON-RPC message in, its answer out. Never raises but for cancellation."""

    def __init__(self, tools: Sequence[Tool], *, seconds: float = TOOL_SECONDS) -> None:
        self._tools, self._seconds = {tool.name: tool for tool in tools}, seconds

    async def answer(self, message: Json) -> Json:
        """A notification is answered too: the control request that carried it wants its response."""
        envelope = {"jsonrpc": "2.0", **({"id": message["id"]} if "id" in message else {})}
        try:
            return {**envelope, "result": await self._result(str(message.get("method")), _object(message.get("params")))}
        except BadRequest as e:
            return {**envelope, "error": {"code": e.code, "message": str(e)}}

    async def _result(self, method: str, params: Json) -> Json:
        match method:
            case "initialize":
                version = str(params.get("protocolVersion") or PROTOCOL)
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": SERVER, "version": VERSION}}
            case "notifications/initialized" | "notifications/cancelled" | "ping":
                return {}
            case "tools/list":
                tools = self._tools.values()
                return {"tools": [{"name": t.name, "description": t.description, "inputSchema": dict(t.schema)} for t in tools]}
            case "tools/call":
                return _told(await self._call(params))
            case _:
                raise BadRequest(METHOD_NOT_FOUND, f"this server does not know the method {method!r:.100}")

    async def _call(self, params: Json) -> ToolResult:
        name, arguments = str(params.get("name")), params.get("arguments", {})
        tool = self._tools.get(name)
        if tool is None or not isinstance(arguments, Mapping):
            raise BadRequest(INVALID_PARAMS, f"no tool {name!r:.100} with such arguments; there are: {', '.join(self._tools) or 'none'}")
        use_id = str(_object(params.get("_meta")).get(USE_ID) or "")
        try:
            async with asyncio.timeout(self._seconds):
                return await tool.call(arguments, use_id)
        except TimeoutError:
            return ToolResult(f"{name} did not end within {self._seconds:g} s and was given up; go on without it", failed=True)
        except Exception as e:  # noqa: BLE001 - the boundary: a tool's mistake is told to the model, never a CLI that waits for ever
            print(f"insomnia: {type(e).__name__} in the tool {name}", file=sys.stderr)
            traceback.print_tb(e.__traceback__, limit=-3)
            return ToolResult(f"{name} failed inside the bot; go on without it", failed=True)


class ToolCalls:
    """The requests of one CLI process that are under way. `respond` writes a control response."""

    def __init__(self, tools: Sequence[Tool], *, respond: Callable[[str, Json], None]) -> None:
        self._server, self._respond = ToolServer(tools), respond
        self._offers = bool(tools)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def take(self, line: Json, context: contextvars.Context) -> bool:
        """Answers in a task of its own: the reader reads on. False: the request is not for this server."""
        request, asked = str(line.get("request_id")), _object(line.get("request"))
        ours = self._offers and asked.get("subtype") == "mcp_message" and asked.get("server_name") == SERVER
        if not ours:
            return False
        work = self._answer(request, _object(asked.get("message")))
        task = self._tasks[request] = asyncio.get_running_loop().create_task(work, context=context)
        task.add_done_callback(lambda _: self._tasks.pop(request, None))
        return True

    async def _answer(self, request: str, message: Json) -> None:
        self._respond(request, {"mcp_response": await self._server.answer(message)})

    def cancel(self, request: str) -> None:
        if (task := self._tasks.get(request)) is not None:
            task.cancel()

    def cancel_all(self) -> None:
        """The turn is over: nobody waits for an answer any more."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def end(self) -> None:
        """The process is to end: no tool of it runs on."""
        self.cancel_all()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def config_arguments(tools: Sequence[Tool]) -> list[str]:
    """What makes the CLI ask us for them."""
    if not tools:
        return []
    return ["--mcp-config", json.dumps({"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}})]


def full_names(tools: Sequence[Tool]) -> list[str]:
    return [f"{PREFIX}{tool.name}" for tool in tools]


def _told(result: ToolResult) -> Json:
    text = result.text.encode("utf-8", "replace").decode()
    if len(text) > RESULT_CHARS:
        text = f"{text[:RESULT_CHARS]}\n[cut here: {RESULT_CHARS} of {len(text)} characters are shown]"
    return {"content": [{"type": "text", "text": text}], "isError": result.failed}


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}
