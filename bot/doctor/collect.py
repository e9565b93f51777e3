"""Finds what the doctor judges. What must stay true: it writes nothing, waits a bounded time for each thing, and keeps no secret."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import requests

from bot.claude_launch import CliNotFound, find_cli
from bot.config import ConfigError, Settings, load_settings
from bot.config_schema import EVERY_PUBLIC_CHANNEL
from bot.doctor.seen import CliSeen, ModelSeen, Seen, SlackSeen, StateSeen
from bot.state_db import damage
from bot.workspace import Workspace, WorkspaceError
from memory.consolidation.journal import Journals, JournalUnreadable
from memory.consolidation.pending import INVALID
from memory.disk import Disk
from memory.lint import lint
from memory.quarantine import Quarantine
from memory.store import Store, StoreBusy
from telemetry.status_file import Status, read_status

SECONDS = 5.0
DISTRIBUTION, PACKAGES = "insomnia-bot", ("bot", "memory", "dashboards", "telemetry")
ANTHROPIC = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
SHAPES = {"SLACK_BOT_TOKEN": re.compile(r"xoxb-[A-Za-z0-9-]{10,}"), "SLACK_APP_TOKEN": re.compile(r"xapp-[A-Za-z0-9-]{10,}")}


def collect(workspace: Workspace, environment: Mapping[str, str], *, now: Callable[[], float] = time.time) -> Seen:
    try:
        settings = load_settings(workspace.root, environment)
    except ConfigError as error:
        return Seen(settings_errors=error.errors)
    bot_up, status = _bot(workspace)
    rests = {account.name: account.until for account in status.accounts if account.until > now()} if status else {}
    return Seen(
        tokens={name: bool(shape.fullmatch(environment.get(name, "").strip())) for name, shape in SHAPES.items() if environment.get(name)},
        slack_kind=settings.slack_kind,
        slack=_slack(settings, now),
        model_kind=settings.model_kind,
        models=list(_models(settings, rests)),
        unset_accounts=_unset(settings),
        cli=_cli(settings),
        state=_state(workspace),
        otlp=_otlp(environment) if settings.otlp else None,
        elsewhere=list(_elsewhere()),
        outdated=list(_outdated()),
        mixed_routes=[name for name, route in settings.routes.items() if route.mixed],
        bot_up=bot_up,
        connections=status.connections if status else None,
    )


def _bot(workspace: Workspace) -> tuple[bool | None, Status | None]:
    """Whether it is up, None where that cannot be told; and what it said of itself, if it did."""
    try:
        bot = workspace.running_bot()
    except (WorkspaceError, OSError):
        return None, None
    status = read_status(workspace.status_json)
    return bot is not None, status if bot and status and status.pid == bot.pid else None


def _slack(settings: Settings, now: Callable[[], float]) -> SlackSeen | None:
    if settings.slack_kind == "embedded":
        return None
    from bot.doctor.slack_probe import probe

    named = [name for route in settings.routes.values() for name in route.channels if name != EVERY_PUBLIC_CHANNEL]
    secrets = settings.secrets
    tokens = {"bot_token": secrets.slack_bot_token, "app_token": secrets.slack_app_token}
    return probe(**tokens, api_url=settings.slack_api_url, named=named, now=now)


def _unset(settings: Settings) -> list[str]:
    """Where no account has a key, none is missed: the endpoint may want none."""
    keys = settings.secrets.keys
    return [name for name, account in settings.accounts.items() if account.key_env not in keys] if settings.credentials else []


def _models(settings: Settings, rests: Mapping[str, float]) -> Iterator[ModelSeen]:
    """`rests`: until when accounts rest, in seconds since the epoch. An endpoint may want no credential."""
    url = (settings.base_url or ANTHROPIC).rstrip("/") + "/v1/models"
    if settings.model_kind == "anthropic" and not settings.credentials:
        yield ModelSeen(account="none", status=_status(url, {"anthropic-version": API_VERSION}))
    for credential in settings.credentials:
        key = {"x-api-key": credential.value}
        headers = key if credential.variable == "ANTHROPIC_API_KEY" else {"Authorization": f"Bearer {credential.value}"}
        until = rests.get(credential.account)
        yield ModelSeen(
            account=credential.account,
            status=_status(url, {**headers, "anthropic-version": API_VERSION}),
            benched_until=_here(until) if until else "",
        )


def _here(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "a time that cannot be read"


def _status(url: str, headers: Mapping[str, str]) -> int:
    """0: no connection. A redirect is not followed: the key would go along."""
    try:
        return requests.get(url, headers=dict(headers), timeout=SECONDS, allow_redirects=False, stream=True).status_code
    except requests.RequestException:
        return 0


def _cli(settings: Settings) -> CliSeen:
    try:
        cli = find_cli(str(settings.path(settings.claude.path)) if settings.claude.path else "")
    except CliNotFound as error:
        return CliSeen(error=str(error))
    return CliSeen(path=str(cli.path), version=cli.version, source=cli.source)


def _state(workspace: Workspace) -> StateSeen:
    root = workspace.state
    if not root.is_dir():
        return StateSeen(exists=False, free_bytes=shutil.disk_usage(workspace.root).free)
    inside = [root, *(path for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink())]
    memory = root / "memory"
    return StateSeen(
        readable_by_others=[str(path) for path in inside if stat.S_IMODE(path.stat().st_mode) & 0o077],
        unwritable=[str(path) for path in inside if not os.access(path, os.W_OK | os.X_OK)],
        free_bytes=shutil.disk_usage(root).free,
        database=damage(workspace.state_db),
        lint_errors=_lint_errors(root),
        put_aside=len(Quarantine(memory / "_state", disk=Disk()).all()),
        invalid=sum(1 for path in (memory / "_staging" / INVALID).rglob("*") if path.is_file()),
        journal=_journal(memory),
    )


def _lint_errors(root: Path) -> int | None:
    try:
        return len(lint(Store(root).view()).errors)
    except (OSError, StoreBusy):
        return None


def _journal(memory: Path) -> str:
    try:
        Journals(memory, disk=Disk()).read()
    except JournalUnreadable as error:
        return str(error)
    except OSError as error:
        return f"memory/_state/journal.json cannot be read ({error.strerror}); give .insomnia to the bot's user, or move that file away"
    return ""


def _otlp(environment: Mapping[str, str]) -> str:
    """Why it does not answer; \"\" where anything does, whatever it says."""
    endpoint = next(
        (value for name, value in sorted(environment.items()) if re.fullmatch(r"OTEL_EXPORTER_OTLP(_\w+)?_ENDPOINT", name) and value), ""
    )
    try:
        requests.post(endpoint, data=b"", timeout=SECONDS, allow_redirects=False, stream=True)
    except requests.Timeout:
        return "no answer in time"
    except requests.exceptions.InvalidURL:
        return "it is no address"
    except requests.ConnectionError as error:
        # gRPC answers HTTP/1 with something else: somebody is there.
        return "" if "BadStatusLine" in str(error) or "RemoteDisconnected" in str(error) else "no connection"
    except requests.RequestException:
        return "it is no address"
    return ""


def _elsewhere() -> Iterator[str]:
    home = Path(__file__).parents[2]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
        if not places or places[0].parent != home:
            yield name


def _outdated() -> Iterator[str]:
    """Distributions whose version is not what this program asks for. Without its own metadata nothing can be said."""
    try:
        needed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for line in needed:
        name, low, high = (re.search(pattern, line) for pattern in (r"^[\w.-]+", r">=([\d.]+)", r"<(\d+)"))
        if name is None or low is None or high is None or ";" in line:  # of an extra
            continue
        try:
            version = importlib.metadata.version(name[0])
        except importlib.metadata.PackageNotFoundError:
            yield f"{name[0]} is not installed, or it"
            continue
        if _numbers(version) < _numbers(low[1]) or _numbers(version)[0] >= int(high[1]):
            yield f"{name[0]} {version}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
