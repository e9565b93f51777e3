"""Claude as the model that extract asks: one worker process, one tool, and what came of it in extract's words.

What must stay true: a verdict on the range itself (too long, never taken) is told apart from an outage, or extract would
set aside what was fine; nothing that a model or a provider wrote goes into `detail`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from bot.claude_worker import ClaudeWorker, Done, Job
from bot.ports import Answer, Tool, ToolResult
from memory.extract_model import STAGE_DESCRIPTION, STAGE_SCHEMA, STAGE_TOOL, ExtractRequest, Stage
from memory.model_end import ModelEnd, ModelHow
from telemetry.memory_events import MemoryWorker, TokenUsage

BAD_REQUEST = 400


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
                seconds=request.seconds,
                stop=stop,
            )
        )
        how, detail = _how(done, stopped=stop.is_set())
        u, answer = done.usage, done.answer
        usage = TokenUsage(input=u.input, output=u.output, cache_read=u.cache_read, cache_creation=u.cache_write)
        return ModelEnd(how=how, model=self.name, usage=usage, cost_usd=answer.cost_usd if answer else None, detail=detail)


def _how(done: Done, *, stopped: bool) -> tuple[ModelHow, str]:
    if stopped:
        return ModelHow.ENDED, ""
    if done.answer is None:
        return ModelHow.ERROR, done.lost.replace("_", " ")
    return _verdict(done.answer)


def _verdict(answer: Answer) -> tuple[ModelHow, str]:
    detail = f"HTTP {answer.status}" if answer.status else ""
    match answer.error:
        case None | "max_turns" | "error_max_turns" | "max_output_tokens":  # it wrote or called too much: an end like any other
            return ModelHow.ENDED, ""
        case "prompt_too_long":
            return ModelHow.OVERFLOW, detail
        case "invalid_request":  # the model itself refused
            return ModelHow.REFUSED, detail or "refused by the model"
        case _ if answer.status == BAD_REQUEST:
            return ModelHow.REFUSED, detail
        case _:
            return ModelHow.ERROR, detail or "no connection to the model"
