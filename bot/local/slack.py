"""The embedded workspace: a Slack-compatible server on 127.0.0.1 that slack_bolt and slack_sdk use unchanged.

It is what answers where no Slack token is configured, and what the tests run against. Owns the server and the order in
which its parts start and stop; what was said is in `slack_store`, what happens in `slack_workspace`, the methods of the
Web API in `slack_reading` and `slack_writing`, Socket Mode in `slack_socket`, delivery over HTTP in `slack_http`, scripted
faults in `slack_faults`.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.local import slack_seed
from bot.local.slack_api import Call, WebApi
from bot.local.slack_control import Control
from bot.local.slack_faults import Faults
from bot.local.slack_http import RequestUrl
from bot.local.slack_outbox import Outbox
from bot.local.slack_records import APP_ID, BOT_ID, BOT_USER_ID, TEAM_ID, Clock, Conversation, Json, Message, Person
from bot.local.slack_socket import SocketMode
from bot.local.slack_store import Store
from bot.local.slack_workspace import Workspace
from bot.messages import ChannelKind

HOST = "127.0.0.1"
MAX_BODY_BYTES = 8 * 2**20
RETRY_DELAYS = (0.2, 10.0, 60.0)  # the first at once, as Slack does; the later ones sooner than Slack's one and five minutes


class PortTaken(OSError):
    """Something else listens on the port."""


class EmbeddedSlack:
    """`opening=False` begins with the people and channels, and nothing said. The clock gives ten-digit seconds."""

    BOT_TOKEN = "xoxb-embedded"  # made up: any token with the right prefix is accepted
    APP_TOKEN = "xapp-embedded"
    bot_user_id, bot_id, team_id, app_id = BOT_USER_ID, BOT_ID, TEAM_ID, APP_ID

    def __init__(
        self,
        folder: Path,
        *,
        control_token: str,
        port: int = 0,
        clock: Clock = time.time,
        ack_seconds: float = 3.0,
        retry_delays: Sequence[float] = RETRY_DELAYS,
        opening: bool = True,
    ) -> None:
        self._folder, self._port, self._clock = folder, port, clock
        self._control_token, self._ack_seconds, self._retry_delays = control_token, ack_seconds, retry_delays
        self._opening = opening
        self._running: AsyncExitStack | None = None
        self._address = ""

    async def start(self) -> EmbeddedSlack:
        """Raises PortTaken, JournalInUse, JournalUnreadable (all OSError)."""
        async with AsyncExitStack() as stack:
            self._open(stack)
            control = Control(workspace=self.workspace, faults=self.faults, token=self._control_token)
            runner = web.AppRunner(self._application(control), access_log=None, handle_signals=False, shutdown_timeout=1.0)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await self._listen(runner)
            stack.push_async_callback(self.sockets.stop)
            stack.callback(control.close)
            self._running = stack.pop_all()
        self.sockets.start()
        return self

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running:
            await running.aclose()

    async def __aenter__(self) -> EmbeddedSlack:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """What `SLACK_API_URL` is set to."""
        return f"http://{self._address}/api/"

    @property
    def control_url(self) -> str:
        return f"http://{self._address}/control/"

    @property
    def calls(self) -> list[Call]:
        """The newest calls of the Web API: (method, args, ok)."""
        return self._api.calls

    @property
    def dropped(self) -> int:
        """Events that were given up: no socket came, or no acknowledgement."""
        return self.sockets.dropped

    async def connected(self, seconds: float = 10.0) -> bool:
        """Waits until a socket is connected."""
        return await self.sockets.connected(seconds)

    async def deliver_to(self, request_url: str, signing_secret: str) -> bool:
        """Events go by HTTP from now on. False, and they do not: whoever listens there did not return the challenge."""
        return await self.sockets.deliver_to(RequestUrl(request_url, signing_secret, clock=self._clock, ack_seconds=self._ack_seconds))

    # -- what people do -----------------------------------------------------------------------------------------------
    def say(
        self,
        channel: str,
        user: str,
        text: str | None,
        *,
        thread_ts: str | None = None,
        mention: bool = False,
        deliver: bool = True,
        files: Sequence[str | Json] = (),
        subtype: str | None = None,
        ts: str | None = None,
        **extra: Any,
    ) -> Message:
        """Channel and user by name or id; see `Workspace.say`. Raises Unknown."""
        return self.workspace.say(
            channel,
            user,
            text,
            thread_ts=thread_ts,
            mention=mention,
            deliver=deliver,
            files=files,
            subtype=subtype,
            ts=ts,
            **extra,
        )

    def edit(self, channel: str, ts: str, text: str, *, deliver: bool = True) -> Message:
        return self.workspace.edit(channel, ts, text, deliver=deliver)

    def delete(self, channel: str, ts: str, *, deliver: bool = True) -> None:
        self.workspace.delete(channel, ts, deliver=deliver)

    def unfurl(self, channel: str, ts: str, attachment: Json) -> Message:
        return self.workspace.unfurl(channel, ts, attachment)

    def put(self, channel: str, message: Message) -> None:
        """Stores a message object as it is, and tells nobody: for shapes that `say` does not make."""
        self.workspace.store.put(self.workspace.conversation(channel).id, message)

    def thread(self, channel: str, ts: str) -> list[Message]:
        """Root first, with metadata; the ts of any message of the thread will do."""
        conversation = self.workspace.conversation(channel)
        return self.workspace.store.thread(conversation.id, self.workspace.thread_root(conversation, ts))

    def add_channel(
        self,
        name: str,
        *,
        kind: ChannelKind = ChannelKind.PUBLIC,
        members: Iterable[str] = (),
        bot: bool = True,
        shared: bool = False,
    ) -> Conversation:
        """`members` by name or id; none: everybody. `shared` with another organization."""
        people = [self.workspace.person(m).id for m in members] or [p for p in self.workspace.store.people if p != BOT_USER_ID]
        known = self.workspace.store.conversations
        new = Conversation(
            id=f"C0NEW{len(known):03d}",
            name=name,
            kind=kind,
            members=(*people, *((BOT_USER_ID,) if bot else ())),
            created=int(self._clock()),
            shared=shared,
        )
        self.workspace.store.set_conversation(new)
        return new

    def add_person(self, name: str, *, display_name: str = "", real_name: str = "", bot_id: str = "", team: str = "") -> Person:
        """`team`: of another organization."""
        person = Person(
            id=f"U0NEW{len(self.workspace.store.people):03d}",
            name=name,
            display_name=display_name or name,
            real_name=real_name or name.title(),
            bot_id=bot_id,
            team=team,
        )
        self.workspace.store.add_person(person)
        return person

    # -- parts --------------------------------------------------------------------------------------------------------
    def _open(self, stack: ExitStack | AsyncExitStack) -> None:
        seed: Callable[[float], Iterable[Json]] = slack_seed.opening if self._opening else slack_seed.people_and_channels
        store = Store(self._folder, clock=self._clock, opening=lambda: seed(self._clock()))
        stack.callback(store.close)
        outbox = Outbox(self._folder, clock=self._clock)
        stack.callback(outbox.close)
        self.sockets = SocketMode(outbox, ack_seconds=self._ack_seconds, retry_delays=self._retry_delays)
        self.faults = Faults(self.sockets.script, sockets=self.sockets, clock=self._clock)
        self.workspace = Workspace(store, clock=self._clock, send=self.sockets.send, script=self.sockets.script)
        self._api = WebApi(workspace=self.workspace, sockets=self.sockets, faults=self.faults)

    def _application(self, control: Control) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_only_programs_of_this_machine])
        app.router.add_route("*", "/api/{method}", self._api.handle)
        app.router.add_get("/link/", self.sockets.link)
        app.router.add_routes(control.routes())
        return app

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, HOST, self._port).start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            sentence = f"port {self._port} of {HOST} is in use by another program: stop that one, or choose another port (0: any free one)"
            raise PortTaken(errno.EADDRINUSE, sentence) from error
        self._address = f"{HOST}:{runner.addresses[0][1]}"


@web.middleware
async def _only_programs_of_this_machine(request: web.Request, handler: Handler) -> web.StreamResponse:
    """No web page reaches the workspace: neither a form of another site (it sends an Origin), nor a name that was made to
    point at this machine (Host). A socket needs a ticket, and some clients of it send an Origin."""
    name = request.host.rpartition(":")[0] or request.host
    if name not in {HOST, "localhost"} or ("Origin" in request.headers and request.path != "/link/"):
        return web.json_response({"ok": False, "error": "This server is for programs on this machine, not for web pages."}, status=403)
    return await handler(request)
