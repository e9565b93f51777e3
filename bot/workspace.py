"""The workspace on disk: where each thing lies, who may read it, and which bot owns it.

What must stay true: `.insomnia` and everything in it is its owner's alone (directories 0700, files 0600); at most one
bot holds the lock, whose truth is the kernel's (`flock`), so that a killed bot never leaves a stale one; a bot.json
without a held lock is a leftover and means that no bot runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BOT_JSON_VERSION = 1
# A reader that asks whether a bot runs holds the lock (shared) for microseconds; a starting bot waits that out.
LOCK_TRIES, LOCK_PAUSE_SECONDS = 10, 0.05

GITIGNORE = """\
# Written by insomnia: only the bot's memory and knowledge are worth committing.
/*
!/.gitignore
!/memory/
/memory/_*
!/knowledge/
"""


class WorkspaceError(Exception):
    """The directory cannot be used; the text says why and what to do."""


class WorkspaceInUse(WorkspaceError):
    """Another bot owns the workspace; `pid` is None when it did not say."""

    def __init__(self, root: Path, pid: int | None) -> None:
        who = f"another bot (process {pid})" if pid else "another bot"
        super().__init__(f"the workspace {root} is in use by {who}. Stop that one first, or use another directory: --workspace DIR")
        self.pid = pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Addresses of the control APIs, the bot's own and those of the embedded servers, ending in `/`, and their token."""

    slack: str | None = None
    model: str | None = None
    memory: str | None = None
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBot:
    """bot.json: how other commands find the bot. `slack` = embedded | socket | http."""

    pid: int
    started_at: float
    version: str
    slack: str
    url: str | None = None
    control: Control = Control()


@dataclass(frozen=True, slots=True)
class Workspace:
    """`root` is the directory that holds, or will hold, `.insomnia`."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / ".insomnia"

    @property
    def lock_file(self) -> Path:
        return self.state / "run" / "bot.lock"

    @property
    def bot_json(self) -> Path:
        return self.state / "run" / "bot.json"

    @property
    def state_db(self) -> Path:
        return self.state / "state.db"

    @property
    def spent_json(self) -> Path:
        """What was spent, by day and route."""
        return self.state / "spent.json"

    @property
    def claude(self) -> Path:
        """CLAUDE_CONFIG_DIR of every session."""
        return self.state / "claude"

    @property
    def sessions(self) -> Path:
        return self.state / "sessions"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def memory_logs(self) -> Path:
        """There from the start, so that it can be followed before a memory worker has run."""
        return self.state / "memory" / "_logs"

    @property
    def telemetry(self) -> Path:
        return self.state / "telemetry"

    @property
    def status_json(self) -> Path:
        """What the bot last said of itself, for `insomnia status`."""
        return self.telemetry / "status.json"

    @property
    def traces_db(self) -> Path:
        return self.telemetry / "traces.db"

    @property
    def local(self) -> Path:
        """The embedded workspace's own data."""
        return self.state / "local"

    def prepare(self) -> None:
        """Makes the directories, for the owner alone. Raises WorkspaceError."""
        if not self.root.is_dir():
            raise WorkspaceError(f"there is no directory {self.root}; make it first, or name another: --workspace DIR")
        try:
            beside = (self.lock_file.parent, self.claude, self.sessions, self.logs, self.telemetry, self.local)
            for path in (self.state, *beside, self.memory_logs.parent, self.memory_logs):
                make_private_dir(path)
            ignore = self.state / ".gitignore"
            if not ignore.exists():
                write_private(ignore, GITIGNORE)
        except OSError as error:
            why = f"{error.strerror}: {error.filename}"
            raise WorkspaceError(f"the workspace {self.root} cannot be used ({why}); name another: --workspace DIR") from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Owns the workspace inside the block; bot.json goes with it. Raises WorkspaceInUse."""
        descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _locked(descriptor):
                raise WorkspaceInUse(self.root, _pid_in(descriptor))
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            self.bot_json.unlink(missing_ok=True)
            try:
                yield
            finally:
                self.bot_json.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def publish(self, bot: RunningBot) -> None:
        """Tells other commands that the bot is up; to be called by the owner of the lock."""
        write_private(self.bot_json, json.dumps({"v": BOT_JSON_VERSION, **asdict(bot)}, indent=2) + "\n")

    def running_bot(self) -> RunningBot | None:
        """None if no bot runs, or it is not up yet."""
        return self._read_bot_json() if self._is_locked() else None

    def is_in_use(self) -> bool:
        """By a bot that is up, starting or stopping, or by a command that does a bot's work."""
        return self._is_locked()

    def _is_locked(self) -> bool:
        try:
            descriptor = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _read_bot_json(self) -> RunningBot | None:
        try:
            read: dict[str, Any] = json.loads(self.bot_json.read_text(encoding="utf-8"))
            version = read.pop("v")
            control = Control(**read.pop("control"))
            bot = RunningBot(**read, control=control)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkspaceError(f"{self.bot_json} was written by another version of insomnia; restart the bot") from error
        if version != BOT_JSON_VERSION:
            raise WorkspaceError(f"{self.bot_json} has version {version}, this insomnia reads {BOT_JSON_VERSION}; restart the bot")
        return bot


def make_private_dir(path: Path) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def _locked(descriptor: int) -> bool:
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < LOCK_TRIES:
                time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return True
    return False


def _pid_in(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
