"""`insomnia up` and `insomnia run`: settings, then the lock, then the bot until it is told to stop."""

from __future__ import annotations

import argparse
import os

from bot.cli import USAGE, CommandError
from bot.cli.settings import mend_environment, read_settings
from bot.workspace import Workspace, WorkspaceError, WorkspaceInUse


def run(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace.resolve())
    settings = read_settings(workspace, os.environ)
    mend_environment()
    try:
        workspace.prepare()
        with workspace.lock():
            from bot.main import run_bot

            return run_bot(settings, workspace, banner=args.command == "up")
    except WorkspaceInUse as error:
        raise CommandError(str(error)) from error
    except WorkspaceError as error:
        raise CommandError(str(error), USAGE) from error
