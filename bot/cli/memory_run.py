"""`insomnia memory run extract`: reads now what the sessions' logs hold that was not read yet.

A running bot is asked to do it, so that its status and its traces show it; where none runs, this process does it itself,
under the workspace's lock. Exit codes: 0 all that was to be read was read, 1 a run failed or was cancelled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bot.cli import USAGE, CommandError
from bot.cli.control import SlackControl
from bot.cli.put_aside import put_aside
from bot.cli.settings import mend_environment, read_settings
from bot.cli.terminal import one_line, table
from bot.config import Settings
from bot.workspace import RunningBot, Workspace, WorkspaceError, WorkspaceInUse

if TYPE_CHECKING:  # who asks a running bot needs none of it
    from bot.claude_launch import Cli
    from telemetry.emit import Emit

WAIT_SECONDS = 3_600.0  # a backlog of many sessions is read one piece after another
WORDS = {"completed": "done", "skipped": "nothing to do", "failed": "failed", "cancelled": "cancelled"}
Result = Mapping[str, Any]


def run(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace.resolve())
    settings = read_settings(workspace, os.environ)
    try:
        workspace.prepare()
        bot = workspace.running_bot()
        results = _ask(bot) if bot is not None else _alone(settings, workspace)
    except WorkspaceInUse as error:
        raise CommandError("the bot of this workspace is just starting or stopping; try again in a moment") from error
    except WorkspaceError as error:
        raise CommandError(str(error), USAGE) from error
    print(json.dumps(results, ensure_ascii=False, indent=2) if args.json else page(results))
    if (told := put_aside(workspace.state)) and not args.json:
        print(told)
    return int(any(_counts_as_failed(result) for result in results))


def _counts_as_failed(result: Result) -> bool:
    """What a dead process left undone was read again just now, or that failed too."""
    return result["status"] in ("failed", "cancelled") and not result.get("recovered")


def page(results: Sequence[Result]) -> str:
    """One line a run."""
    told = [result for result in results if result["status"] != "skipped"] or list(results)
    if not told:
        return "Nothing to read: no session has said anything yet."
    rows = [(WORDS[result["status"]], one_line(result["session_id"])[:8], _what(result)) for result in told]
    staged = sum(len(result["staged_ids"]) for result in told)
    return "\n".join([table([("RUN", "SESSION", "WHAT"), *rows]), f"{staged} candidates are staged by this."])


def _what(result: Result) -> str:
    first, last = result["range"] or (None, None)
    where = f"entries {first} to {last}: " if first else ""
    staged = f"staged {len(result['staged_ids'])}" if result["staged_ids"] else str(result["reason"]).replace("_", " ")
    detail = f" ({one_line(result['detail'])})" if result["detail"] else ""
    earlier = "an earlier run that was cut off: " if result.get("recovered") else ""
    return f"{earlier}{where}{staged}{detail}"


def _ask(bot: RunningBot) -> list[Result]:
    if not bot.control.memory:
        raise CommandError("this bot was started by an older insomnia that cannot be asked; restart it")
    answer: list[Result] = SlackControl(bot.control.memory, bot.control.token).post("extract", {}, wait_seconds=WAIT_SECONDS)
    return answer


def _alone(settings: Settings, workspace: Workspace) -> list[Result]:
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
            return asyncio.run(_extract(settings, workspace, cli=cli, emit=emit))


async def _extract(settings: Settings, workspace: Workspace, *, cli: Cli, emit: Emit) -> list[Result]:
    """Without Slack no channel is known, so all that is found here stays in the channel where it was said."""
    from contextlib import AsyncExitStack

    from bot.assembly import credential_of, model_of
    from bot.local.model import EmbeddedModel
    from bot.memory_control import as_json
    from bot.memory_parts import extractor_for
    from telemetry.memory_events import MemoryTrigger

    async with AsyncExitStack() as stack:
        url = settings.base_url
        if settings.model_kind == "embedded":
            url = (await stack.enter_async_context(EmbeddedModel(control_token=""))).url
        extractor = extractor_for(
            workspace.state,
            cli=cli,
            model_url=url,
            model=model_of(settings),
            credential=credential_of(settings),
            emit=emit,
            known_channel=lambda _: None,
        )
        ended = list(extractor.recover())
        for session in extractor.sessions():
            ended += await extractor.drain(session, MemoryTrigger.MANUAL)
    return [as_json(result) for result in ended]
