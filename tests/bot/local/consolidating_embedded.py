"""The embedded model as the model of a consolidation, without CLI and HTTP: the conversation grows as the CLI would send it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.local.model_answers import by_rules
from bot.local.model_record import RequestRecord
from bot.local.model_steps import ToolCall
from bot.local.model_turns import TOOLS
from memory.consolidation.consolidator import Consolidator
from memory.consolidation.model import CallTool, ConsolidationRequest
from memory.consolidation.outcome import Result
from memory.model_end import ModelEnd
from memory.records import Record
from memory.store import Store
from telemetry.memory_events import MemoryTrigger
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Clock, candidate, stage

MOST_REQUESTS = 120  # as many as the bot allows the CLI


class EmbeddedConsolidation:
    """`calls`: (tool, arguments) of each. `refused`: codes of the answers that were errors. `said`: how its turn ended."""

    name = "embedded"

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.refused: list[str] = []
        self.said = ""

    async def work(self, request: ConsolidationRequest, call: CallTool) -> ModelEnd:
        offered = [{"name": f"{TOOLS}{spec.name}"} for spec in request.tools]
        messages: list[dict[str, Any]] = [{"role": "user", "content": request.prompt}]
        for number in range(MOST_REQUESTS):
            body = {"system": request.system, "tools": offered, "messages": messages}
            self.said, tool = by_rules(RequestRecord().add(body, key="k", size=1))
            if tool is None:
                break
            messages += [_use(tool, f"toolu_{number}"), await self._result(tool, f"toolu_{number}", call)]
        return ModelEnd(model=self.name)

    async def _result(self, tool: ToolCall, use_id: str, call: CallTool) -> dict[str, Any]:
        name = tool.name.removeprefix(TOOLS)
        self.calls.append((name, tool.input))
        answer = await call(name, tool.input, use_id)
        if answer.failed:
            self.refused.append(answer.text)
        result = {"type": "tool_result", "tool_use_id": use_id, "is_error": answer.failed, "content": answer.text}
        return {"role": "user", "content": [result]}


def _use(tool: ToolCall, use_id: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": use_id, "name": tool.name, "input": dict(tool.input)}]}


class Desk:
    """A workspace whose memory the embedded model keeps."""

    def __init__(self, insomnia: Path) -> None:
        insomnia.mkdir(parents=True, exist_ok=True)
        self.insomnia, self.model, self.store = insomnia, EmbeddedConsolidation(), Store(insomnia)
        self.consolidator = Consolidator(insomnia, model=self.model, emit=RecordingEmit(), clock=Clock())
        self._staged = 1

    def stage(self, *claims: str, **changed: Any) -> list[str]:
        """Said one after the other."""
        said = [candidate(claim, n=self._staged + at, **changed) for at, claim in enumerate(claims)]
        ids = stage(self.insomnia, *said, start=self._staged)
        self._staged += 1 + len(claims)
        return ids

    async def run(self) -> Result:
        """One more; what it calls stands alone."""
        self.model.calls, self.model.refused = [], []
        return await self.consolidator.run(MemoryTrigger.MANUAL)

    async def told(self, *claims: str, **changed: Any) -> Result:
        self.stage(*claims, **changed)
        return await self.run()

    @property
    def records(self) -> dict[str, Record]:
        return {f"{each.kind}/{each.slug}": each for each in self.store.view().records()}

    @property
    def texts(self) -> dict[str, str]:
        """Text -> status."""
        return {each.body: str(each.status) for each in self.store.view().records()}

    @property
    def called(self) -> list[str]:
        return [name for name, _ in self.model.calls]
