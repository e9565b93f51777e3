"""A running bot from its start to its end, around the parts that `assembly` puts together.

Order of a start: servers of our own, Slack's word that the tokens are good, what an earlier process left, the socket.
Order of an end: no new events, running turns to their end, the CLI processes, the servers, telemetry.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import aiohttp

from bot.assembly import EMBEDDED_ACCOUNT, Addresses, Bot, CannotRun, assemble
from bot.banner import banner_lines
from bot.budgets import Budgets
from bot.claude_launch import Cli, CliNotFound, find_cli
from bot.clock import SystemClock, system_zone
from bot.config import Settings
from bot.local.model import EmbeddedModel
from bot.local.slack import EmbeddedSlack
from bot.local.slack_seed_threads import OPENING_QUESTION
from bot.memory_control import MemoryControl
from bot.slack import SlackWeb
from bot.slack_http import CannotListen
from bot.state_db import StateUnreadable
from bot.version import VERSION
from bot.workspace import Control, RunningBot, Workspace
from telemetry.emit import Emit
from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.setup import TelemetrySettings, telemetry
from telemetry.status import LatestStatus
from telemetry.trace_store import TraceStore

DRAIN_SECONDS = 20.0
TOKEN_VARIABLES = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET")


def run_bot(settings: Settings, workspace: Workspace, *, banner: bool) -> int:
    """Runs until SIGTERM or SIGINT; 0 after a clean end, 1 when it cannot come up, or `state.db` was damaged under it."""
    _clean_environment()
    try:
        cli = find_cli(str(settings.path(settings.claude.path)) if settings.claude.path else "")
        budgets = budgets_of(settings, workspace)
        with telemetry(telemetry_of(settings, workspace, budgets)) as emit:
            budgets.told = emit
            return asyncio.run(_run(settings, workspace, cli=cli, emit=emit, budgets=budgets, banner=banner))
    except (CannotRun, CannotListen, CliNotFound, StateUnreadable) as e:
        print(f"insomnia: {e}", file=sys.stderr)
        return 1


def budgets_of(settings: Settings, workspace: Workspace) -> Budgets:
    return Budgets(
        workspace.spent_json,
        clock=SystemClock(),
        tz=settings.zone or system_zone(),
        limits={name: route.budget_usd_day for name, route in settings.routes.items()},
        overall=settings.claude.budget_usd_day,
    )


def telemetry_of(settings: Settings, workspace: Workspace, budgets: Budgets | None = None) -> TelemetrySettings:
    """The local sinks are part of the product: they do not depend on any OTEL_* variable."""
    status = LatestStatus(workspace.status_json, slack_mode=settings.slack_kind, model_kind=settings.model_kind)
    return TelemetrySettings(
        version=VERSION,
        routes=settings.route_names,
        accounts=(*settings.accounts, EMBEDDED_ACCOUNT),
        slack_mode=settings.slack_kind,
        content=settings.telemetry.content,
        span_processors=(status, TraceStore(workspace.traces_db)),
        log_exporters=(JsonlExporter(log_folders(workspace.state)),),
        listeners=(status.hear, *([budgets.hear] if budgets else [])),
    )


def _clean_environment() -> None:
    """The tokens are read; nothing that looks into this process's variables later needs to find them."""
    for name in TOKEN_VARIABLES:
        os.environ.pop(name, None)


async def _run(settings: Settings, workspace: Workspace, *, cli: Cli, emit: Emit, budgets: Budgets, banner: bool) -> int:
    stop, broken = asyncio.Event(), asyncio.Event()

    def end_broken() -> None:
        if not broken.is_set():
            print("insomnia: state.db was damaged while the bot ran. It ends; the next start puts the file aside.", file=sys.stderr)
        broken.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        addresses = await _servers(settings, workspace, stack)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        web = SlackWeb(addresses.bot_token, api_url=addresses.slack_api, session=http, clock=SystemClock(), emit=emit)
        bot = await assemble(settings, workspace, cli=cli, emit=emit, web=web, addresses=addresses, budgets=budgets, broken=end_broken)
        await stack.enter_async_context(bot.memory)
        control = await stack.enter_async_context(MemoryControl(bot.memory, token=addresses.control.token))
        stack.push_async_callback(bot.sessions.close_all)
        listener = bot.listener()
        stack.push_async_callback(listener.close)
        await listener.prepare()
        recovered = bot.app.recover()
        await listener.connect()
        workspace.publish(_running(settings, addresses, memory=control.url))
        bot.memory.begin()
        threads = await _old_threads(http, addresses.control) if banner else []
        for line in banner_lines(
            settings,
            workspace,
            cli,
            addresses.slack_api,
            listening=listener.address,
            recovered=recovered,
            threads=threads,
            question=OPENING_QUESTION,
            full=banner,
        ):
            print(line, flush=True)
        looking = asyncio.get_running_loop().create_task(_look_back(bot))  # owned: ended below
        await stop.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        if banner:
            print("Stopping: what is being answered is answered first.", flush=True)
        await listener.close()
        await bot.app.drain(DRAIN_SECONDS)
    return int(broken.is_set())


async def _look_back(bot: Bot) -> None:
    try:
        await bot.look_back()
    except Exception as e:  # noqa: BLE001 - the boundary: what cannot be looked for must not end the bot, and is said
        print(f"insomnia: Slack could not be searched for open questions ({type(e).__name__})", file=sys.stderr)


async def _old_threads(http: aiohttp.ClientSession, control: Control) -> list[dict[str, Any]]:
    if control.slack is None:
        return []
    async with http.get(f"{control.slack}threads", headers={"Authorization": f"Bearer {control.token}"}) as response:
        found: list[dict[str, Any]] = await response.json()
    return found


async def _servers(settings: Settings, workspace: Workspace, stack: AsyncExitStack) -> Addresses:
    token, slack_control, model_control = secrets.token_urlsafe(24), None, None
    slack_api, bot_token, app_token = settings.slack_api_url, settings.secrets.slack_bot_token, settings.secrets.slack_app_token
    model_url = settings.base_url
    try:
        if settings.slack_kind == "embedded":
            slack = await stack.enter_async_context(EmbeddedSlack(workspace.local, control_token=token))
            slack_api, bot_token, app_token, slack_control = slack.url, slack.BOT_TOKEN, slack.APP_TOKEN, slack.control_url
        if settings.model_kind == "embedded":
            model = await stack.enter_async_context(EmbeddedModel(control_token=token))
            model_url, model_control = model.url, model.control_url
    except OSError as e:
        raise CannotRun(f"the embedded servers cannot start: {e}") from e
    control = Control(slack=slack_control, model=model_control, token=token)
    return Addresses(
        slack_api=slack_api,
        bot_token=bot_token,
        app_token=app_token,
        signing_secret=settings.secrets.slack_signing_secret,
        model_url=model_url,
        control=control,
    )


def _running(settings: Settings, addresses: Addresses, *, memory: str) -> RunningBot:
    embedded = settings.slack_kind == "embedded"
    return RunningBot(
        pid=os.getpid(),
        started_at=SystemClock().now(),
        version=VERSION,
        slack=settings.slack_kind,
        url=addresses.slack_api if embedded else None,
        control=replace(addresses.control, memory=memory),
    )
