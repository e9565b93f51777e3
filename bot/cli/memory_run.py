"""`insomnia memory run extract`, `consolidation`: a memory worker does now what there is for it to do.

A running bot is asked to do it, so that its status and its traces show it; where none runs, this process does it itself,
under the workspace's lock. Exit codes: 0 all that was to be done was done, 1 a run failed or was cancelled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bot.cli import USAGE, CommandError, memory_run_pages
from bot.cli.control import SlackControl
from bot.cli.put_aside import put_aside
from bot.cli.settings import mend_environment, read_settings
from bot.config import Settings
from bot.workspace import RunningBot, Workspace, WorkspaceError, WorkspaceInUse

if TYPE_CHECKING:  # who asks a running bot needs none of it
    from bot.claude_launch import Cli
    from telemetry.emit import Emit

WAIT_SECONDS = 3_600.0  # a backlog of many sessions is read one piece after another
EXTRACT, CONSOLIDATION = "extract", "consolidation"  # as they are typed, and in the address that the bot is asked at
PAGES = {EXTRACT: memory_run_pages.extracted, CONSOLIDATION: memory_run_pages.consolidated}
Result = Mapping[str, Any]


def run(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace.resolve())
    settings = read_settings(workspace, os.environ)
    try:
        workspace.prepare()
        bot = workspace.running_bot()
        results = _ask(bot, args.worker) if bot is not None else _alone(settings, workspace, args.worker)
    except WorkspaceInUse as error:
        raise CommandError("the bot of this workspace is just starting or stopping; try again in a moment") from error
    except WorkspaceError as error:
        raise CommandError(str(error), USAGE) from error
    print(json.dumps(results, ensure_ascii=False, indent=2) if args.json else PAGES[args.worker](results))
    if (told := put_aside(workspace.state)) and not args.json:
        print(told)
    return int(any(_counts_as_failed(result) for result in results))


def _counts_as_failed(result: Result) -> bool:
    """What a dead process left undone was read again just now, or that failed too."""
    return result["status"] in ("failed", "cancelled") and not result.get("recovered")


def _ask(bot: RunningBot, worker: str) -> list[Result]:
    if not bot.control.memory:
        raise CommandError("this bot was started by an older insomnia that cannot be asked; restart it")
    answer: list[Result] = SlackControl(bot.control.memory, bot.control.token).post(worker, {}, wait_seconds=WAIT_SECONDS)
    return answer


def _alone(settings: Settings, workspace: Workspace, worker: str) -> list[Result]:
    mend_environment()
    from bot.claude_launch import CliNotFound, find_cli
    from bot.main import budgets_of, telemetry_of
    from telemetry.setup import telemetry

    with workspace.lock():
        try:
            cli = find_cli(str(settings.path(settings.claude.path)) if settings.claude.path else "")
        except CliNotFound as error:
            raise CommandError(str(error)) from error
        with telemetry(telemetry_of(settings, workspace, budgets_of(settings, workspace))) as emit:
            return asyncio.run(_run_here(settings, workspace, worker, cli=cli, emit=emit))


async def _run_here(settings: Settings, workspace: Workspace, worker: str, *, cli: Cli, emit: Emit) -> list[Result]:
    from contextlib import AsyncExitStack

    from bot.accounts import Accounts
    from bot.assembly import credentials_of, model_of
    from bot.clock import SystemClock
    from bot.local.model import EmbeddedModel
    from bot.memory_control import as_json
    from bot.memory_parts import consolidate_here, extract_here, worker_for

    async with AsyncExitStack() as stack:
        url = settings.base_url
        if settings.model_kind == "embedded":
            url = (await stack.enter_async_context(EmbeddedModel(control_token=""))).url
        accounts = Accounts(credentials_of(settings), clock=SystemClock(), emit=emit)
        process = worker_for(workspace.state, cli=cli, model_url=url, accounts=accounts, emit=emit)
        here = extract_here if worker == EXTRACT else consolidate_here
        ended = await here(workspace.state, worker=process, model=model_of(settings), emit=emit)
    return [as_json(result) for result in ended]
