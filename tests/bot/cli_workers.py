"""What the tests of the worker processes stand on: one workspace, the real CLI on the embedded model, and what of it is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bot.accounts import Accounts
from bot.claude_cli import CliStarter
from bot.claude_launch import find_cli
from bot.claude_worker import ClaudeWorker
from bot.clock import SystemClock
from bot.config import Credential
from bot.local.model import EmbeddedModel
from tests.bot.cli_sessions import KEY, runs
from tests.bot.ground import RecordingEmit

SPARE_KEY = "made-up-key-of-the-spare-account"
PLACEHOLDER = "DeferredToolPlaceholder"  # the CLI's own, and it does nothing


class WorkerGround:
    def __init__(self, folder: Path, model: EmbeddedModel, *, emit: Any = None) -> None:
        self.folder, self.model, self.emit = folder, model, emit or RecordingEmit()
        own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "SLACK_BOT_TOKEN": "xoxb-secret", "GITHUB_TOKEN": "gh-secret"}
        starter = CliStarter(find_cli(""), folder=folder, base_url=model.url, clock=SystemClock(), inherited=own)
        keys = {"main": KEY, "spare": SPARE_KEY}
        credentials = [Credential(name, "CLAUDE_CODE_OAUTH_TOKEN", key) for name, key in keys.items()]  # of limits only plans name the end
        self.accounts = Accounts(credentials, clock=SystemClock(), emit=self.emit)
        self.worker = ClaudeWorker(starter, folder=folder, accounts=self.accounts, emit=self.emit)

    @property
    def pids(self) -> list[int]:
        """Processes that belong to this workspace."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and str(self.folder).encode() in _read(process / "cmdline"):
                found.append(int(process.name))
        return [pid for pid in found if runs(pid)]

    @property
    def kept(self) -> list[Path]:
        workers = [*(self.folder / "run" / "workers").glob("*")]
        return [*workers, *(self.folder / "claude" / "projects").rglob("*.jsonl"), *self.folder.glob(".cache")]

    @property
    def offered(self) -> set[str]:
        """Names of the tools that the model was offered in any of its requests."""
        return {tool["name"] for request in self.model.requests for tool in request.body["tools"]}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
