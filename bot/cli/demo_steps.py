"""What the steps of the demo share: how a step looks, what later steps look back at, and the words that evidence is told in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bot.cli import CommandError
from bot.cli.demo_bot import Answer, DemoBot

RELEASE, GENERAL, HIRING = "release", "general", "hiring"
OVER_ROTATE_AT, OVER_AUTOCOMPACT = 160_000, 90_000  # tokens that the model reports; the demo's limits are 150,000 and 67,000
BELOW_BOTH = 60_000  # and far more than the context really holds


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    ok: bool
    evidence: str


@dataclass(slots=True)
class Seen:
    """What later steps look back at. `runs`: lines about the runs of extract; `record`: path of what was written, below `.insomnia`."""

    thread: str = ""
    first: Answer | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    staged: list[dict[str, Any]] = field(default_factory=list)
    record: str = ""


Act = Callable[[DemoBot, Seen], tuple[bool, str]]


def gate_of(a: Answer) -> tuple[Any, Any, Any]:
    return a.gate.get("decision"), a.gate.get("reason"), a.gate.get("injection")


def gate_told(a: Answer) -> str:
    injected = f", {many(a.gate['messages'], 'message')} injected" if a.gate.get("injection") else ""
    return f"gate {a.gate.get('decision')} ({a.gate.get('reason')}){injected}"


def needed(answer: Answer | None) -> Answer:
    if answer is None:
        raise CommandError("the first step gave no answer")
    return answer


def many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
