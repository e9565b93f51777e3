"""The settings for a command, or its end: errors of configuration are errors of usage."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bot.cli import USAGE, CommandError, complain
from bot.config import ConfigError, Settings, load_settings
from bot.workspace import Workspace
from telemetry.variables import mend_variables


def read_settings(workspace: Workspace, environment: Mapping[str, str]) -> Settings:
    if not workspace.root.is_dir():
        raise CommandError(f"there is no directory {workspace.root}; make it first, or name another: --workspace DIR", USAGE)
    try:
        return load_settings(workspace.root, environment)
    except ConfigError as error:
        lines = "\n  ".join(error.errors)
        raise CommandError(f"the configuration cannot be used:\n  {lines}\nThe settings are explained in README.", USAGE) from error


def mend_environment() -> None:
    """To be called before OpenTelemetry is imported: over some of its variables it raises as it loads."""
    for line in mend_variables(os.environ):
        complain(line, 0)
