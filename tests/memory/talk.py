"""A session log as the bot writes it, a model by rule, and an extractor on both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.disk import Disk
from memory.extract import ExtractLimits, ExtractModel, Extractor, ExtractRequest, ModelEnd, RunResult, Session, Stage
from memory.extraction import USUAL_LIMITS
from telemetry.emit import Emit
from telemetry.memory_events import MemoryRunEnded, MemoryRunStarted, MemoryTrigger
from tests.bot.recording import RecordingEmit

SESSION = "5e551011-aaaa-4bbb-8ccc-0123456789ab"
DM, CHANNEL, OTHER = "D0ALICE", "C0TEAM", "C0BOARD"
ALICE = {"id": "U0ALICE", "name": "Alice", "role": "person"}
BOT = {"id": "U0BOT", "name": "insomnia", "role": "you"}


class Log:
    """Appends lines; `at` grows by a second with each."""

    def __init__(self, insomnia: Path, *, session: str = SESSION, route: str = "main") -> None:
        self.path = insomnia / "sessions" / route / f"{session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.session, self.route = session, route
        self.seq = 0
        self.second = 0

    def line(self, kind: str, text: str, **fields: Any) -> bytes:
        self.second += 1
        minute, second = divmod(self.second, 60)
        spoken = (
            {"speaker": ALICE, "trust": "person"} if kind == "user" else {"speaker": BOT if kind == "assistant" else None, "trust": "own"}
        )
        entry = {
            "v": 1,
            "seq": self.seq,
            "ts": f"2026-11-30T{minute // 60:02d}:{minute % 60:02d}:{second:02d}.000Z",
            "kind": kind,
            "route": self.route,
            "session_id": self.session,
            "epoch": 0,
            "thread": {"team": "T1", "channel": CHANNEL, "ts": "1.0"},
            **spoken,
            "text": text,
            "trace_id": f"{self.seq:032x}",
            "span_id": f"{self.seq:016x}",
            **fields,
        }
        return json.dumps(entry, ensure_ascii=False).encode() + b"\n"

    def add(self, kind: str, text: str, **fields: Any) -> int:
        """Its number. `channel` stands for a thread there."""
        self.seq += 1
        if "channel" in fields:
            fields["thread"] = {"team": "T1", "channel": fields.pop("channel"), "ts": "1.0"}
        with self.path.open("ab") as file:
            file.write(self.line(kind, text, **fields))
        return self.seq

    def turn(self, text: str, answer: str = "Noted.", **fields: Any) -> int:
        """The number of what was said."""
        said = self.add("user", text, **fields)
        self.add("assistant", answer, **{k: v for k, v in fields.items() if k == "channel"})
        return said


def claim(text: str, *evidence: int, kind: str = "decision", confidence: float = 0.9) -> dict[str, Any]:
    return {"kind": kind, "claim": text, "why_useful": "It will be asked again.", "evidence": list(evidence), "confidence": confidence}


def rows(request: ExtractRequest) -> list[dict[str, Any]]:
    """What may be cited, as the model sees it."""
    lines = request.prompt.split("<entries>\n")[1].split("\n</entries>")[0].split("\n")
    return [row for row in map(json.loads, lines) if "n" in row]


async def keeps(request: ExtractRequest, stage: Stage) -> ModelEnd:
    """By rule: what begins with `keep` is worth keeping."""
    stage({"candidates": [claim(row["text"], row["n"]) for row in rows(request) if row["text"].startswith("keep")]})
    return ModelEnd(model="rule")


Behaviour = Callable[[ExtractRequest, Stage], Any]


@dataclass
class FakeModel:
    """Does what `turns` say, one after the other, then `keeps`."""

    turns: list[Behaviour] = field(default_factory=list)
    requests: list[ExtractRequest] = field(default_factory=list)
    name: str = "rule"

    async def propose(self, request: ExtractRequest, stage: Stage) -> ModelEnd:
        self.requests.append(request)
        behave = self.turns.pop(0) if self.turns else keeps
        end = await behave(request, stage)
        assert isinstance(end, ModelEnd)
        return end


def ending(**how: Any) -> Behaviour:
    async def behave(request: ExtractRequest, stage: Stage) -> ModelEnd:
        return ModelEnd(**how)

    return behave


def calling(*arguments: Any) -> Behaviour:
    async def behave(request: ExtractRequest, stage: Stage) -> ModelEnd:
        for one in arguments:
            stage(one)
        return ModelEnd()

    return behave


def raising(error: BaseException) -> Behaviour:
    async def behave(request: ExtractRequest, stage: Stage) -> ModelEnd:
        raise error

    return behave


async def hangs(request: ExtractRequest, stage: Stage) -> ModelEnd:
    await asyncio.Event().wait()
    raise AssertionError


@dataclass
class FakeClock:
    at: float = 1_796_000_000.0
    ticks: float = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.ticks

    def passes(self, seconds: float) -> None:
        self.at += seconds
        self.ticks += seconds


@dataclass
class Ground:
    """A workspace with one log."""

    insomnia: Path
    model: FakeModel = field(default_factory=FakeModel)
    clock: FakeClock = field(default_factory=FakeClock)
    emit: Any = field(default_factory=RecordingEmit)
    limits: ExtractLimits = USUAL_LIMITS

    def __post_init__(self) -> None:
        self.log = Log(self.insomnia)
        self.extractor = self.restarted()

    def restarted(self, *, emit: Emit | None = None, model: ExtractModel | None = None, disk: Disk | None = None) -> Extractor:
        self.extractor = Extractor(
            self.insomnia, model=model or self.model, emit=emit or self.emit, clock=self.clock, limits=self.limits, disk=disk
        )
        return self.extractor

    @property
    def session(self) -> Session:
        return Session(id=self.log.session, route=self.log.route, log=self.log.path)

    async def run(self, trigger: MemoryTrigger = MemoryTrigger.MANUAL) -> RunResult:
        return await self.extractor.run(self.session, trigger)

    async def drain(self, trigger: MemoryTrigger = MemoryTrigger.MANUAL) -> Sequence[RunResult]:
        return await self.extractor.drain(self.session, trigger)

    @property
    def ends(self) -> list[MemoryRunEnded]:
        return self.emit.of(MemoryRunEnded)

    @property
    def starts(self) -> list[MemoryRunStarted]:
        return self.emit.of(MemoryRunStarted)

    @property
    def staged(self) -> list[dict[str, Any]]:
        return staged(self.insomnia)

    @property
    def claims(self) -> list[str]:
        return [candidate["claim"] for candidate in self.staged]

    @property
    def cursor(self) -> Mapping[str, Any]:
        return cursor(self.insomnia)


def staged(insomnia: Path) -> list[dict[str, Any]]:
    found = sorted((insomnia / "memory" / "_staging").glob("[!.]*/[!.]*.json"))
    return [json.loads(path.read_bytes()) for path in found if path.name != "batch.json"]


def cursor(insomnia: Path, session: str = SESSION) -> Mapping[str, Any]:
    path = insomnia / "memory" / "_state" / "cursors" / f"{session}.json"
    read: Mapping[str, Any] = json.loads(path.read_bytes()) if path.exists() else {"next": 1}
    return read


def all_text_below(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in sorted(folder.rglob("*")) if path.is_file())
