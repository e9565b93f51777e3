"""The embedded model as a test lets it consolidate: a rule says which tool is called next, from what the one before answered.

Everybody but a consolidation worker is answered as ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from bot.local.model_record import ModelRequest
from bot.local.model_script import Script
from bot.local.model_steps import Hang, Respond, Step, ToolCall
from bot.local.model_turns import turns

PREFIX = "mcp__insomnia__"
Answer = dict[str, Any]
Talk = Generator[ToolCall, Answer, None]
Rule = Callable[[Sequence[Mapping[str, Any]]], Talk]  # from the candidates of the prompt


def use(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(PREFIX + tool, arguments)


def is_consolidation(asked: ModelRequest) -> bool:
    return any(tool.get("name") == f"{PREFIX}staging_list" for tool in asked.body.get("tools", ()))


def candidates_of(prompt: str) -> list[dict[str, Any]]:
    inside = prompt.partition("<candidates>")[2].partition("</candidates>")[0]
    return [json.loads(line) for line in inside.splitlines() if line]


class Filing(Script):
    """`hangs`: it never answers, from then on. `asked`: how often a worker did."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self._rule, self._talks = rule, dict[str, Talk]()
        self.hangs, self.asked = False, 0

    def take(self, asked: ModelRequest) -> Step | None:  # type: ignore[override]
        if not is_consolidation(asked):
            return super().take(asked)
        self.asked += 1
        if self.hangs:
            return Step(effect=Hang())
        return Step(effect=Respond(text="Filed.", tool=self._next(asked)))

    def _next(self, asked: ModelRequest) -> ToolCall | None:
        conversation = turns(asked.body)
        try:
            if asked.session_id not in self._talks:
                talk = self._talks[asked.session_id] = self._rule(candidates_of(asked.newest_user_text))
                return next(talk)
            return self._talks[asked.session_id].send(_object(conversation[-1].results))
        except StopIteration:
            return None


def _object(results: Sequence[str]) -> Answer:
    try:
        found = json.loads(results[-1]) if results else {}
    except ValueError:
        return {"text": results[-1]}
    return found if isinstance(found, dict) else {}


def files_each(candidates: Sequence[Mapping[str, Any]]) -> Talk:
    """A search, and a record of its own for each candidate."""
    for number, one in enumerate(candidates):
        yield use("memory_query", query=one["claim"])
        yield use(
            "memory_write",
            kind="decision",
            slug=f"note-{number}",
            title="A decision",
            description="When the matter comes up",
            content=one["claim"],
            candidates=[one["id"]],
        )
