"""Puts the parts of the memory together from the settings, for a running bot and for a command alike."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bot.accounts import Accounts
from bot.claude_cli import CliStarter
from bot.claude_consolidation import ClaudeConsolidationModel
from bot.claude_extract import ClaudeExtractModel
from bot.claude_launch import Cli
from bot.claude_worker import ClaudeWorker, end_orphans
from bot.clock import SystemClock
from bot.config_schema import MemoryTable
from bot.memory_consolidating import Consolidations
from bot.memory_counting import MemoryCounting
from bot.memory_workers import MemoryWorkers
from bot.messages import Channel, ChannelKind
from bot.workspace import Workspace
from memory.consolidation.consolidator import Consolidator
from memory.consolidation.outcome import Result
from memory.extract import Extractor, RunResult
from memory.provenance import by_channel_id
from memory.reading_tools import ReadingTools
from memory.record_types import Scope
from memory.redact import redact
from memory.store import Store, StoreBusy
from memory.store_audit import tell_unaudited
from memory.usage import UsageLog
from telemetry.emit import Emit
from telemetry.memory_events import MemoryTrigger
from telemetry.troubles import Troubles

KnownChannel = Callable[[str], Channel | None]


async def workers_for(
    workspace: Workspace, wanted: MemoryTable, *, worker: ClaudeWorker, model: str, emit: Emit, known_channel: KnownChannel
) -> MemoryWorkers:
    """For a running bot, with the store looked after. `model`: the name of a Claude model."""
    folder, clock = workspace.state, SystemClock()
    extractor = extractor_for(folder, worker=worker, model=model, emit=emit, known_channel=known_channel)
    consolidator = consolidator_for(folder, worker=worker, model=model, emit=emit)
    look_after = partial(look_after_store, folder, consolidator, emit)
    dead = await asyncio.to_thread(look_after)
    return MemoryWorkers(
        extractor,
        Consolidations(consolidator, look_after=look_after, clock=clock, emit=emit, unasked=wanted.consolidation, recovered=bool(dead)),
        MemoryCounting(Store(folder), extractor, consolidator, clock=clock, emit=emit, troubles=Troubles()),
        folder=workspace.sessions,
        clock=clock,
        emit=emit,
        extracts=wanted.extract,
    )


async def extract_here(folder: Path, *, worker: ClaudeWorker, model: str, emit: Emit) -> Sequence[RunResult]:
    """Where no bot runs: all that is unread. Without Slack no channel is known, so all of it stays in the channel where it was said."""
    extractor = extractor_for(folder, worker=worker, model=model, emit=emit, known_channel=lambda _: None)
    ended = list(extractor.recover())
    for session in extractor.sessions():
        ended += await extractor.drain(session, MemoryTrigger.MANUAL)
    return ended


async def consolidate_here(folder: Path, *, worker: ClaudeWorker, model: str, emit: Emit) -> Sequence[Result]:
    consolidator = consolidator_for(folder, worker=worker, model=model, emit=emit)
    look_after = partial(look_after_store, folder, consolidator, emit)
    return await Consolidations(consolidator, look_after=look_after, clock=SystemClock(), emit=emit).now()


def worker_for(folder: Path, *, cli: Cli, model_url: str, accounts: Accounts, emit: Emit) -> ClaudeWorker:
    """`folder`: `.insomnia`. One for both memory workers. Ends what workers of dead processes there still are."""
    end_orphans(folder)
    starter = CliStarter(cli, folder=folder, base_url=model_url, clock=SystemClock())
    return ClaudeWorker(starter, folder=folder, accounts=accounts, emit=emit)


def extractor_for(folder: Path, *, worker: ClaudeWorker, model: str, emit: Emit, known_channel: KnownChannel) -> Extractor:
    """`known_channel`: None for what was not learnt from Slack."""
    return Extractor(
        folder,
        model=ClaudeExtractModel(worker, model=model),
        emit=emit,
        clock=SystemClock(),
        scope_of=lambda channel, person: scope(known_channel, channel, person),
    )


def consolidator_for(folder: Path, *, worker: ClaudeWorker, model: str, emit: Emit) -> Consolidator:
    return Consolidator(folder, model=ClaudeConsolidationModel(worker, model=model), emit=emit, clock=SystemClock())


def scope(known_channel: KnownChannel, channel: str, person: str) -> Scope:
    """What was said in a public channel may be told anywhere; of a channel that is not known, nowhere else."""
    known = known_channel(channel)
    return Scope.workspace() if known is not None and known.kind is ChannelKind.PUBLIC else by_channel_id(channel, person)


def look_after_store(folder: Path, consolidator: Consolidator, emit: Emit) -> Sequence[Result]:
    """At the start, and before each consolidation: what a dead run committed is finished, what a death left half written is swept,
    and what people changed by hand is told. In that order: while a commit is half done, nobody can tell its changes from a
    person's. Returns the ends of dead runs. Takes milliseconds.
    """
    store, ended = Store(folder), consolidator.recover()
    try:
        if consolidator.unfinished:
            _complain("a consolidation has begun to write and could not be finished", "the next run tries again")
            return ended
        store.sweep()
        tell_unaudited(store, emit)
    except (OSError, StoreBusy) as e:
        _complain(f"the memory could not be looked through ({type(e).__name__})", "insomnia memory lint says more")
    return ended


def _complain(what: str, more: str) -> None:
    print(f"insomnia: {what}; {more}", file=sys.stderr)


def reading_tools_for(folder: Path, *, emit: Emit) -> ReadingTools:
    usage = UsageLog(folder, now=SystemClock().now, troubles=Troubles())
    return ReadingTools(Store(folder), emit=emit, usage=usage, redact=redact)
