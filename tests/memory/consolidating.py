"""Staged candidates, a model by rule, and a consolidator on both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from memory.consolidation.consolidator import Consolidator
from memory.consolidation.model import CallTool, ConsolidationRequest
from memory.consolidation.outcome import Result
from memory.consolidation.run import ConsolidationLimits
from memory.cursors import Cursor, Cursors
from memory.disk import Disk
from memory.model_end import ModelEnd
from memory.records import Record, Scope, Trust
from memory.staging import Batch, Staging
from memory.store import Store
from telemetry.emit import Emit
from telemetry.memory_events import MemoryTrigger, RecordKind
from tests.bot.recording import RecordingEmit
from tests.memory.made_records import NOW

SESSION = "5e551011-aaaa-4bbb-8ccc-0123456789ab"
STAGED = "2026-11-30T10:00:00Z"
USUAL = ConsolidationLimits()


class Clock:
    def __init__(self, at: float = NOW + 7_200.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def candidate(
    claim: str, *, kind: str = "decision", scope: str = "workspace", trust: str = "user", n: int = 1, **changed: Any
) -> dict[str, Any]:
    """As extract stages it, but for its id."""
    return {
        "run_id": "extract1",
        "session_id": SESSION,
        "route": "main",
        "range": (n, n + 1),
        "staged_at": STAGED,
        "said_at": "2026-11-30T09:00:00.000Z",
        "kind": kind,
        "claim": claim,
        "why_useful": "It will be asked again.",
        "confidence": 0.9,
        "scope": scope,
        "trust": trust,
        "evidence": [
            {"n": n, "ts": "2026-11-30T09:00:00.000Z", "by": "U0ALICE", "trust": trust, "trace_id": f"{n:032x}", "excerpt": claim}
        ],
        **changed,
    }


def stage(insomnia: Path, *candidates: dict[str, Any], start: int = 1, session: str = SESSION, read: bool = True) -> list[str]:
    """Their ids. `read`: the cursor is past them, as after a whole extraction."""
    cursor = Cursor(next=start + 2, run_id=f"extract{start}")
    batch = Batch(session_id=session, route="main", start=start, cursor=cursor, run_id=f"extract{start}", entries=2, staged_at=STAGED)
    published = Staging(insomnia / "memory", disk=Disk()).publish(batch, [{**each, "session_id": session} for each in candidates])
    if read:
        Cursors(insomnia / "memory" / "_state", disk=Disk()).advance(session, cursor)
    return list(published.ids)


def waiting(insomnia: Path) -> list[str]:
    return [str(found["claim"]) for found in Staging(insomnia / "memory", disk=Disk()).pending().candidates]


class Hand:
    """The tools, as a rule uses them: `await hand("memory_write", kind=…)` gives the answer as an object."""

    def __init__(self, request: ConsolidationRequest, call: CallTool) -> None:
        self.request, self._call = request, call

    async def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self._call(name, {key.rstrip("_"): value for key, value in arguments.items()}, "toolu_1")
        said: dict[str, Any] = json.loads(answer.text)
        assert answer.failed == ("error" in said)
        return {**said, "stop": answer.stop}

    async def candidates(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self("staging_list"))["candidates"]
        return found

    def claims(self) -> dict[str, str]:
        """By id, as the prompt shows them."""
        rows = self.request.prompt.partition("<candidates>\n")[2].partition("\n</candidates>")[0].splitlines()
        return {one["id"]: one["claim"] for one in map(json.loads, rows)}

    async def write(self, slug: str, *ids: str, **changed: Any) -> dict[str, Any]:
        """What it is to be is said in the words of the candidates, unless in others."""
        claims = self.claims()
        fields = {
            "kind": "decision",
            "slug": slug,
            "title": "A note",
            "description": "When it comes up",
            "content": "\n".join([f"What {slug} is.", *(claims[one] for one in ids if one in claims)]),
        }
        return await self("memory_write", **{**fields, "candidates": list(ids), **changed})


F = TypeVar("F")
Rule = Callable[[Hand], Awaitable[ModelEnd | None]]


async def writes_all(hand: Hand) -> ModelEnd | None:
    """A record for each candidate; its claim is the text."""
    for number, one in enumerate(await hand.candidates()):
        slug = f"note-{one['id'].rpartition('.')[0].replace('.', '-')}-{number}"
        await hand.write(slug, one["id"], content=one["claim"], kind=one["kind"])
    return None


@dataclass
class RuleModel:
    """`rules`: one a run; the last one goes on."""

    rules: list[Rule]
    name: str = "rule"
    requests: list[ConsolidationRequest] = field(default_factory=list)
    wrong: AssertionError | None = None

    async def work(self, request: ConsolidationRequest, call: CallTool) -> ModelEnd:
        self.requests.append(request)
        rule = self.rules.pop(0) if len(self.rules) > 1 else self.rules[0]
        try:
            return await rule(Hand(request, call)) or ModelEnd(model="claude-x")
        except AssertionError as wrong:
            self.wrong = wrong
            raise


class Bench:
    """A workspace with a consolidator in it."""

    def __init__(
        self, insomnia: Path, *rules: Rule, emit: Emit | None = None, limits: ConsolidationLimits = USUAL, disk: Disk | None = None
    ) -> None:
        self.insomnia, self.store = insomnia, Store(insomnia)
        insomnia.mkdir(parents=True, exist_ok=True)
        self.emit = emit or RecordingEmit()
        self.clock, self.model = Clock(), RuleModel(list(rules) or [writes_all])
        self.limits = limits
        self.consolidator = self.restarted(disk=disk)

    def restarted(self, *, emit: Emit | None = None, disk: Disk | None = None) -> Consolidator:
        self.consolidator = Consolidator(
            self.insomnia, model=self.model, emit=emit or self.emit, clock=self.clock, limits=self.limits, disk=disk
        )
        return self.consolidator

    async def run(self, trigger: MemoryTrigger = MemoryTrigger.MANUAL) -> Result:
        result = await self.consolidator.run(trigger)
        if self.model.wrong:  # to the run it was one more failure of its model
            raise self.model.wrong
        return result

    def ran(self, trigger: MemoryTrigger = MemoryTrigger.MANUAL) -> Result:
        return asyncio.run(self.run(trigger))

    def told(self, kind: type[F]) -> list[F]:
        assert isinstance(self.emit, RecordingEmit)
        return [fact for fact, _ in self.emit.told if isinstance(fact, kind)]

    def records(self) -> dict[str, Record]:
        return {f"{each.kind}/{each.slug}": each for each in self.store.view().records()}

    def put(self, *records: Record) -> None:
        for each in records:
            self.store.write(each, None)

    def bodies(self) -> Sequence[str]:
        return sorted(each.body for each in self.store.view().records())


WORKSPACE, USER = Scope.workspace(), Trust.USER
DECISION = RecordKind.DECISION
