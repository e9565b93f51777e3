"""Puts the parts of the memory together from the settings, for a running bot and for a command alike."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from bot.accounts import Accounts
from bot.claude_cli import CliStarter
from bot.claude_extract import ClaudeExtractModel
from bot.claude_launch import Cli
from bot.claude_worker import ClaudeWorker, end_orphans
from bot.clock import SystemClock
from bot.messages import Channel, ChannelKind
from memory.extract import Extractor
from memory.provenance import by_channel_id
from memory.reading_tools import ReadingTools
from memory.record_types import Scope
from memory.redact import redact
from memory.store import Store, StoreBusy
from memory.store_audit import tell_unaudited
from memory.usage import UsageLog
from telemetry.emit import Emit
from telemetry.troubles import Troubles

KnownChannel = Callable[[str], Channel | None]


def extractor_for(
    folder: Path, *, cli: Cli, model_url: str, model: str, accounts: Accounts, emit: Emit, known_channel: KnownChannel
) -> Extractor:
    """`folder`: `.insomnia`. `model`: the name of a Claude model. `known_channel`: None for what was not learnt from Slack.

    Ends what workers of dead processes there still are.
    """
    end_orphans(folder)
    clock = SystemClock()
    starter = CliStarter(cli, folder=folder, base_url=model_url, clock=clock)
    worker = ClaudeWorker(starter, folder=folder, accounts=accounts, emit=emit)
    extract = ClaudeExtractModel(worker, model=model)
    return Extractor(folder, model=extract, emit=emit, clock=clock, scope_of=lambda channel, person: scope(known_channel, channel, person))


def scope(known_channel: KnownChannel, channel: str, person: str) -> Scope:
    """What was said in a public channel may be told anywhere; of a channel that is not known, nowhere else."""
    known = known_channel(channel)
    return Scope.workspace() if known is not None and known.kind is ChannelKind.PUBLIC else by_channel_id(channel, person)


def look_after_store(folder: Path, emit: Emit) -> None:
    """At the start: what a death left half written is swept, and what people changed by hand is told. Takes milliseconds."""
    store = Store(folder)
    try:
        store.sweep()
        tell_unaudited(store, emit)
    except (OSError, StoreBusy) as e:
        print(f"insomnia: the memory could not be looked through ({type(e).__name__}); insomnia memory lint says more", file=sys.stderr)


def reading_tools_for(folder: Path, *, emit: Emit) -> ReadingTools:
    usage = UsageLog(folder, now=SystemClock().now, troubles=Troubles())
    return ReadingTools(Store(folder), emit=emit, usage=usage, redact=redact)
