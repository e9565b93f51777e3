"""From a Slack event to a row in the inbox, before the event is acknowledged: accepted, kept, or dropped with a reason.

Runs to its end without waiting for anything but the disk, so two deliveries of one message cannot pass each other. When
it raises, the event stays unacknowledged and Slack delivers it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.inbox import Inbox, Row
from bot.messages import Change
from bot.routes import RouteSettings
from bot.slack_events import Deleted, Edited, Ignored, Posted, is_late, mentioned, read_event
from bot.slack_text import Me
from bot.thread_routes import MAX_BOT_STREAK, ThreadRoute, ThreadRoutes
from telemetry.emit import Emit, Span
from telemetry.events import DropReason, MessageDropped, SlackEventSeen, Thread
from telemetry.names import Attr, SpanName


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who may talk to the bot at all: user ids, empty for everyone; bots only by name. A route may be narrower."""

    users: Sequence[str]
    bots: Sequence[str]

    def admits(self, user: str) -> bool:
        return not self.users or user in self.users


class Intake:
    def __init__(
        self,
        *,
        inbox: Inbox,
        threads: ThreadRoutes,
        me: Me,
        audience: Audience,
        routes: Mapping[str, RouteSettings],
        emit: Emit,
        accepted: Callable[[Row, Span], None],
    ) -> None:
        self._inbox, self._threads, self._me, self._audience, self._routes = inbox, threads, me, audience, routes
        self._emit, self._accepted = emit, accepted

    def take(self, body: Mapping[str, Any]) -> None:
        """`body` is the event callback as Slack sent it."""
        self._emit(SlackEventSeen())
        match read_event(body, self._me):
            case Posted() as posted:
                self._posted(posted)
            case Edited() as edited:
                self._edited(edited)
            case Deleted() as deleted:
                self._keep_if_watched(deleted.thread, deleted.ts, Change.DELETED, {"user": deleted.user})
            case Ignored() as ignored:
                self._drop(ignored.reason, ignored.channel, ignored.ts)

    # -- messages ------------------------------------------------------------------------------------------------------
    def _posted(self, p: Posted) -> None:
        if self._inbox.has(p.thread, p.ts):
            self._drop(DropReason.DUPLICATE, p.thread.channel, p.ts)
            return
        row = self._threads.get_thread_route(p.thread)
        reason = self._why_not(p, row)
        if reason is None:
            self._accept(p)
            return
        if row is not None and not self._heard_already(p):
            self._inbox.keep(p.thread, p.ts, Change.EDITED if p.edited else Change.POSTED, p.body)
        self._drop(reason, p.thread.channel, p.ts)

    def _why_not(self, p: Posted, row: ThreadRoute | None) -> DropReason | None:
        """None: it is addressed to the bot by somebody who may."""
        if p.edited and is_late(p, ""):
            return DropReason.LATE_EDIT
        if not self._is_addressed(p, row):
            return DropReason.NOT_ADDRESSED
        if p.bot_id or p.body.get("subtype") == "bot_message":
            if not {p.bot_id, p.user} & set(self._audience.bots):
                return DropReason.OTHER_BOT
            return DropReason.BOT_LOOP if row and row.bot_streak >= MAX_BOT_STREAK else None
        return None if self._audience.admits(p.user) else DropReason.NOT_ALLOWED

    def _is_addressed(self, p: Posted, row: ThreadRoute | None) -> bool:
        if p.mentions(self._me.user_id) or p.channel_type == "im":
            return True
        follows = row is not None and row.answered and p.ts != p.thread.ts and self._follows(row.route)
        return follows and not mentioned(p.body)

    def _follows(self, route: str) -> bool:
        settings = self._routes.get(route)
        return settings is not None and settings.follow == "thread"

    def _accept(self, p: Posted) -> None:
        span = self._emit.begin(SpanName.PROCESS, root_attributes(p.thread, p.ts), root=True)
        self._threads.watch(p.thread)
        row = self._inbox.accept(p.thread, p.ts, user=p.user, channel_type=p.channel_type, body=p.body, trace=span.ref)
        self._accepted(row, span)

    # -- edits and deletions -------------------------------------------------------------------------------------------
    def _edited(self, e: Edited) -> None:
        p = e.posted
        if self._inbox.has(p.thread, p.ts):
            if not self._inbox.reword(p.thread, p.ts, p.body):
                self._keep_if_watched(p.thread, p.ts, Change.EDITED, p.body)
            self._drop(DropReason.DUPLICATE, p.thread.channel, p.ts)
            return
        newly = self._me.user_id in mentioned(p.body) and self._me.user_id not in mentioned(e.before)
        if newly and not e.late and self._why_not(p, self._threads.get_thread_route(p.thread)) is None:
            self._accept(p)
            return
        self._keep_if_watched(p.thread, p.ts, Change.EDITED, p.body)
        self._drop(DropReason.LATE_EDIT if newly else DropReason.NOT_ADDRESSED, p.thread.channel, p.ts)

    def _keep_if_watched(self, thread: Thread, ts: str, change: Change, body: Mapping[str, Any]) -> None:
        """Text of threads that the bot takes no part in is acknowledged and not kept."""
        if self._threads.get_thread_route(thread) is not None:
            self._inbox.keep(thread, ts, change, body)

    def _heard_already(self, p: Posted) -> bool:
        """Another delivery of what was kept; an edit that was kept since must not be undone by it."""
        return any(h.ts == p.ts for h in self._inbox.heard(p.thread, before=p.ts + "~"))

    def _drop(self, reason: DropReason, channel: str, ts: str) -> None:
        self._emit(MessageDropped(reason=reason, channel=channel, message_ts=ts))


def root_attributes(thread: Thread, ts: str) -> dict[Attr, str]:
    return {
        Attr.MESSAGING_SYSTEM: "slack",
        Attr.MESSAGING_OPERATION_NAME: "process",
        Attr.MESSAGING_OPERATION_TYPE: "process",
        Attr.MESSAGING_DESTINATION: thread.channel,
        Attr.MESSAGING_MESSAGE_ID: ts,
        Attr.MESSAGING_CONVERSATION_ID: thread.ts,
        Attr.THREAD_TEAM: thread.team,
    }
