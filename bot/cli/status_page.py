"""The page and the JSON of `insomnia status`; the line has its own module, which this one would slow down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.cli.terminal import grey, one_line, table
from bot.workspace import RunningBot
from telemetry.actionbar import age
from telemetry.status_file import AccountStatus, SessionStatus, Status, abandoned

if TYPE_CHECKING:
    from bot.cli.status import Seen

JSON_VERSION = 1
AVAILABLE = "available"
MOST_SESSIONS = 20  # rows of the page; `--json` has them all
ASKS = {"embedded": "the embedded workspace", "socket": "real Slack (Socket Mode)", "http": "real Slack (HTTP)"}
ANSWERS = {"embedded": "the embedded model", "anthropic": "Claude"}


def as_json(seen: Seen, line: str) -> dict[str, Any]:
    """What is not known is null; of a bot that is not up, only its last memory run is."""
    bot, status = seen.bot, seen.status
    now_up = status if bot else None
    last_event = now_up.last_event_at if now_up else None
    return {
        "v": JSON_VERSION,
        "bot": {
            "up": bot is not None,
            "pid": bot.pid if bot else None,
            "since": _timestamp(bot.started_at) if bot else None,
            "version": bot.version if bot else None,
        },
        "slack": {
            "mode": bot.slack if bot else None,
            "connected": now_up.connected if now_up else None,
            "connections": now_up.connections if now_up else None,
            "last_event_age_s": None if last_event is None else round(max(0.0, seen.now - last_event), 1),
        },
        "model": {"kind": (now_up.model_kind or None) if now_up else None, "account": (now_up.account or None) if now_up else None},
        "accounts": [_account(account, seen.now) for account in now_up.accounts] if now_up else [],
        "sessions": [_session(session) for session in now_up.sessions] if now_up else [],
        "queue": {"depth": now_up.queue_depth if now_up else None},
        "memory": _memory(status, up=bot is not None),
        "line": line,
    }


def page(seen: Seen, line: str) -> str:
    if seen.bot is None:
        return "\n".join(_page_of_none(seen, line))
    if seen.status is None:
        hint = "The bot is up but has not written its status; is its disk full, or its folder not its own? Its log on stderr says so."
        return f"{table(_of_bot(seen, seen.bot))}\n\n{hint}"
    rows = [*_of_bot(seen, seen.bot), *_of_status(seen, seen.status), ("Memory", line)]
    return "\n".join([table(rows), *_of_sessions(seen.status)])


def _page_of_none(seen: Seen, line: str) -> Iterator[str]:
    yield f"{line}\n" if seen.status else line
    if seen.status and (run := abandoned(seen.status.memory)):
        yield f"The last memory run was {_timestamp(run.at)}: {run.worker} {run.status}{f' ({run.reason})' if run.reason else ''}."
    yield f"No bot is up in {one_line(seen.root)}; start it: insomnia up --workspace {one_line(seen.root)}"


def _of_bot(seen: Seen, bot: RunningBot) -> list[tuple[str, str]]:
    since = datetime.fromtimestamp(bot.started_at).astimezone()
    running = age(seen.now - bot.started_at)
    return [("Bot", f"up for {running}, since {since:%Y-%m-%d %H:%M}, version {one_line(bot.version)}, process {bot.pid}")]


def _of_status(seen: Seen, status: Status) -> Iterator[tuple[str, str]]:
    connected = {True: "connected", False: "NOT connected", None: "not connected yet"}[status.connected]
    event = "no event yet" if status.last_event_at is None else f"last event {age(seen.now - status.last_event_at)} ago"
    shared = f", {status.connections} connections share the events" if status.connections > 1 else ""
    yield "Slack", f"{ASKS.get(status.slack_mode, status.slack_mode) or 'unknown'}, {connected}{shared}, {event}"
    account = f", account {status.account}" if status.account else ", not asked yet"
    yield "Model", f"{ANSWERS.get(status.model_kind, status.model_kind) or 'unknown'}{account}"
    if len(status.accounts) > 1 or any(_state(account, seen.now) != AVAILABLE for account in status.accounts):
        yield "Accounts", "; ".join(_in_words(account, seen.now) for account in status.accounts)
    waiting = {0: "empty", 1: "1 message waits or is being answered"}
    yield "Queue", waiting.get(status.queue_depth, f"{status.queue_depth} messages wait or are being answered")
    if reply := status.reply:
        why = f" ({reply.reason})" if reply.reason else ""
        where = f" in route {reply.route}" if reply.route else ""
        trace = f"; trace {reply.trace_id}" if reply.trace_id else ""
        yield "Reply", f"{reply.outcome}{why} {age(seen.now - reply.at)} ago, after {reply.seconds:.1f} s{where}{trace}"


def _state(account: AccountStatus, now: float) -> str:
    """Nobody tells that a rest is over."""
    return AVAILABLE if account.until and account.until <= now else account.state


def _in_words(account: AccountStatus, now: float) -> str:
    until = f" until {_here(account.until)}" if account.until > now else ""
    return f"{one_line(account.name)} {one_line(_state(account, now))}{until}"


def _account(account: AccountStatus, now: float) -> dict[str, Any]:
    rests = account.until > now
    return {"name": account.name, "state": _state(account, now), "until": _timestamp(account.until) if rests else None}


def _of_sessions(status: Status) -> Iterator[str]:
    if not status.sessions:
        yield "\nNo session yet; the first message starts one."
        return
    newest = list(reversed(status.sessions))
    yield f"\n{table([('ROUTE', 'SESSION', 'STATE', 'THREADS HELD', 'CONTEXT', 'EPOCH'), *map(_row, newest[:MOST_SESSIONS])])}"
    if len(newest) > MOST_SESSIONS:
        yield grey(f"and {len(newest) - MOST_SESSIONS} more: --json shows them")


def _row(session: SessionStatus) -> tuple[str, ...]:
    part = f" ({100 * session.context_tokens // session.limit_tokens} %)" if session.limit_tokens else ""
    context = f"{session.context_tokens} of {session.limit_tokens}{part}"
    return (session.route, session.key, session.state, str(session.known_threads), context, str(session.epoch))


def _session(session: SessionStatus) -> dict[str, Any]:
    return {
        "route": session.route,
        "key": session.key,
        "state": session.state,
        "epoch": session.epoch,
        "known_threads": session.known_threads,
        "context_tokens": session.context_tokens,
        "limit_tokens": session.limit_tokens,
    }


def _memory(status: Status | None, *, up: bool) -> dict[str, Any] | None:
    run = status.memory if status else None
    if run and not up:
        run = abandoned(run)
    if run is None:
        return None
    return {
        "run_id": run.run_id or None,
        "worker": run.worker,
        "trigger": run.trigger or None,
        "status": run.status,
        "reason": run.reason or None,
        "ts": _timestamp(run.at),
        "trace_id": run.trace_id or None,
    }


def _here(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "?"


def _timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, to the millisecond. A time that there cannot be: ""."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""
