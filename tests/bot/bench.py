"""The whole bot, from an event to a posted answer, with fakes at its ports and real files: Slack, the CLI and time are faked.

A test lets people write, moves the clock, scripts the CLI, and looks at what reached the CLI and Slack and at what was told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, cast

from bot.account_rests import AccountRests
from bot.accounts import Accounts
from bot.app import App
from bot.asides import Asides
from bot.budgets import Budgets
from bot.config import Credential
from bot.inbox import Inbox
from bot.intake import Audience, Intake
from bot.outbox import Outbox
from bot.patience import Patience
from bot.persistent_session import PersistentSession, SessionParts
from bot.replying import Replies
from bot.responder import Responder
from bot.router import Router
from bot.routes import RouteSettings
from bot.sessions import Sessions
from bot.slack_text import Me
from bot.state_db import open_state
from bot.thread_routes import ThreadRoutes
from bot.thread_sections import ThreadReader
from bot.whys import Whys
from telemetry.events import GateDecided, ReplyEnded, SessionReset, Thread, ThreadInjected
from tests.bot.fakes import GENERAL, JUMPS, ME, MODEL, FakeClaude, FakeClock, FakeExplains, FakeSlack, settled
from tests.bot.full_disk import RefusingDb
from tests.bot.recording import FakeSpan, RecordingEmit

MENTION = f"<@{ME.user_id}> "
KNOWN = ("known", "held", None)
NEW = ("new", "first_message", None)


def routes(**main: Any) -> dict[str, RouteSettings]:
    return {
        "main": RouteSettings(**{"name": "main", "model": MODEL, "channels": ("general",), **main}),
        "coder": RouteSettings(name="coder", model=MODEL, channels=("code",)),
        "dm": RouteSettings(name="dm", model=MODEL),
        "private": RouteSettings(name="private", model=MODEL),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One message and what came of it. `posts`: what the bot posted for it, as it stands in Slack."""

    ts: str
    thread: Thread
    posts: tuple[dict[str, Any], ...]
    prompts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(post["text"] for post in self.posts)

    @property
    def prompt(self) -> str:
        (only,) = self.prompts
        return only

    @property
    def gate(self) -> tuple[str, str, str | None] | None:
        gate = self.posts[0]["metadata"]["event_payload"]["gate"] if self.posts else None
        return (gate["decision"], gate["reason"], gate["injection"]) if gate else None

    @property
    def outcome(self) -> str:
        return str(self.posts[0]["metadata"]["event_payload"]["outcome"])


class Bench:
    """Two of them in one folder, with the same fakes, are a bot and the one that is started after it."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: dict[str, RouteSettings] | None = None,
        users: Sequence[str] = (),
        bots: Sequence[str] = (),
        language: str = "en",
        me: Me = ME,
        accounts: Sequence[str] = ("work",),
        max_resident: int = 32,
        budget: float = 0.0,
        footer: bool = False,
        tz: tzinfo = UTC,
        before: Bench | None = None,
        mortal: Callable[[Any], Any] = lambda port: port,
    ) -> None:
        """`mortal`: puts something between the bot and its disk, Slack and CLI."""
        self._mortal = mortal
        self.folder, self.settings = folder, settings or routes()
        self.clock: FakeClock = before.clock if before else FakeClock()
        self.slack: FakeSlack = before.slack if before else FakeSlack(self.clock)
        self.claude: FakeClaude = before.claude if before else FakeClaude()
        self.emit, self.explains = RecordingEmit(), FakeExplains()
        self.refused: list[str] = []  # beginnings of statements that the disk does not take
        self.db = cast(sqlite3.Connection, mortal(RefusingDb(open_state(folder / "state.db"), self.refused)))
        limits = {name: route.budget_usd_day for name, route in self.settings.items()}
        self.budgets = Budgets(folder / "spent.json", clock=self.clock, tz=tz, limits=limits, overall=budget)
        self.budgets.told = self.emit
        self.emit.listeners.append(self.budgets.hear)
        slack = mortal(self.slack)
        boot = "second" if before else "first"
        self.inbox, self.threads = Inbox(self.db, clock=self.clock), ThreadRoutes(self.db, clock=self.clock, boot=boot)
        credentials = [Credential(name, "ANTHROPIC_API_KEY", f"key-of-{name}") for name in accounts]
        self.accounts = Accounts(credentials, clock=self.clock, emit=self.emit, rests=AccountRests(self.db))
        self.sessions = Sessions(self._parts(), max_resident=max_resident)
        self.reader = ThreadReader(slack, self.inbox, me=me, clock=self.clock, emit=self.emit)
        self.router = Router(reader=self.reader, inbox=self.inbox, threads=self.threads, emit=self.emit, tz=UTC)
        audience = Audience(users=users, bots=bots)
        patience = Patience(clock=self.clock, emit=self.emit)
        self.responder = Responder(
            sessions=self.sessions,
            router=self.router,
            reader=self.reader,
            replies=Replies(slack, Outbox(self.db), me=ME, clock=self.clock, emit=self.emit, patience=patience),
            slack=slack,
            threads=self.threads,
            audience=audience,
            language=language,
            me=me,
            clock=self.clock,
            emit=self.emit,
            budgets=self.budgets,
            tz=tz,
            footer=footer,
        )
        self.app = App(
            inbox=self.inbox,
            threads=self.threads,
            routes=self.settings,
            slack=slack,
            responder=self.responder,
            whys=Whys(self.explains, slack, language=language),
            asides=Asides(slack, self.inbox, language=language, tz=tz, clock=self.clock),
            me=me,
            clock=self.clock,
            emit=self.emit,
            patience=patience,
        )
        self.intake = Intake(
            inbox=self.inbox,
            threads=self.threads,
            me=me,
            audience=audience,
            routes=self.settings,
            emit=self.emit,
            accepted=self.app.accepted,
            wondered=self.app.wondered,
            stop_asked=self.app.stop_asked,
            refused=self.app.refused,
            not_taken=self.app.not_taken,
        )

    def _parts(self) -> SessionParts:
        return SessionParts(
            starter=self._mortal(self.claude),
            threads=self.threads,
            folder=self.folder / "sessions",
            clock=self.clock,
            emit=self.emit,
            system_prompt=lambda route: f"system prompt of {route.name}",
            accounts=self.accounts,
        )

    # -- people --------------------------------------------------------------------------------------------------------
    def old_thread(self, *texts: str, channel: str = GENERAL) -> str:
        """It stands in Slack, and the bot never heard of it. Returns the ts of its root."""
        root = self.slack.put(channel, texts[0])["ts"]
        for number, text in enumerate(texts[1:]):
            self.slack.put(channel, text, user=("U2", "U1")[number % 2], thread_ts=root)
        return str(root)

    def write(self, text: str, *, thread: str = "", channel: str = GENERAL, user: str = "U1", **more: Any) -> str:
        """A person writes, and the event arrives; what follows from it has not run yet."""
        message = self.slack.put(channel, text, user=user, thread_ts=thread, **more)
        self.deliver(channel, message)
        return str(message["ts"])

    def mention(self, text: str, **where: Any) -> str:
        return self.write(MENTION + text, **where)

    def edit(self, channel: str, ts: str, text: str) -> None:
        before = dict(self.slack.messages[channel, ts])
        self.clock.advance(1.0)
        after = self.slack.messages[channel, ts] = {**before, "text": text, "edited": {"ts": f"{self.clock.now():.6f}"}}
        self.deliver(channel, {"type": "message", "subtype": "message_changed", "message": after, "previous_message": before})

    def delete(self, channel: str, ts: str) -> None:
        before = self.slack.messages.pop((channel, ts))
        self.deliver(channel, {"type": "message", "subtype": "message_deleted", "deleted_ts": ts, "previous_message": before})

    def deliver(self, channel: str, message: dict[str, Any]) -> None:
        kind = "im" if channel.startswith("D") else "channel"
        event = {
            **message,
            "channel": channel,
            "channel_type": kind,
            "event_ts": message.get("ts", f"{self.clock.now() - self.clock.set_off:.6f}"),
        }
        self.intake.take({"team_id": self.slack.team, "event": event})

    async def ask(self, text: str, *, thread: str = "", channel: str = GENERAL, user: str = "U1", **more: Any) -> Asked:
        """Mentions the bot, and lets everything run to its end, time included."""
        prompts = len(self.claude.prompts)
        ts = self.mention(text, thread=thread, channel=channel, user=user, **more)
        await self.ended()
        return self.asked(ts, thread=thread, channel=channel, prompts=prompts)

    def asked(self, ts: str, *, thread: str = "", channel: str = GENERAL, prompts: int = 0) -> Asked:
        key = f"{self.slack.team}/{channel}/{ts}"
        posts = [m for m in self.slack.messages.values() if m.get("metadata") and m["metadata"]["event_payload"]["message"] == key]
        return Asked(
            ts=ts,
            thread=Thread(self.slack.team, channel, thread or ts),
            posts=tuple(sorted(posts, key=lambda m: str(m["ts"]))),
            prompts=tuple(self.claude.prompts[prompts:]),
        )

    async def ended(self) -> None:
        """Everything that was accepted has its end. Time passes where something waits for it."""
        for _ in range(JUMPS):
            await settled()
            if not self.open_messages:
                return
            wake = self.clock.next_wake()
            assert wake is not None, "a message waits for something that no clock brings about"
            self.clock.advance(wake - self.clock.elapsed)
        raise AssertionError("a message has no end")

    @property
    def open_messages(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM messages WHERE state != 'ended'").fetchone()[0])

    async def close(self) -> None:
        await self.sessions.close_all()
        self.db.close()

    # -- what was told -------------------------------------------------------------------------------------------------
    def session(self, key: str = "main") -> PersistentSession:
        found = self.sessions.peek_session(key)
        assert found is not None
        return found

    def knows(self, thread: str, *, channel: str = GENERAL, key: str = "main") -> bool:
        return self.session(key).knows_thread(Thread(self.slack.team, channel, thread))

    @property
    def replies(self) -> list[FakeSpan]:
        """The roots of all traces of messages, in the order of arrival."""
        return self.emit.named("process slack")

    @property
    def reads(self) -> int:
        return self.slack.count("replies")

    @property
    def decisions(self) -> list[tuple[str, str]]:
        return [(f.decision.value, f.reason.value) for f in self.emit.of(GateDecided)]

    @property
    def injections(self) -> list[tuple[str, str, int]]:
        """(reason, injection, messages)"""
        return [(f.reason.value, f.injection.value, f.messages) for f in self.emit.of(ThreadInjected)]

    @property
    def resets(self) -> list[tuple[str, str, int]]:
        """(cause, how, threads forgotten)"""
        return [(f.cause.value, f.how.value, f.forgotten) for f in self.emit.of(SessionReset)]

    @property
    def outcomes(self) -> list[tuple[str, str | None]]:
        return [(f.outcome.value, f.reason.value if f.reason else None) for f in self.emit.of(ReplyEnded)]


def block(prompt: str) -> list[str]:
    """The lines of the thread block, its tags left out; nothing where there is none."""
    if "<thread-" not in prompt:
        return []
    inside = prompt[prompt.index("<thread-") : prompt.index("</thread-")]
    return inside.splitlines()[1:]


def quoted(prompt: str) -> list[str]:
    """The texts quoted in the thread block, marks of change included."""
    lines = [line for line in block(prompt) if line[:2] == "20"]
    return [line.partition("): ")[2] if "): " in line else line[line.index(") [") + 2 :] for line in lines]


def question(prompt: str) -> str:
    return prompt[prompt.index("\n", prompt.index("<message-")) + 1 : prompt.index("\n</message-")]
