"""From a Slack event to a row in the inbox, before the event is acknowledged: accepted, kept, or dropped with a reason.

Runs to its end without waiting for anything but the disk, so two deliveries of one message cannot pass each other. When
it raises, the event stays unacknowledged and Slack delivers it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.inbox import Inbox, Row
from bot.messages import Change, Role
from bot.routes import RouteSettings
from bot.slack_events import Deleted, Edited, Ignored, Posted, StopAsked, Wondered, calls_somebody, is_late, mentioned, read_event
from bot.slack_text import Me, speaker_of
from bot.thread_routes import MAX_BOT_STREAK, ThreadRoute, ThreadRoutes
from telemetry.emit import Emit, Span
from telemetry.events import DropReason, MessageDropped, Outcome, SlackEventSeen, Thread
from telemetry.names import Attr, SpanName

WONDERS = 1_000  # Slack delivers one again within minutes
PASSED_BY = 1_000  # threads; a reply overtakes the message that makes its thread watched by minutes at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who may talk to the bot at all: user ids, empty for everyone of the workspace; bots and strangers only by name.

    A route may be narrower.
    """

    users: Sequence[str]
    bots: Sequence[str]

    def admits(self, user: str, *, stranger: bool = False) -> bool:
        return user in self.users if self.users else not stranger


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
        wondered: Callable[[Wondered], None],
        stop_asked: Callable[[StopAsked], None] = lambda by: None,
        refused: Callable[[Posted], None] = lambda posted: None,
        not_taken: Callable[[Posted, BaseException], None] = lambda posted, error: None,
    ) -> None:
        self._stop_asked, self._refused, self._not_taken = stop_asked, refused, not_taken
        self._inbox, self._threads, self._me, self._audience, self._routes = inbox, threads, me, audience, routes
        self._emit, self._accepted, self._wondered = emit, accepted, wondered
        self._passed_by: dict[Thread, str] = {}  # the newest reply in a thread that nobody watched
        self._wonders: dict[str, None] = {}  # event ids of question marks and stops, each of which counts once

    def take(self, body: Mapping[str, Any]) -> None:
        """`body` is the event callback as Slack sent it."""
        self._emit(SlackEventSeen())
        match read_event(body, self._me):
            case Posted() as posted:
                self._posted(posted)
            case Edited() as edited:
                self._edited(edited)
            case Deleted() as deleted:
                self._inbox.withdraw(deleted.thread, deleted.ts)
                self._keep_if_watched(deleted.thread, deleted.ts, Change.DELETED, {"user": deleted.user})
            case Wondered() as wondered:
                if self._audience.admits(wondered.user) and self._is_first(str(body.get("event_id") or "")):
                    self._wondered(wondered)
            case StopAsked() as by:
                if self._audience.admits(by.user) and self._is_first(str(body.get("event_id") or "")):
                    self._stop_asked(by)
            case Ignored() as ignored:
                self._drop(ignored.reason, ignored.channel, ignored.ts)

    def _is_first(self, event_id: str) -> bool:
        """Of messages the inbox knows; a question mark has nothing but the id of its event."""
        if event_id in self._wonders:
            return False
        if event_id:
            self._wonders[event_id] = None
        if len(self._wonders) > WONDERS:
            del self._wonders[next(iter(self._wonders))]
        return True

    # -- messages ------------------------------------------------------------------------------------------------------
    def _posted(self, p: Posted) -> None:
        if self._inbox.has(p.thread, p.ts):
            if p.edited:
                self._reword(p)
            self._drop(DropReason.DUPLICATE, p.thread.channel, p.ts)
            return
        self._take_or_keep(p, self._why_not(p), Change.EDITED if p.edited else Change.POSTED)

    def _take_or_keep(self, p: Posted, why_not: DropReason | None, change: Change) -> None:
        if why_not is None:
            self._accept(p)
        else:
            self._keep_if_watched(p.thread, p.ts, change, p.body)
            self._drop(why_not, p.thread.channel, p.ts)
            if why_not is DropReason.NOT_ALLOWED:
                self._refused(p)

    def _why_not(self, p: Posted) -> DropReason | None:
        """None: it is addressed to the bot by somebody who may."""
        row = self._threads.get_thread_route(p.thread)
        if row is not None and self._inbox.was_deleted(p.thread, p.ts):
            return DropReason.IGNORED_EVENT  # its deletion overtook it
        if p.edited and is_late(p, ""):
            return DropReason.LATE_EDIT
        if not self._is_addressed(p, row):
            return DropReason.NOT_ADDRESSED
        if self._is_bot(p):
            if not {p.bot_id, p.user} & set(self._audience.bots):
                return DropReason.OTHER_BOT
            return DropReason.BOT_LOOP if row and row.bot_streak >= MAX_BOT_STREAK else None
        return None if self._audience.admits(p.user, stranger=p.stranger) else DropReason.NOT_ALLOWED

    def _is_bot(self, p: Posted) -> bool:
        return speaker_of(p.body, self._me, {}).role is Role.BOT

    def _is_addressed(self, p: Posted, row: ThreadRoute | None) -> bool:
        if p.named or p.mentions(self._me.user_id) or p.channel_type == "im":
            return True
        follows = row is not None and row.answered and p.ts != p.thread.ts and self._follows(row.route)
        return follows and not calls_somebody(p.body)

    def _follows(self, route: str) -> bool:
        settings = self._routes.get(route)
        return settings is not None and settings.follow == "thread"

    def _accept(self, p: Posted) -> None:
        span = self._emit.begin(SpanName.PROCESS, root_attributes(p.thread, p.ts), root=True)
        try:
            self._threads.watch(p.thread)  # first: a message without its thread would never hear what is said around it
            row = self._inbox.accept(p.thread, p.ts, user=p.user, channel_type=p.channel_type, body=p.body, trace=span.ref)
        except BaseException as e:
            span.set({Attr.REPLY_OUTCOME: Outcome.FAILED.value})
            span.fail(type(e).__name__)
            span.end()
            self._not_taken(p, e)
            raise
        if (younger := self._passed_by.pop(p.thread, "")) > p.ts:
            self._inbox.miss(p.thread, younger)  # it overtook this message, and was let go
        if self._is_bot(p):
            self._threads.count_bot(p.thread)
        self._accepted(row, span)

    # -- edits and deletions -------------------------------------------------------------------------------------------
    def _edited(self, e: Edited) -> None:
        p = e.posted
        if self._inbox.has(p.thread, p.ts):
            self._reword(p)
            self._drop(DropReason.DUPLICATE, p.thread.channel, p.ts)
        else:
            self._take_or_keep(p, self._why_not_edited(e), Change.EDITED)

    def _why_not_edited(self, e: Edited) -> DropReason | None:
        """An edit addresses the bot only by a mention that it adds, and only in time."""
        if self._me.user_id not in mentioned(e.posted.body) - mentioned(e.before):
            return DropReason.NOT_ADDRESSED
        return DropReason.LATE_EDIT if e.late else self._why_not(e.posted)

    def _reword(self, p: Posted) -> None:
        """What waits is asked as it now stands; what was asked already is told of later, as an edit."""
        if not self._inbox.reword(p.thread, p.ts, p.body):
            self._keep_if_watched(p.thread, p.ts, Change.EDITED, p.body)

    def _keep_if_watched(self, thread: Thread, ts: str, change: Change, body: Mapping[str, Any]) -> None:
        """Text of threads that the bot takes no part in is acknowledged and not kept."""
        if self._threads.get_thread_route(thread) is not None:
            self._inbox.keep(thread, ts, change, body)
        else:
            self._passed_by[thread] = max(ts, self._passed_by.pop(thread, ""))  # the newest stand last
            if len(self._passed_by) > PASSED_BY:
                del self._passed_by[next(iter(self._passed_by))]

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
