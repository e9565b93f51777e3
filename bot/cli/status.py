"""`insomnia status`: whether the bot is up and what it last said of itself, as a page, as JSON, or as one line.

Exit codes: 0 it is up, 3 it is not, 1 that cannot be told. `--line` is for prompts and status bars, which some programs
blank on any other code: it always ends with 0, and imports nothing that takes long.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bot.cli import USAGE, CommandError
from bot.cli.terminal import has_colours, is_utf8
from bot.workspace import RunningBot, Workspace, WorkspaceError
from telemetry.actionbar import Colour, Part, status_line, status_parts
from telemetry.status_file import Status, read_status

UP, NOT_UP = 0, 3
WIDTH = 80  # where nothing says how much room there is
SGR = {Colour.GREEN: "32", Colour.RED: "31", Colour.YELLOW: "33", Colour.CYAN: "36", Colour.GREY: "90"}


class Seen(NamedTuple):
    """`bot` None: none is up. `status` None: unreadable, or not of that bot. `now` in seconds since the epoch."""

    root: str
    bot: RunningBot | None
    status: Status | None
    now: float


def status(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace.resolve())
    width = args.width or _room()
    if args.line:
        print(_line(workspace, width))
        return UP
    if not workspace.root.is_dir():
        raise CommandError(f"there is no directory {workspace.root}; name the bot's workspace: --workspace DIR", USAGE)
    try:
        seen = look(workspace)
    except (WorkspaceError, OSError) as error:
        raise CommandError(f"whether a bot is up cannot be told: {error}") from error
    if args.json:
        import json

        from bot.cli.status_page import as_json

        line = status_line(seen.status, width, seen.now, bot_up=seen.bot is not None)
        print(json.dumps(as_json(seen, line), ensure_ascii=not is_utf8(), indent=2))
    else:
        from bot.cli.status_page import page

        print(page(seen, shown(status_parts(seen.status, width, seen.now, bot_up=seen.bot is not None, plain_ascii=not is_utf8()))))
    return UP if seen.bot else NOT_UP


def look(workspace: Workspace) -> Seen:
    """The lock says whether a bot is up, never a pid alone. Raises WorkspaceError, OSError."""
    import time

    bot = workspace.running_bot()
    status = read_status(workspace.status_json)
    if bot and status and status.pid != bot.pid:
        status = None  # what an earlier bot left; this one has not said anything yet, or cannot
    return Seen(str(workspace.root), bot, status, time.time())


def _line(workspace: Workspace, width: int) -> str:
    plain_ascii = not is_utf8()
    try:
        seen = look(workspace)
    except (WorkspaceError, OSError):
        return status_line(None, width, 0.0, plain_ascii=plain_ascii)
    return shown(status_parts(seen.status, width, seen.now, bot_up=seen.bot is not None, plain_ascii=plain_ascii))


def shown(parts: Sequence[Part]) -> str:
    """With colours where somebody sees them and has not asked for none (NO_COLOR)."""
    if not has_colours():
        return "".join(part.text for part in parts)
    return "".join(f"\033[{SGR[part.colour]}m{part.text}\033[0m" if part.colour in SGR else part.text for part in parts)


def _room() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
