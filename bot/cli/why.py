"""`insomnia why`: one page that says why a reply is as it is, or why there is none; from files of this machine alone."""

from __future__ import annotations

import argparse
import json
import time
from datetime import datetime

from bot.cli import USAGE, CommandError, complain
from bot.cli.terminal import as_the_terminal_has_it, is_utf8, one_line, page_width, safe, table
from bot.config import ConfigError, load_settings
from bot.config_schema import TRACE_ID
from bot.explain.explanation import as_json
from bot.explain.find import Ambiguous, Candidate, Finder, NotFound
from bot.explain.page import page
from bot.explain.ref import FORMS, BadRef, parse_ref
from bot.explain.sources import Sources
from bot.workspace import Workspace, WorkspaceError


def why(args: argparse.Namespace) -> int:
    workspace = existing_workspace(args)
    try:
        ref = parse_ref(args.ref)
        found = Finder(sources_of(workspace)).find(ref)
    except BadRef as error:
        raise CommandError(f"{one_line(args.ref)} is none of these: {FORMS}", USAGE) from error
    except NotFound as error:
        raise CommandError(_nothing(args.ref, error)) from error
    except Ambiguous as error:
        raise CommandError(_several(args.ref, error)) from error
    links = {"viewer": viewer.replace(TRACE_ID, found.trace_id)} if found.trace_id and (viewer := _viewer(workspace)) else {}
    if args.json:
        print(json.dumps(as_json(found, ref=args.ref, links=links), ensure_ascii=not is_utf8(), indent=2))
        return 0
    for line in page(found, links=links, width=page_width(), now=time.time(), zone=None, ascii_only=not is_utf8()):
        print(as_the_terminal_has_it(safe(line)))
    return 0


def existing_workspace(args: argparse.Namespace) -> Workspace:
    workspace = Workspace(args.workspace.resolve())
    if not workspace.root.is_dir():
        raise CommandError(f"there is no directory {workspace.root}; name the one of the bot: --workspace DIR", USAGE)
    return workspace


def sources_of(workspace: Workspace) -> Sources:
    return Sources(traces=workspace.traces_db, state=workspace.state_db, logs=workspace.logs, bot_runs=lambda: bot_runs(workspace))


def bot_runs(workspace: Workspace) -> bool:
    try:
        return workspace.running_bot() is not None
    except (WorkspaceError, OSError):
        return True  # one of another version does


def _viewer(workspace: Workspace) -> str:
    """Whatever else is wrong with the file, or with this shell's environment: a link is not worth an error."""
    try:
        return load_settings(workspace.root, {}).telemetry.viewer
    except ConfigError:
        complain("insomnia.toml cannot be used, so there is no link to a viewer: insomnia config", 0)
        return ""


def _nothing(ref: str, error: NotFound) -> str:
    searched = "\n".join(f"  - {place}" for place in error.searched)
    return f"nothing is known of {one_line(ref)}. Searched:\n{searched}\nRecent replies: insomnia traces"


def _several(ref: str, error: Ambiguous) -> str:
    rows = [("TRACE", "TIME", "ROUTE", "OUTCOME", "MESSAGE"), *map(_row, error.candidates)]
    return f"{one_line(ref)} may be each of these; say which, by its trace or as CHANNEL/TS:\n{table(rows)}"


def _row(candidate: Candidate) -> tuple[str, ...]:
    when = "" if candidate.began is None else f"{datetime.fromtimestamp(candidate.began):%Y-%m-%d %H:%M:%S}"
    message = f"{candidate.channel}/{candidate.ts}" if candidate.ts else ""
    return (candidate.trace_id, when, *map(one_line, (candidate.route, candidate.outcome, message)))
