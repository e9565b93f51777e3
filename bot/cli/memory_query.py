"""`insomnia memory query`: what the bot would find in its memory and knowledge. Told like every other query of them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

from bot.cli import FAILED, USAGE, CommandError, complain
from bot.cli.settings import mend_environment
from bot.cli.terminal import grey, one_line
from bot.version import VERSION
from bot.workspace import Workspace
from memory.reading_schemas import EVERYTHING, Reading
from memory.reading_tools import ReadingTools
from memory.records import Scope, ScopeKind
from memory.redact import redact
from memory.store import Store
from memory.tools import Asker
from memory.usage import UsageLog
from telemetry.jsonl_days import log_folders
from telemetry.troubles import Troubles

CALLER = "cli"  # in the log and in usage: no route, a person at the files
MOST = 10

Json = Mapping[str, Any]


def query(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace.resolve())
    if not workspace.state.is_dir():
        raise CommandError(f"there is no .insomnia in {workspace.root}; name the directory of the bot: --workspace DIR", USAGE)
    asker = Asker(caller=CALLER, scope=_scope(args.scope) if args.scope else None)
    said = ask(workspace, EVERYTHING, {"query": args.text, "limit": MOST}, asker)
    if "error" in said:
        error = said["error"]
        code = FAILED if error["code"] == "unavailable" else USAGE
        raise CommandError(f"{error['message']}; {error['fix']}", code)
    if args.json:
        print(json.dumps(said, ensure_ascii=False, indent=2))
    elif said["results"]:
        _print(said)
    else:
        complain("nothing is remembered like that; try other or fewer words, or see all there is: insomnia memory list", 0)
    return 0


def ask(workspace: Workspace, reading: Reading, arguments: Json, asker: Asker) -> Json:
    """One call of a reading tool, told in the workspace's log and usage as the bot tells its own."""
    mend_environment()
    from telemetry.jsonl import JsonlExporter
    from telemetry.setup import TelemetrySettings, telemetry

    settings = TelemetrySettings(version=VERSION, log_exporters=(JsonlExporter(log_folders(workspace.state)),))
    with telemetry(settings) as emit:
        usage = UsageLog(workspace.state, now=time.time, troubles=Troubles())
        tools = ReadingTools(Store(workspace.state), emit=emit, usage=usage, redact=redact)
        answer = tools.answer(reading, arguments, asker)
    said: Json = json.loads(answer.text)
    return said


def _print(said: Json) -> None:
    for result in said["results"]:
        status = result.get("status", "")
        state = f"  ({status})" if status in ("stale", "resolved", "replaced") else ""
        print(f"{result['kind']}/{result['slug']}  {one_line(result.get('title', ''))}{state}".rstrip())
        for text in (result["excerpt"], result.get("note", "")):
            if text:
                print(grey(f"    {one_line(text)}"))
    if (more := said["found"] - len(said["results"])) > 0:
        print(grey(f"{more} more; to see them, ask for something that only they say"))


def _scope(text: str) -> Scope:
    kind, colon, place = text.partition(":")
    try:
        if colon and not place:
            raise ValueError("nothing after the colon")
        return Scope(ScopeKind(kind), place)
    except ValueError as error:
        raise CommandError(
            f"--scope {one_line(text)} names no place; use workspace, channel:<id> or user:<id>, with Slack's id (channel:C012ABC)", USAGE
        ) from error
