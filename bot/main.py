"""The composition root of a running bot: the one place that knows every part and puts them together.

Order of a start: servers of our own, Slack's word that the tokens are good, what an earlier process left, the socket.
Order of an end: no new events, running turns to their end, the CLI processes, the servers, telemetry.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp

from bot.app import App
from bot.banner import banner_lines
from bot.claude_cli import CliStarter
from bot.claude_launch import Cli, CliNotFound, find_cli
from bot.clock import SystemClock, system_zone
from bot.config import Settings
from bot.inbox import Inbox
from bot.intake import Audience, Intake
from bot.local.model import EmbeddedModel
from bot.local.slack import EmbeddedSlack
from bot.persistent_session import SessionParts
from bot.ports import SlackError
from bot.prompts import SYSTEM_PROMPT
from bot.replying import Replies
from bot.responder import Responder
from bot.router import Router
from bot.routes import RouteSettings
from bot.sessions import Sessions
from bot.slack import SlackWeb
from bot.slack_socket import SocketMode
from bot.state_db import StateUnreadable, open_state
from bot.thread_routes import ThreadRoutes
from bot.thread_sections import ThreadReader
from bot.version import VERSION
from bot.workspace import Control, RunningBot, Workspace
from telemetry.emit import Emit
from telemetry.setup import TelemetrySettings, telemetry

DRAIN_SECONDS = 20.0
TOKEN_VARIABLES = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET")
EMBEDDED_ACCOUNT = "embedded"
NO_KEY = "insomnia-embedded"  # the CLI starts only with some key; endpoints without credentials ignore it


class CannotRun(Exception):
    """The bot cannot come up; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where Slack and the model answer, embedded or not."""

    slack_api: str
    bot_token: str
    app_token: str
    model_url: str
    control: Control


def run_bot(settings: Settings, workspace: Workspace, *, banner: bool) -> int:
    """Runs until SIGTERM or SIGINT; 0 after a clean end, 1 when it cannot come up."""
    _clean_environment()
    facts = TelemetrySettings(
        version=VERSION,
        routes=settings.route_names,
        accounts=(*settings.accounts, EMBEDDED_ACCOUNT),
        slack_mode=settings.slack_kind,
        content=settings.telemetry.content,
    )
    try:
        cli = find_cli(str(settings.path(settings.claude.path)) if settings.claude.path else "")
        with telemetry(facts) as emit:
            asyncio.run(_run(settings, workspace, cli=cli, emit=emit, banner=banner))
    except (CannotRun, CliNotFound, StateUnreadable) as e:
        print(f"insomnia: {e}", file=sys.stderr)
        return 1
    return 0


def _clean_environment() -> None:
    """The tokens are read; nothing that looks into this process's variables later needs to find them."""
    for name in TOKEN_VARIABLES:
        os.environ.pop(name, None)


async def _run(settings: Settings, workspace: Workspace, *, cli: Cli, emit: Emit, banner: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        addresses = await _servers(settings, workspace, stack)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        web = SlackWeb(addresses.bot_token, api_url=addresses.slack_api, session=http, clock=SystemClock(), emit=emit)
        bot = await _assemble(settings, workspace, cli=cli, emit=emit, web=web, addresses=addresses)
        stack.push_async_callback(bot.sessions.close_all)
        socket = bot.socket()
        recovered = bot.app.recover()
        await socket.connect()
        workspace.publish(_running(settings, addresses))
        threads = await _old_threads(http, addresses.control) if banner else []
        for line in banner_lines(settings, workspace, cli, addresses.slack_api, recovered=recovered, threads=threads, full=banner):
            print(line, flush=True)
        await stop.wait()
        await socket.close()
        await bot.app.drain(DRAIN_SECONDS)


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
    return Addresses(slack_api=slack_api, bot_token=bot_token, app_token=app_token, model_url=model_url, control=control)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bot:
    app: App
    sessions: Sessions
    socket: Callable[[], SocketMode]


async def _assemble(settings: Settings, workspace: Workspace, *, cli: Cli, emit: Emit, web: SlackWeb, addresses: Addresses) -> _Bot:
    try:
        me = await web.start()
        await web.check_app_token(addresses.app_token)
        await web.learn_channels()
    except SlackError as e:
        variable = "SLACK_APP_TOKEN" if e.method == "apps.connections.open" else "SLACK_BOT_TOKEN"
        raise CannotRun(f"Slack refused {e.method} ({e.code}). Check {variable}, and SLACK_API_URL where it is set.") from e
    clock, db = SystemClock(), open_state(workspace.state_db)
    tz = settings.zone or system_zone()
    inbox, threads = Inbox(db, clock=clock), ThreadRoutes(db, clock=clock, boot=uuid.uuid4().hex)
    routes = _routes(settings)
    parts = SessionParts(
        starter=CliStarter(cli, folder=workspace.state, base_url=addresses.model_url, clock=clock),
        threads=threads,
        folder=workspace.sessions,
        clock=clock,
        emit=emit,
        system_prompt=lambda route: f"{SYSTEM_PROMPT}\n{route.prompt}".strip() + "\n",
        credential=_credential(settings),
    )
    sessions, audience = Sessions(parts), Audience(users=settings.slack.users, bots=settings.slack.bots)
    reader = ThreadReader(web, inbox, me=me, clock=clock, emit=emit)
    responder = Responder(
        sessions=sessions,
        router=Router(reader=reader, inbox=inbox, threads=threads, emit=emit, tz=tz),
        reader=reader,
        replies=Replies(web, clock=clock, emit=emit),
        slack=web,
        threads=threads,
        audience=audience,
        language=settings.language,
        me=me,
        clock=clock,
        emit=emit,
    )
    app = App(inbox=inbox, threads=threads, routes=routes, slack=web, responder=responder, clock=clock, emit=emit)
    intake = Intake(inbox=inbox, threads=threads, me=me, audience=audience, routes=routes, emit=emit, accepted=app.accepted)
    socket = lambda: SocketMode(  # noqa: E731 - Bolt opens a session as it is made: only once everything else stands
        web.client, addresses.app_token, take=intake.take, gap=sessions.doubt_delivery, clock=clock, emit=emit
    )
    return _Bot(app=app, sessions=sessions, socket=socket)


def _routes(settings: Settings) -> dict[str, RouteSettings]:
    return {
        name: RouteSettings(
            name=name,
            model=r.model,
            channels=r.channels,
            prompt=settings.path(r.prompt_file).read_text(encoding="utf-8") if r.prompt_file else "",
            tools=r.tools,
            cwd=str(settings.path(r.cwd)) if r.cwd else "",
            users=r.users,
            follow=r.follow,
            mixed=r.mixed,
            rotate_at=r.rotate_at,
            autocompact=r.autocompact,
            prefer=r.prefer,
            turn_seconds=r.turn_seconds,
        )
        for name, r in settings.routes.items()
    }


def _credential(settings: Settings) -> Callable[[], tuple[str, tuple[str, str] | None]]:
    """The first account whose variable is set. (Which one is next when it is benched: a later issue.)"""
    if settings.credentials:
        first = settings.credentials[0]
        return lambda: (first.account, (first.variable, first.value))
    return lambda: (EMBEDDED_ACCOUNT, ("ANTHROPIC_API_KEY", NO_KEY))


def _running(settings: Settings, addresses: Addresses) -> RunningBot:
    embedded = settings.slack_kind == "embedded"
    return RunningBot(
        pid=os.getpid(),
        started_at=SystemClock().now(),
        version=VERSION,
        slack=settings.slack_kind,
        url=addresses.slack_api if embedded else None,
        control=addresses.control,
    )
