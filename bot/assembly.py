"""Puts the parts of a bot together from its settings: the one place that knows all of them. When they run is `main`'s."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from bot.account_rests import AccountRests
from bot.accounts import Accounts
from bot.app import App
from bot.asides import Asides
from bot.budgets import Budgets
from bot.claude_cli import CliStarter
from bot.claude_launch import Cli
from bot.clock import SystemClock, system_zone
from bot.config import Credential, Settings
from bot.config_schema import DEFAULT_KEY_ENV
from bot.explain.explainer import Explainer
from bot.inbox import Inbox
from bot.intake import Audience, Intake
from bot.looking_back import LookingBack
from bot.memory_parts import reading_tools_for, worker_for, workers_for
from bot.memory_tools import resident_tools
from bot.memory_workers import MemoryWorkers
from bot.outbox import Outbox
from bot.patience import Patience
from bot.persistent_session import SessionParts
from bot.ports import SlackError
from bot.prompts import SYSTEM_PROMPT
from bot.replying import Replies
from bot.responder import Responder
from bot.router import Router
from bot.routes import RouteSettings
from bot.sessions import Sessions
from bot.slack import SlackWeb
from bot.slack_http import EventsApi
from bot.slack_socket import SocketMode
from bot.state_db import telling_damage
from bot.state_rescue import open_or_rescue
from bot.thread_routes import ThreadRoutes
from bot.thread_sections import ThreadReader
from bot.whys import Whys
from bot.workspace import Control, Workspace
from telemetry.emit import Emit
from telemetry.events import StateTrouble, StateTroubled

EMBEDDED_ACCOUNT = "embedded"
NO_KEY = "insomnia-embedded"  # the CLI starts only with some key; endpoints without credentials ignore it


class CannotRun(Exception):
    """The bot cannot come up; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where Slack and the model answer, embedded or not. `signing_secret`: "" where events come by Socket Mode."""

    slack_api: str
    bot_token: str
    app_token: str
    signing_secret: str
    model_url: str
    control: Control


class Listens(Protocol):
    """Takes Slack's events from `connect` to `close`."""

    @property
    def address(self) -> str:
        """Where others reach it; "" where it calls Slack itself."""

    async def prepare(self) -> None:
        """What may fail, before anything is answered. Raises CannotListen."""

    async def connect(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """`look_back`: for what a lost `state.db` held, once events arrive; does nothing where none was lost."""

    app: App
    sessions: Sessions
    memory: MemoryWorkers
    listener: Callable[[], Listens]
    look_back: Callable[[], Awaitable[None]]


async def assemble(
    settings: Settings,
    workspace: Workspace,
    *,
    cli: Cli,
    emit: Emit,
    web: SlackWeb,
    addresses: Addresses,
    budgets: Budgets,
    broken: Callable[[], None],
) -> Bot:
    """`broken` is called when `state.db` turns out to be damaged."""
    try:
        me = await web.start()
        if not addresses.signing_secret:
            await web.check_app_token(addresses.app_token)
        await web.learn_channels()
    except SlackError as e:
        variable = "SLACK_APP_TOKEN" if e.method == "apps.connections.open" else "SLACK_BOT_TOKEN"
        raise CannotRun(f"Slack refused {e.method} ({e.code}). Check {variable}, and SLACK_API_URL where it is set.") from e
    clock = SystemClock()
    db, rescued = open_or_rescue(workspace.state_db, clock=clock)
    tz = settings.zone or system_zone()
    if rescued is not None:
        emit(StateTroubled(trouble=StateTrouble.DAMAGED, error="damaged", open_messages=rescued.open_messages))
    inbox, threads = Inbox(db, clock=clock), ThreadRoutes(db, clock=clock, boot=uuid.uuid4().hex)
    routes = _routes(settings)
    accounts = Accounts(credentials_of(settings), clock=clock, emit=emit, rests=AccountRests(db))
    memory = await workers_for(
        workspace,
        settings.memory,
        worker=worker_for(workspace.state, cli=cli, model_url=addresses.model_url, accounts=accounts, emit=emit),
        model=model_of(settings),
        emit=emit,
        known_channel=web.known_channel,
    )
    parts = SessionParts(
        starter=CliStarter(cli, folder=workspace.state, base_url=addresses.model_url, clock=clock),
        threads=threads,
        folder=workspace.sessions,
        clock=clock,
        emit=emit,
        system_prompt=lambda route: f"{SYSTEM_PROMPT}\n{route.prompt}".strip() + "\n",
        accounts=accounts,
        own_tools=resident_tools(reading_tools_for(workspace.state, emit=emit)),
        ended=memory.session_ended,
    )
    sessions = Sessions(parts, max_resident=settings.claude.max_resident)
    audience = Audience(users=settings.slack.users, bots=settings.slack.bots)
    reader = ThreadReader(web, inbox, me=me, clock=clock, emit=emit)
    patience = Patience(clock=clock, emit=emit)
    responder = Responder(
        sessions=sessions,
        router=Router(reader=reader, inbox=inbox, threads=threads, emit=emit, tz=tz),
        reader=reader,
        replies=Replies(web, Outbox(db), me=me, clock=clock, emit=emit, patience=patience),
        slack=web,
        threads=threads,
        audience=audience,
        language=settings.language,
        me=me,
        clock=clock,
        emit=emit,
        budgets=budgets,
        tz=tz,
        footer=settings.slack.footer,
    )
    app = App(
        inbox=inbox,
        threads=threads,
        routes=routes,
        slack=web,
        responder=responder,
        whys=Whys(Explainer(workspace.traces_db), web, language=settings.language),
        asides=Asides(web, inbox, language=settings.language, tz=tz, clock=clock),
        me=me,
        clock=clock,
        emit=emit,
        patience=patience,
        turn_ended=memory.turn_ended,
    )
    intake = Intake(
        inbox=inbox,
        threads=threads,
        me=me,
        audience=audience,
        routes=routes,
        emit=emit,
        accepted=app.accepted,
        wondered=app.wondered,
        stop_asked=app.stop_asked,
        refused=app.refused,
        not_taken=app.not_taken,
    )

    take = telling_damage(intake.take, broken)

    async def look_back() -> None:
        if rescued is not None:
            await LookingBack(web, take=take, me=me, clock=web.time).look(web.member_of(), team=web.team)

    def listener() -> Listens:
        """Bolt opens a session as it is made: only once everything else stands."""
        doubt, clock = sessions.doubt_delivery, web.time
        if not addresses.signing_secret:
            return SocketMode(web.client, addresses.app_token, take=take, doubt=doubt, clock=clock, emit=emit)
        host, port = settings.slack.listen_host, settings.slack.listen_port
        return EventsApi(addresses.signing_secret, host=host, port=port, take=take, doubt=doubt, clock=clock, emit=emit)

    return Bot(app=app, sessions=sessions, memory=memory, listener=listener, look_back=look_back)


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
            budget_usd_day=r.budget_usd_day,
        )
        for name, r in settings.routes.items()
    }


def model_of(settings: Settings) -> str:
    """Which model the memory workers ask."""
    return settings.memory.model or next(iter(settings.routes.values())).model


def credentials_of(settings: Settings) -> list[Credential]:
    """Of the accounts whose variable is set, in their order. The embedded model takes any key: for it each account has one."""
    if settings.credentials:
        return list(settings.credentials)
    if len(settings.accounts) == 1:
        return [Credential(EMBEDDED_ACCOUNT, DEFAULT_KEY_ENV, NO_KEY)]
    return [Credential(name, DEFAULT_KEY_ENV, f"{NO_KEY}-{name}") for name in settings.accounts]
