"""One message on its way into Slack, with a real outbox: what is posted for it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.messages import GateSummary, Message
from bot.outbox import Outbox
from bot.patience import Patience
from bot.ports import SlackError
from bot.replying import Delivered, Replies, ReplyLost
from bot.state_db import open_state
from telemetry.events import Decision, Injection, Outcome, Reason, Thread
from telemetry.names import Attr
from tests.bot.fakes import CHANNELS, EPOCH, GENERAL, ME, FakeClock, FakeSlack
from tests.bot.recording import RecordingEmit

GATE = GateSummary(decision=Decision.REFETCHED, reason=Reason.NOT_KNOWN, injection=Injection.FULL, messages=3, omitted=1)


class Desk:
    def __init__(self, path: Path) -> None:
        self.clock, self.emit = FakeClock(), RecordingEmit()
        self.slack = FakeSlack(self.clock)
        self.db = open_state(path)
        patience = Patience(clock=self.clock, emit=self.emit)
        self.replies = Replies(self.slack, Outbox(self.db), me=ME, clock=self.clock, emit=self.emit, patience=patience)
        self.root = self.slack.put(GENERAL, "the question")["ts"]
        self.message = Message(
            row=1,
            thread=Thread("T1", GENERAL, self.root),
            ts=self.root,
            user="U1",
            body={},
            channel=CHANNELS[0],
            route="main",
            key="main",
            accepted_at=EPOCH,
        )
        self.slack.calls.clear()

    async def post(self, text: str, gate: GateSummary | None = GATE) -> Delivered:
        work = self.replies.post(self.message, text, outcome=Outcome.ANSWERED, trace_id="abc", gate=gate)
        delivered = await self.clock.run(work)
        assert isinstance(delivered, Delivered)
        return delivered

    async def lost(self, text: str = "the answer") -> ReplyLost:
        with pytest.raises(ReplyLost) as raised:
            await self.post(text)
        return raised.value

    async def resume(self) -> Delivered:
        """As the next bot does it, for the message that the bot before it was answering."""
        self.message = replace(self.message, attempt=2)
        begun = self.replies.begun(self.message)
        assert begun is not None
        delivered = await self.clock.run(self.replies.resume(self.message, begun))
        assert isinstance(delivered, Delivered)
        return delivered

    def lands(self, error: SlackError) -> Callable[[], None]:
        """Slack takes the post that comes now, and says so to nobody."""

        def take() -> None:
            call = self.slack.of("post")[-1]
            self.land(call.text, call.metadata)
            raise error

        return take

    def land(self, text: str, metadata: Any, **by: Any) -> str:
        who = {"user": ME.user_id, "bot_id": ME.bot_id, **by}
        return str(self.slack.put(GENERAL, text, thread_ts=self.root, metadata=metadata, **who)["ts"])

    def lose_the_root(self) -> None:
        self.slack.erase(GENERAL, self.root)

    @property
    def own(self) -> list[dict[str, Any]]:
        return [m for _, m in sorted(self.slack.messages.items()) if m["ts"] != self.root]

    @property
    def span(self) -> dict[Attr, Any]:
        (span,) = self.emit.named("slack.reply")
        return span.attributes


def refused(code: str, retry_after: float = 0.0) -> SlackError:
    return SlackError("chat.postMessage", code, retry_after=retry_after)
