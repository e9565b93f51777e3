"""`insomnia memory undo`: takes back what a run did, or shows what that would do. Beside a running bot or without one.

What must stay true: the worker's lock is the only thing that is asked for; a dry run writes nothing at all; nothing is done by
halves, and what is in the way is named with what to do about it. Exit codes: 0 it was done (or could be), 1 not, 2 asked wrongly.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from bot.cli import FAILED, CommandError
from bot.cli.memory_files import memory_workspace
from bot.cli.memory_runs import find_run, finder_of
from bot.cli.settings import mend_environment
from bot.cli.terminal import as_the_terminal_has_it, is_utf8, page_width, safe
from bot.cli.undo_page import LookedAt, done_as_json, done_page
from bot.clock import SystemClock
from bot.version import VERSION
from bot.workspace import Workspace
from memory.consolidation.journal import JOURNAL, Journals, JournalUnreadable
from memory.consolidation.undo import CannotUndo, Undoer
from memory.disk import Disk
from memory.store import StoreBusy
from telemetry.jsonl_days import log_folders
from telemetry.memory_events import MemoryWorker

if TYPE_CHECKING:
    from telemetry.emit import Emit


def undo(args: argparse.Namespace) -> int:
    workspace = memory_workspace(args)
    try:
        return _dry(args, workspace) if args.dry_run else _undo(args, workspace)
    except CannotUndo as error:
        raise CommandError(f"nothing was taken back: {error}") from error
    except (StoreBusy, JournalUnreadable) as error:
        raise CommandError(f"nothing was taken back: {error}") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        why = error.strerror or error
        raise CommandError(f"it cannot be taken back just now ({why}); what was begun is finished by the next try") from error


def _dry(args: argparse.Namespace, workspace: Workspace) -> int:
    if (workspace.state / "memory" / "_state" / JOURNAL).exists():
        raise CommandError("a run is committing just now, or its process died over it; look again once it, or the next run, is done")
    run_id = _run_id(workspace, args.run)
    with _telling(workspace, nowhere=True) as emit:
        plan = Undoer(workspace.state, emit=emit, clock=SystemClock()).plan(run_id)
    looked_at = LookedAt(workspace.state, plan)
    if args.json:
        print(json.dumps(looked_at.as_json(), ensure_ascii=not is_utf8(), indent=2))
    else:
        _print(looked_at.page(width=page_width()))
    return FAILED if plan.conflicts else 0


def _undo(args: argparse.Namespace, workspace: Workspace) -> int:
    run_id = _run_id(workspace, args.run)
    with _telling(workspace) as emit:
        done = Undoer(workspace.state, emit=emit, clock=SystemClock()).undo(run_id)
    if done.manifest is None:
        looked_at = LookedAt(workspace.state, done)
        if not args.json:
            raise CommandError("\n".join(["nothing was taken back:", *map(safe, looked_at.conflicts(width=page_width()))]))
        print(json.dumps(looked_at.as_json(), ensure_ascii=not is_utf8(), indent=2))
        return FAILED
    if args.json:
        print(json.dumps(done_as_json(done.of, done.manifest), ensure_ascii=not is_utf8(), indent=2))
    else:
        _print(done_page(done.of, done.manifest, width=page_width()))
    return 0 if len(done.manifest.applied) == len(done.manifest.done) else FAILED


def _run_id(workspace: Workspace, prefix: str) -> str:
    """Raises CommandError for one that is unknown or ambiguous, or of which the traces alone know."""
    run = find_run(finder_of(workspace), prefix)
    if run.changed or run.settled:
        return run.id
    if run.worker == MemoryWorker.EXTRACT:
        raise CommandError("nothing was taken back: that run only staged candidates, and changed no record: insomnia memory candidates")
    if any(run.counts.values()) and not Journals(workspace.state / "memory", disk=Disk()).trash_of(run.id).is_dir():
        gone = f"memory/_trash/{run.id} in .insomnia is gone, and with it what that run replaced"
        raise CommandError(f"nothing was taken back: {gone}; the records stay as they are")
    return run.id or prefix


def _telling(workspace: Workspace, *, nowhere: bool = False) -> AbstractContextManager[Emit]:
    """What is done is told in the workspace's log and traces, also where a bot writes them too."""
    mend_environment()
    from telemetry.jsonl import JsonlExporter
    from telemetry.setup import TelemetrySettings, telemetry
    from telemetry.trace_store import TraceStore

    if nowhere:
        return telemetry(TelemetrySettings(version=VERSION))
    traces = (TraceStore(workspace.traces_db, guest=True),) if workspace.traces_db.is_file() else ()
    lines = (JsonlExporter(log_folders(workspace.state)),)
    return telemetry(TelemetrySettings(version=VERSION, span_processors=traces, log_exporters=lines))


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(as_the_terminal_has_it(safe(line)))
