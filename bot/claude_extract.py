"""Claude as the model that extract asks: one worker process, one tool, and what came of it in extract's words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from bot.claude_ends import model_end
from bot.claude_worker import ClaudeWorker, Job
from bot.ports import Tool, ToolResult
from memory.extract_model import STAGE_DESCRIPTION, STAGE_SCHEMA, STAGE_TOOL, ExtractRequest, Stage
from memory.model_end import ModelEnd
from telemetry.memory_events import MemoryWorker

MAX_CALLS = 20  # one tool call is one, and a refused one is to be mended once or twice


class ClaudeExtractModel:
    def __init__(self, worker: ClaudeWorker, *, model: str) -> None:
        self._worker, self.name = worker, model

    async def propose(self, request: ExtractRequest, stage: Stage) -> ModelEnd:
        stop = asyncio.Event()

        async def hand_in(arguments: Mapping[str, Any], _: str) -> ToolResult:
            result = stage(arguments)
            if result.stop:
                stop.set()
            return ToolResult(json.dumps(result.as_json(), ensure_ascii=False), failed=not result.ok)

        done = await self._worker.work(
            Job(
                worker=MemoryWorker.EXTRACT,
                key=request.run_id,
                model=self.name,
                system=request.system,
                prompt=request.prompt,
                tools=(Tool(name=STAGE_TOOL, description=STAGE_DESCRIPTION, schema=STAGE_SCHEMA, call=hand_in),),
                max_calls=MAX_CALLS,
                seconds=request.seconds,
                stop=stop,
            )
        )
        return model_end(done, model=self.name, stopped=stop.is_set())
