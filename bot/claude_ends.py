"""How a worker process's work ended, in the memory's words.

What must stay true: a verdict on the prompt itself (too long, never taken) is told apart from an outage, or extract would
set aside what was fine; nothing that a model or a provider wrote goes into `detail`.
"""

from __future__ import annotations

from bot.claude_worker import Done
from bot.ports import Answer
from memory.model_end import ModelEnd, ModelHow
from telemetry.memory_events import TokenUsage

BAD_REQUEST = 400


def model_end(done: Done, *, model: str, stopped: bool) -> ModelEnd:
    """`stopped`: by a tool, as nothing more was wanted."""
    how, detail = _how(done, stopped=stopped)
    u, answer = done.usage, done.answer
    usage = TokenUsage(input=u.input, output=u.output, cache_read=u.cache_read, cache_creation=u.cache_write)
    return ModelEnd(how=how, model=model, usage=usage, cost_usd=answer.cost_usd if answer else None, detail=detail)


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
