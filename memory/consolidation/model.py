"""The model that consolidation asks, as a port: a prompt, and tools that are called by name.

What must stay true: nothing that a model sends raises or reaches a file; a tool's answer says what was wrong and how to mend it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory.model_end import ModelEnd
from memory.tools import Json, ToolAnswer, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRequest:
    """`system` and `prompt` are complete, secrets taken out. `seconds`: after that the run is given up; the model is cancelled."""

    run_id: str
    system: str
    prompt: str
    tools: Sequence[ToolSpec]
    seconds: float


# (name, arguments, the provider's id of the tool use). Never raises but for cancellation.
CallTool = Callable[[str, Json, str], Awaitable[ToolAnswer]]


class ConsolidationModel(Protocol):
    """`name` is told in the run's first line, \"\" where it is not known yet."""

    @property
    def name(self) -> str: ...

    async def work(self, request: ConsolidationRequest, call: CallTool) -> ModelEnd:
        """Shows the model the prompt and hands each tool call to `call`, until its turn ends, or an answer says `stop`.

        Runs in the context of the run's span, so that a child process joins its trace. Whatever it raises ends the run as
        `model_error`; cancellation goes on.
        """
