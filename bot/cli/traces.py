"""`insomnia traces`: the newest replies and memory runs, one line each; `insomnia why` explains one of them."""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from bot.cli import USAGE, CommandError, complain
from bot.cli.since import since
from bot.cli.terminal import as_the_terminal_has_it, is_utf8, one_line, table, width
from bot.cli.why import bot_runs, existing_workspace
from bot.explain.bars import duration
from bot.explain.explanation import INTERRUPTED, RUNNING
from telemetry.events import Decision, Outcome
from telemetry.memory_events import MemoryStatus
from telemetry.trace_file import TraceFileUnusable
from telemetry.trace_reading import Summary, Wanted, reading
from telemetry.trace_rows import RUN

OUTCOMES = sorted({*Outcome, *MemoryStatus, INTERRUPTED})
SHORT_ID = 8  # digits, as in Slack; `insomnia why` takes them
HEADINGS = ("TIME", "TRACE", "ROUTE", "OUTCOME", "GATE", "TOOK", "MESSAGE")


def traces(args: argparse.Namespace) -> int:
    workspace = existing_workspace(args)
    outcome, runs = _one_of(args.outcome, OUTCOMES, "outcome"), bot_runs(workspace)
    wanted = Wanted(
        route=args.route or "",
        outcome=outcome,
        or_unended=outcome == INTERRUPTED and not runs,
        decision=_one_of(args.decision, sorted(Decision), "decision"),
        since=since(args.since) if args.since else None,
        limit=args.limit,
    )
    try:
        with reading(workspace.traces_db) as reader:
            found = [summary if runs else _without_a_bot(summary) for summary in reader.listing(wanted)]
    except FileNotFoundError as error:
        raise CommandError(f"there are no traces yet in {workspace.root}; the bot writes them as it works: insomnia up") from error
    except TraceFileUnusable as error:
        raise CommandError(
            f"the trace store cannot be used: {error.why}. A running bot puts a damaged one aside: {workspace.traces_db}"
        ) from error
    if args.json:
        print(json.dumps([_as_json(summary) for summary in found], ensure_ascii=not is_utf8(), indent=2))
    elif found:
        print(as_the_terminal_has_it(_table(found)))
    else:
        complain("no trace is like that; without the options all recent ones are shown: insomnia traces", 0)
    return 0


def _without_a_bot(s: Summary) -> Summary:
    """Where no bot runs, what has not ended never will."""
    return replace(s, outcome=INTERRUPTED) if s.ended is None and not s.outcome else s


def _table(found: Sequence[Summary]) -> str:
    """On a terminal as many of the columns as it is wide."""
    rows = [HEADINGS, *map(_row, found)]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for left_out in ((), ("MESSAGE",), ("MESSAGE", "GATE")):
        shown = table([[cell for cell, heading in zip(row, HEADINGS, strict=True) if heading not in left_out] for row in rows])
        if columns is None or max(map(width, shown.splitlines())) <= columns:
            break
    return shown


def _row(s: Summary) -> tuple[str, ...]:
    outcome = f"{s.outcome or RUNNING}{f' ({s.reason})' if s.reason else ''}"
    gate = f"{s.decision} ({s.gate_reason})" if s.decision else ""
    took = "" if s.seconds is None else duration(s.seconds * 1000)
    what = s.name if s.kind == RUN else f"{s.channel}/{s.ts}"
    when = f"{datetime.fromtimestamp(s.started):%Y-%m-%d %H:%M:%S}"
    return (when, s.trace_id[:SHORT_ID], *map(one_line, (s.route, outcome, gate, took, what)))


def _as_json(s: Summary) -> dict[str, Any]:
    """Times in seconds since the epoch; null: not known, or there is none."""
    names = ("trace_id", "kind", "name", "route", "reason", "decision", "gate_reason", "team", "channel", "ts", "thread_ts")
    fields = {name: getattr(s, name) or None for name in names}
    return {**fields, "outcome": s.outcome or RUNNING, "started": s.started, "seconds": s.seconds, "attempt": s.attempt}


def _one_of(value: str | None, known: list[Any], what: str) -> str:
    if value is None or value in known:
        return value or ""
    near = difflib.get_close_matches(value, map(str, known), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise CommandError(f"there is no {what} {one_line(value)}; {hint}There are: {', '.join(known)}", USAGE)
