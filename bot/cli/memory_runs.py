"""`insomnia memory runs`: what each memory run did and why, from the trace store and the manifests of what was changed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bot.cli import USAGE, CommandError, complain
from bot.cli.memory_files import memory_workspace
from bot.cli.since import since
from bot.cli.terminal import as_the_terminal_has_it, fitted, is_utf8, one_line, page_width, safe, table
from bot.explain.run_finding import RunFinder
from bot.explain.run_page import HEADINGS, WIDE_ONLY, page, row, short
from bot.explain.runs import MemoryRun
from bot.explain.sources import Sources
from bot.workspace import Workspace
from telemetry.memory_events import MemoryWorker
from telemetry.trace_file import TraceFileUnusable
from telemetry.trace_reading import reading

COST_DIGITS = 6


def runs(args: argparse.Namespace) -> int:
    workspace = memory_workspace(args)
    finder = finder_of(workspace)
    tell_of_the_store(workspace)
    try:
        return _one(args, finder) if args.run is not None else _list(args, finder)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(
            f"the memory in {workspace.state} cannot be read ({error.strerror}); its files belong to the bot's user"
        ) from error


def finder_of(workspace: Workspace) -> RunFinder:
    return RunFinder(workspace.state, sources_of(workspace))


def sources_of(workspace: Workspace) -> Sources:
    return Sources(traces=workspace.traces_db, state=workspace.state_db, logs=workspace.logs, bot_runs=workspace.is_in_use)


def tell_of_the_store(workspace: Workspace) -> None:
    """Without it there is still something to show, but not all."""
    try:
        with reading(workspace.traces_db) as traces:
            traces.oldest()
    except FileNotFoundError:
        complain("there is no trace store here (yet), so this is told from other files alone", 0)
    except TraceFileUnusable as error:
        complain(f"the trace store cannot be used, so this is told from other files alone: {error.why}", 0)


def find_run(finder: RunFinder, prefix: str) -> MemoryRun:
    """Raises CommandError."""
    found = finder.by_id(prefix) if prefix else []
    if len(found) > 1:
        rows = [HEADINGS, *map(_row, found)]
        raise CommandError(f"{one_line(prefix)} may be each of these; say which, by more of its id:\n{safe(table(rows))}", USAGE)
    if found:
        return found[0]
    if broken := finder.damaged(prefix) if prefix else []:
        raise CommandError(
            f"what run {one_line(broken[0])} did cannot be told: .insomnia/memory/_trash/{one_line(broken[0])}/run.json cannot be read. "
            "The texts that it replaced lie beside it."
        )
    raise CommandError(f"there is no memory run {one_line(prefix)!r:.70}; see which there are: insomnia memory runs")


def _list(args: argparse.Namespace, finder: RunFinder) -> int:
    worker = next((each for each in MemoryWorker if short(each) == args.worker), None)
    found = finder.newest(worker=worker, since=since(args.since) if args.since else None, limit=args.limit)
    if args.json:
        print(json.dumps([as_json(run) for run in found], ensure_ascii=not is_utf8(), indent=2))
    elif found:
        print(as_the_terminal_has_it(fitted([HEADINGS, *map(_row, found)], WIDE_ONLY, to_terminal=sys.stdout.isatty())))
    elif args.worker or args.since:
        complain("no memory run is like that; without the options all recent ones are shown: insomnia memory runs", 0)
    else:
        complain("there was no memory run yet; the bot begins them by itself, or now: insomnia memory run extract", 0)
    if broken := finder.damaged():
        complain(f"{len(broken)} of them cannot be told, as run.json cannot be read: memory/_trash/{one_line(broken[0])} in .insomnia", 0)
    return 0


def _one(args: argparse.Namespace, finder: RunFinder) -> int:
    run = find_run(finder, args.run)
    if args.json:
        print(json.dumps(page_as_json(run), ensure_ascii=not is_utf8(), indent=2))
        return 0
    for line in page(run, width=page_width(), now=time.time(), zone=None):
        print(as_the_terminal_has_it(safe(line)))
    return 0


def _row(run: MemoryRun) -> tuple[str, ...]:
    return tuple(map(one_line, row(run)))


def as_json(run: MemoryRun) -> dict[str, Any]:
    """Times in seconds since the epoch; null: not known, or there is none."""
    words = ("worker", "trigger", "status", "reason", "detail", "scope", "undoes", "undone_by", "died")
    tokens = run.tokens
    cost = run.cost_usd
    return {
        "run_id": run.id or None,
        "trace_id": run.trace_id or None,
        "source": run.source,
        **{word: getattr(run, word) or None for word in words},
        "began": run.began,
        "seconds": run.seconds,
        "recovered": run.recovered,
        "reply": asdict(run.reply) if run.reply else None,
        "read": asdict(run.read) if run.read else None,
        "given": run.given,
        "invalid": run.invalid,
        "counts": dict(run.counts),
        "dispositions": dict(run.dispositions),
        "survival": asdict(run.survival) if run.survival else None,
        "models": list(dict.fromkeys(call.model for call in run.model)),
        "input_tokens": tokens[0] if tokens else None,
        "output_tokens": tokens[1] if tokens else None,
        "cost_usd": None if cost is None else round(cost, COST_DIGITS),
    }


def page_as_json(run: MemoryRun) -> dict[str, Any]:
    lists: dict[str, Sequence[Any]] = {"operations": run.operations, "candidates": run.settled, "files": run.changed}
    return {**as_json(run), **{name: [asdict(each) for each in listed] for name, listed in lists.items()}}
