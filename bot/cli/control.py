"""The embedded workspace as other commands reach it: bot.json says where it listens, its control API does the rest.

Only loopback is spoken to, and never through a proxy, whatever the environment says.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.cli import USAGE, CommandError
from bot.workspace import Workspace, WorkspaceError

PATIENCE_SECONDS = 10.0  # beyond what the server was asked to wait: it is on this machine


@dataclass(frozen=True, slots=True)
class SlackControl:
    """`url` ends in `/`."""

    url: str
    token: str = field(repr=False)

    def get(self, what: str, query: Mapping[str, str] | None = None, *, wait_seconds: float = 0.0) -> Any:
        address = f"{self.url}{what}?{urllib.parse.urlencode(query or {})}"
        return self._ask(urllib.request.Request(address), seconds=wait_seconds)

    def post(self, what: str, body: Mapping[str, Any], *, wait_seconds: float = 0.0) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(f"{self.url}{what}", json.dumps(body).encode(), headers), seconds=wait_seconds)

    def _ask(self, request: urllib.request.Request, *, seconds: float) -> Any:
        request.add_header("Authorization", f"Bearer {self.token}")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=seconds + PATIENCE_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise CommandError(_sentence(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            told = f"the bot's workspace at {self.url} does not answer ({error}); is the bot just stopping?"
            raise CommandError(f"{told} What it has accepted is answered at its next start.") from error


def find_control(root: Path) -> SlackControl:
    """Raises CommandError: 1 if no bot runs, 2 if people talk to it in real Slack."""
    root = root.resolve()
    try:
        bot = Workspace(root).running_bot()
    except (WorkspaceError, OSError) as error:
        raise CommandError(str(error)) from error
    if bot is None:
        raise CommandError(f"no bot is up in {root}; start one in another terminal: insomnia up --workspace {root}")
    if bot.slack != "embedded" or not bot.control.slack:
        raise CommandError("this bot works in real Slack, so talk to it there; this command is for the embedded workspace", USAGE)
    return SlackControl(bot.control.slack, bot.control.token)


def _sentence(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return f"the bot's workspace refused the request (HTTP {error.code}); restart the bot"
    finally:
        error.close()
