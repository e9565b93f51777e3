"""Claude as the model that consolidation asks: one worker process, the tools of the run and no other.

What must stay true: a tool's answer reaches the model as the run gave it; once one says `stop`, the turn ends and no further call
of the model is paid for. The tools open their spans themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from bot.claude_ends import model_end
from bot.claude_mcp import full_names
from bot.claude_worker import ClaudeWorker, Job
from bot.ports import Tool, ToolResult
from memory.consolidation.model import CallTool, ConsolidationRequest
from memory.model_end import ModelEnd
from telemetry.memory_events import MemoryWorker

MAX_CALLS = 120  # forty candidates with a query, a change and a mend each; a model that calls several tools at once needs far fewer


class ClaudeConsolidationModel:
    def __init__(self, worker: ClaudeWorker, *, model: str) -> None:
        self._worker, self.name = worker, model

    async def work(self, request: ConsolidationRequest, call: CallTool) -> ModelEnd:
        stop = asyncio.Event()
        tools = [
            Tool(name=spec.name, description=spec.description, schema=spec.schema, call=partial(_answer, call, stop, spec.name))
            for spec in request.tools
        ]
        done = await self._worker.work(
            Job(
                worker=MemoryWorker.CONSOLIDATION,
                key=request.run_id,
                model=self.name,
                system=request.system,
                prompt=request.prompt,
                tools=tools,
                self_told=frozenset(full_names(tools)),
                max_calls=MAX_CALLS,
                seconds=request.seconds,
                stop=stop,
            )
        )
        return model_end(done, model=self.name, stopped=stop.is_set())


async def _answer(call: CallTool, stop: asyncio.Event, name: str, arguments: Mapping[str, Any], use_id: str) -> ToolResult:
    answer = await call(name, arguments, use_id)
    if answer.stop:
        stop.set()
    return ToolResult(answer.text, failed=answer.failed)
