"""A workspace in which the memory worked, with the traces, lines and manifests that a bot leaves of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.cli import dispatch
from bot.config import load_settings
from bot.main import telemetry_of
from bot.workspace import Workspace
from memory.consolidation.journal import Journals
from memory.consolidation.outcome import Result
from memory.model_end import ModelEnd
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import (
    ExtractWork,
    MemoryReason,
    MemoryRunEnded,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    TokenUsage,
)
from telemetry.names import Attr, SpanName
from telemetry.setup import telemetry
from telemetry.trace_rows import Begun
from telemetry.trace_store import DELAY_SECONDS
from telemetry.trace_writing import TraceWriter
from telemetry.troubles import Troubles
from tests.memory.consolidating import Bench, Hand, Rule, candidate, stage
from tests.telemetry.made_traces import Made, trace_id

Capture = pytest.CaptureFixture[str]
FIRST, SECOND = "The freeze starts Friday 15:00.", "金曜の午後はデプロイしない。例外は部長に聞く。"


class Remembering:
    """`bench` runs consolidations by rules; each call of `run` is a process with telemetry of its own."""

    def __init__(self, folder: Path, *rules: Rule) -> None:
        self.workspace = Workspace(folder)
        folder.mkdir(exist_ok=True)
        self.workspace.prepare()
        self.bench = Bench(self.workspace.state, *rules)
        self.bench.clock.at = time.time()

    @property
    def state(self) -> Path:
        return self.workspace.state

    @contextmanager
    def emitting(self) -> Iterator[Emit]:
        with telemetry(telemetry_of(load_settings(self.workspace.root, {}), self.workspace)) as emit:
            yield emit

    def run(self, *rules: Rule, trigger: MemoryTrigger = MemoryTrigger.MANUAL, link: TraceRef | None = None) -> Result:
        if rules:
            self.bench.model.rules = list(rules)
        with self.emitting() as emit:
            consolidator = self.bench.restarted(emit=emit)
            result = asyncio.run(consolidator.run(trigger, link=link))
        if self.bench.model.wrong:
            raise self.bench.model.wrong
        self.bench.clock.at += 1.0
        return result

    def replies(self, *made: Made) -> None:
        """In the trace store."""
        writer = TraceWriter(self.workspace.traces_db, troubles=Troubles(), seconds=1e9, max_bytes=1 << 30)
        for one in made:
            assert writer.write([Begun(one.spans[0]), *one.spans]) == 0
        writer.close()

    def command(self, *argv: str) -> int:
        return dispatch(["memory", *argv, "--workspace", str(self.workspace.root)])

    def operations(self) -> list[dict[str, Any]]:
        """Lines of the memory's log."""
        log = self.state / "memory" / "_logs" / "current.log"
        return [line for line in map(json.loads, log.read_text("utf-8").splitlines()) if line["event"] == "record_operation"]

    @property
    def is_committing(self) -> bool:
        return (self.state / "memory" / "_state" / "journal.json").exists()

    def texts(self) -> dict[str, bytes]:
        """Every record's file, by its path below `.insomnia`."""
        folders = [self.state / "knowledge", *(path for path in (self.state / "memory").iterdir() if path.name[0] not in "_.")]
        return {str(path.relative_to(self.state)): path.read_bytes() for folder in folders for path in folder.glob("*.md")}

    def tree(self) -> dict[str, bytes]:
        """Every file there is, but for what SQLite keeps beside a database that is being read."""
        files = (path for path in sorted(self.state.rglob("*")) if path.is_file() and not path.name.endswith(("-wal", "-shm")))
        return {str(path.relative_to(self.state)): path.read_bytes() for path in files}


def two_notes(there: Remembering) -> Sequence[str]:
    """Two candidates of the replies 1 and 2, and the ids of both."""
    return stage(
        there.state,
        candidate(FIRST, n=1, evidence=[evidence(FIRST, 1)]),
        candidate(SECOND, n=3, evidence=[evidence(SECOND, 2)]),
    )


def evidence(text: str, reply: int) -> dict[str, object]:
    return {"n": reply, "ts": "2026-11-30T09:00:00.000Z", "by": "U0ALICE", "trust": "user", "trace_id": trace_id(reply), "excerpt": text}


def writes(*slugs: str) -> Rule:
    """A record for each candidate in turn."""

    async def rule(hand: Hand) -> ModelEnd | None:
        for slug, one in zip(slugs, await hand.candidates(), strict=True):
            await hand.write(slug, one["id"], content=one["claim"], title=f"About {slug}")
        return None

    return rule


def wrote(there: Remembering, *, link: TraceRef | None = None) -> str:
    """Two records; the run's id."""
    two_notes(there)
    return there.run(writes("deploy-freeze", "friday-freeze"), link=link).run_id


def merged(there: Remembering, *, link: TraceRef | None = None) -> str:
    """One of the two records went into the other, after a first try that was refused; the run's id."""
    stage(there.state, candidate("Hello, all of you.", n=5), candidate("The freeze is on kestrel-12.", n=7), start=5)
    return there.run(then(_merges), link=link).run_id


async def _merges(hand: Hand, ids: list[str]) -> None:
    await hand("memory_query", query="freeze")
    await hand("memory_merge", kind="decision", slug="deploy-freeze", from_=["friday-freeze"], content="There is a freeze.")
    text = f"{FIRST} {SECOND} On kestrel-12."
    await hand("memory_merge", kind="decision", slug="deploy-freeze", from_=["friday-freeze"], content=text, candidates=[ids[1]])
    await hand("staging_resolve", candidate=ids[0], disposition="discarded", reason="あいさつだけ。")


def extracted(there: Remembering, *, run_id: str = "x1", reason: MemoryReason = MemoryReason.CANDIDATES_FOUND, **told: Any) -> None:
    """An extract run, as its worker tells it."""
    about = {Attr.MEMORY_RUN_ID: run_id, Attr.MEMORY_WORKER: MemoryWorker.EXTRACT, Attr.MEMORY_TRIGGER: MemoryTrigger.SESSION_END}
    work = ExtractWork(session_id="5e551011-aaaa", route="main", range=(12, 40), entries=20, staged=3)
    usual = {"status": MemoryStatus.COMPLETED, "seconds": 2.0, "extract": work, "usage": TokenUsage(input=1)}
    with there.emitting() as emit:
        span = emit.begin(SpanName.MEMORY_RUN, about, label=MemoryWorker.EXTRACT, root=True)
        with emit.within(span):
            turn = {Attr.COST_USD: 0.0123}
            with emit.span(SpanName.INVOKE_AGENT, turn, label=MemoryWorker.EXTRACT):
                tokens = {Attr.GEN_AI_RESPONSE_MODEL: "claude-x", Attr.GEN_AI_INPUT_TOKENS: 900, Attr.GEN_AI_OUTPUT_TOKENS: 40}
                with emit.span(SpanName.CHAT, tokens, label="claude-x"):
                    pass
            emit(
                MemoryRunEnded(
                    run_id=run_id, worker=MemoryWorker.EXTRACT, trigger=MemoryTrigger.SESSION_END, reason=reason, **{**usual, **told}
                )
            )
        span.end()


def then(work: Callable[[Hand, list[str]], object]) -> Rule:
    """`work(hand, ids of the candidates)`, a coroutine."""

    async def rule(hand: Hand) -> ModelEnd | None:
        await work(hand, [one["id"] for one in await hand.candidates()])  # type: ignore[misc]
        return None

    return rule


def is_killed_after_the_commit(folder: Path) -> None:
    """A process of its own; what its tools did is in the trace store by then, and the end of the run is not."""

    def dies(*_: object) -> None:
        time.sleep(4 * DELAY_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    Journals.close = dies  # type: ignore[method-assign]
    Remembering(folder).run(writes("deploy-freeze", "friday-freeze"))


if __name__ == "__main__":
    is_killed_after_the_commit(Path(sys.argv[1]))


def rows(capsys: Capture) -> list[str]:
    """What a command printed, without the time, which is the machine's."""
    return [line[18:] for line in capsys.readouterr().out.splitlines()]


def as_json(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)
