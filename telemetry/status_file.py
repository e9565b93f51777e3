"""The latest status as data, and `status.json`, the file in which other processes read it.

What must stay true: this imports nothing slow, since a terminal's status line runs it every few seconds; reading never
waits and never raises, whatever stands in the file or in its place; no text from it can move a cursor.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

STATUS_VERSION = 1
MAX_BYTES = 1_000_000  # two hundred sessions are a twentieth of it
MAX_TEXT = 200  # of one value; ids and names are shorter
MAX_NUMBER = 1e15  # beyond every time and count that there can be

STARTED, FAILED, INTERRUPTED = "started", "failed", "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A memory run. `at`: when it was last heard of, `began_at`: when it started; seconds since the epoch. `ops` by operation."""

    run_id: str
    worker: str
    trigger: str
    status: str
    at: float
    reason: str = ""
    began_at: float = 0.0
    limit_seconds: float = 0.0
    trace_id: str = ""
    staged: int = 0
    ops: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyStatus:
    """The reply that ended last, at `at`."""

    route: str
    outcome: str
    at: float
    seconds: float
    reason: str = ""
    message_ts: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    route: str
    key: str
    state: str
    epoch: int
    known_threads: int
    context_tokens: int
    limit_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """`until`: when its rest is over, in seconds since the epoch; 0 where it does not rest."""

    name: str
    state: str
    until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a bot last said of itself. `connected` None: it has not said. `connections` that share the events of Slack."""

    pid: int
    at: float
    slack_mode: str = ""
    connected: bool | None = None
    connections: int = 1
    last_event_at: float | None = None
    model_kind: str = ""
    account: str = ""
    accounts: tuple[AccountStatus, ...] = ()
    queue_depth: int = 0
    sessions: tuple[SessionStatus, ...] = ()
    memory: RunStatus | None = None
    reply: ReplyStatus | None = None


def abandoned(run: RunStatus | None) -> RunStatus | None:
    """What a run is taken for once its process is gone. The next start finds out what really became of it."""
    return replace(run, status=FAILED, reason=INTERRUPTED) if run and run.status == STARTED else run


def dumps(status: Status) -> str:
    return json.dumps({"v": STATUS_VERSION, **asdict(status)}, ensure_ascii=False) + "\n"


def read_status(path: Path) -> Status | None:
    """None: there is none, or it cannot be understood."""
    try:
        return loads(_read(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def loads(text: str) -> Status:
    """Raises ValueError, KeyError, TypeError, AttributeError or RecursionError on anything that `dumps` did not write."""
    read = json.loads(text)
    if read["v"] != STATUS_VERSION:
        raise ValueError(f"version {read['v']}")
    return Status(
        pid=_whole(read["pid"]),
        at=_number(read["at"]),
        slack_mode=_text(read["slack_mode"]),
        connected=None if read["connected"] is None else bool(read["connected"]),
        connections=_whole(read.get("connections", 1)),  # a bot of an earlier version did not say
        last_event_at=None if read["last_event_at"] is None else _number(read["last_event_at"]),
        model_kind=_text(read["model_kind"]),
        account=_text(read["account"]),
        accounts=tuple(AccountStatus(**_typed(each, AccountStatus.__annotations__)) for each in read.get("accounts", ())),
        queue_depth=_whole(read["queue_depth"]),
        sessions=tuple(SessionStatus(**_typed(session, SessionStatus.__annotations__)) for session in read["sessions"]),
        memory=RunStatus(**_typed(read["memory"], RunStatus.__annotations__)) if read["memory"] else None,
        reply=ReplyStatus(**_typed(read["reply"], ReplyStatus.__annotations__)) if read["reply"] else None,
    )


def clean(text: str) -> str:
    """One line without control, format and unpaired characters, of bounded length."""
    signs = (" " if sign.isspace() else sign for sign in text[:MAX_TEXT])
    shown = "".join(sign for sign in signs if unicodedata.category(sign) not in ("Cc", "Cf", "Cs"))
    return " ".join(shown.split())


def write_private_atomic(path: Path, text: str) -> None:
    """Whole or not at all, for the owner alone. Not synced: after a power cut there is no bot to read about."""
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    path.parent.mkdir(mode=0o700, exist_ok=True)  # deleted under a running bot
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a file")
        return file.read(MAX_BYTES).decode("utf-8")


def _typed(read: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """The fields that are ours, each of its kind; a newer writer may have others."""
    convert = {"str": _text, "int": _whole, "float": _number, "Mapping[str, int]": _counts}
    return {name: convert[kind](read[name]) for name, kind in kinds.items()}


def _counts(value: Mapping[str, Any]) -> dict[str, int]:
    pairs: Iterable[tuple[str, Any]] = value.items()
    return {_text(name): _whole(count) for name, count in pairs}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {type(value).__name__}")
    return clean(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not abs(value) < MAX_NUMBER:
        raise TypeError(f"no whole number: {type(value).__name__}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < MAX_NUMBER:
        raise TypeError(f"no number: {type(value).__name__}")
    return float(value)
