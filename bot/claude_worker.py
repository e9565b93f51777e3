"""One memory run's question to Claude: a CLI process of its own, locked down to the tools of that run, gone with it.

What must stay true: the process has no tool but the given ones (no shell, no files, no network), no memory of its own and
no session that could be resumed; it is ended before `work` returns or raises, and nothing of it stays on disk. Its spans
(`invoke_agent`, `chat`, `execute_tool`) hang under the span that is current when `work` is called.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.accounts import Accounts, AllRest
from bot.config import Credential
from bot.ports import Answer, ClaudeStarter, Launch, SessionDied, StartFailed, Tool, TurnDeadline, Usage
from bot.session_lock import end_holder, owned
from bot.turn_spans import PROVIDER, TurnSpans
from telemetry.emit import Emit, Span
from telemetry.events import MoneySpent
from telemetry.memory_events import MemoryWorker
from telemetry.names import Attr, SpanName

WORKERS, OWNER = Path("run", "workers"), "owner"  # below `.insomnia`: one folder a worker, where the starter puts it
AUTOCOMPACT = 200_000  # far above what a run is given: a worker that compacts has gone astray
GRACE_SECONDS = 10.0  # whoever runs the worker ends it at the deadline; this is the net below


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`key`: names the run. `max_calls`: of the model. `self_told`: tools, as the model sees their names, that open their span themselves.
    `stop`: set by a tool when nothing more is wanted of the model.
    """

    worker: MemoryWorker
    key: str
    model: str
    system: str
    prompt: str
    tools: Sequence[Tool]
    max_calls: int
    seconds: float
    stop: asyncio.Event
    self_told: Container[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`answer` is None where no turn came to an end; `lost` says why, in our own words."""

    answer: Answer | None
    usage: Usage
    lost: str = ""


class ClaudeWorker:
    """`folder`: `.insomnia`. `accounts`: those of the sessions."""

    def __init__(self, starter: ClaudeStarter, *, folder: Path, accounts: Accounts, emit: Emit) -> None:
        self._starter, self._folder, self._accounts, self._emit = starter, folder, accounts, emit

    async def work(self, job: Job) -> Done:
        """Raises nothing but cancellation, and then the process is gone."""
        session_id = str(uuid.uuid4())
        attributes = {
            Attr.GEN_AI_OPERATION: "invoke_agent",
            Attr.GEN_AI_AGENT: job.worker.value,
            Attr.GEN_AI_PROVIDER: PROVIDER,
            Attr.GEN_AI_CONVERSATION_ID: session_id,
        }
        spans = TurnSpans(self._emit, route=job.worker.value, model=job.model, self_told=job.self_told)
        with self._emit.span(SpanName.INVOKE_AGENT, attributes, label=job.worker.value) as span:
            failed = "interrupted"
            try:
                done = await self._ask(job, session_id, spans)
                failed = done.lost or (done.answer.error if done.answer else "") or ""
            finally:
                spans.finish(failed or None)
            self._tell(span, job, done)
        return done

    async def _ask(self, job: Job, session_id: str, spans: TurnSpans) -> Done:
        try:
            under = self._accounts.choose()
            answer = await self._turn(job, session_id, spans, under)
        except AllRest:
            return Done(answer=None, usage=spans.usage, lost="all_accounts_rest")
        except (StartFailed, OSError):
            return Done(answer=None, usage=spans.usage, lost="start_failed")
        except SessionDied:
            return Done(answer=None, usage=spans.usage, lost="session_died")
        except TurnDeadline:
            return Done(answer=None, usage=spans.usage, lost="deadline")
        if answer.resets_at is not None:  # whatever else refused a worker need not refuse a session
            self._accounts.heard(under.account, answer)
        return Done(answer=answer, usage=spans.usage)

    async def _turn(self, job: Job, session_id: str, spans: TurnSpans, under: Credential) -> Answer:
        home = self._folder / WORKERS / job.key
        async with AsyncExitStack() as stack:
            stack.callback(shutil.rmtree, home, ignore_errors=True)
            stack.enter_context(_owning(home))
            process = await self._starter.start(self._launch(job, session_id, under), on_exit=lambda _: None, on_stray=lambda _: None)
            stack.push_async_callback(process.close)
            async with _stopping(job.stop, process.interrupt):
                return await process.send(job.prompt, on_event=spans.on_event, seconds=job.seconds + GRACE_SECONDS)

    def _launch(self, job: Job, session_id: str, under: Credential) -> Launch:
        return Launch(
            key=job.key,
            session_id=session_id,
            resume=False,
            model=job.model,
            autocompact=AUTOCOMPACT,
            system_prompt=job.system,
            own_tools=job.tools,
            credential=(under.variable, under.value),
            one_shot=True,
            max_calls=job.max_calls,
        )

    def _tell(self, span: Span, job: Job, done: Done) -> None:
        u = done.usage
        span.set({Attr.GEN_AI_INPUT_TOKENS: u.occupancy, Attr.GEN_AI_OUTPUT_TOKENS: u.output, Attr.GEN_AI_CACHE_READ_TOKENS: u.cache_read})
        if done.lost:
            span.fail(done.lost)
        if done.answer is None:
            return
        span.set({Attr.COST_USD: done.answer.cost_usd})
        if done.answer.error and not job.stop.is_set():  # where it was told to stop, it answers that it was interrupted
            span.fail(done.answer.error)
        for model, usd in done.answer.cost_by_model.items():
            self._emit(MoneySpent(route=job.worker.value, model=model, usd=usd))


def end_orphans(folder: Path) -> None:
    """Workers whose bot was killed: a model that hangs would keep them for minutes. Those of living processes are left alone."""
    for home in (folder / WORKERS).glob("*/"):
        if (home / OWNER).exists() and (owner := owned(home / OWNER)) is not None:
            end_holder(home / "lock")
            shutil.rmtree(home, ignore_errors=True)
            os.close(owner)


@contextmanager
def _owning(home: Path) -> Iterator[None]:
    """Held by this process and not by its child, so that others can tell an orphan."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    owner = owned(home / OWNER)
    try:
        yield
    finally:
        if owner is not None:
            os.close(owner)


@asynccontextmanager
async def _stopping(stop: asyncio.Event, interrupt: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Interrupts the turn inside the block once `stop` is set: no further call of the model is paid for."""
    watch = asyncio.get_running_loop().create_task(_interrupt_at(stop, interrupt))  # owned here, and ended below
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _interrupt_at(stop: asyncio.Event, interrupt: Callable[[], Awaitable[None]]) -> None:
    await stop.wait()
    with suppress(SessionDied):  # the turn's own end tells
        await interrupt()
