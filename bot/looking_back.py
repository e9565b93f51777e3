"""Questions that nobody remembers: those of the last hour that Slack has, below which the bot has said nothing, taken as if
they came now. For a bot whose `state.db` was lost.

What must stay true: what the inbox knows is not asked again, nor what the bot has answered; it goes slowly, so that answers keep
Slack's patience for themselves; what cannot be read is left out and told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bot.ports import Clock, SlackError, SlackPort
from bot.slack_events import mentioned
from bot.slack_text import Me

LOOK_BACK_SECONDS = 3_600.0
NEWEST = 100  # messages of a channel that are looked at: a thread below an older one is not found
PAUSE_SECONDS = 1.2  # between two calls: Slack allows fifty a minute
Json = Mapping[str, Any]


class LookingBack:
    """`take`: of the intake. `clock`: Slack's time."""

    def __init__(self, slack: SlackPort, *, take: Callable[[Json], None], me: Me, clock: Clock) -> None:
        self._slack, self._take, self._me, self._clock = slack, take, me, clock

    async def look(self, channels: Mapping[str, str], *, team: str) -> int:
        """`channels`: of which the bot is a member, with the type that events give them. Returns how many questions were found."""
        oldest, found, unread = f"{self._clock.now() - LOOK_BACK_SECONDS:.6f}", 0, 0
        for channel, kind in channels.items():
            try:
                questions = await self._questions(channel, kind, oldest)
            except SlackError:
                unread += 1
                continue
            for m in sorted(questions, key=lambda m: str(m.get("ts"))):
                self._take({"team_id": team, "event": {**m, "type": "message", "channel": channel, "channel_type": kind}})
            found += len(questions)
        more = f"; {unread} channels could not be read" if unread else ""
        print(
            f"insomnia: {found} questions of the last hour stand in Slack without an answer; they are answered now{more}", file=sys.stderr
        )
        return found

    async def _questions(self, channel: str, kind: str, oldest: str) -> list[Json]:
        await self._clock.sleep(PAUSE_SECONDS)
        found: list[Json] = []
        for root in (await self._slack.history(channel, limit=NEWEST)).messages:
            if max(_ts(root), str(root.get("latest_reply") or "")) > oldest:
                thread = await self._thread(channel, root)
                last_word = max((_ts(m) for m in thread if self._is_own(m)), default="")
                found += [m for m in thread if _ts(m) > max(oldest, last_word) and self._asks(m, kind)]
        return found

    async def _thread(self, channel: str, root: Json) -> Sequence[Json]:
        if not root.get("reply_count"):
            return [root]
        await self._clock.sleep(PAUSE_SECONDS)
        replies, cursor = [], ""
        while True:
            page = await self._slack.replies(channel, _ts(root), cursor=cursor)
            replies += [m for m in page.messages if _ts(m) != _ts(root)]
            if not (cursor := page.next_cursor):
                return [root, *replies]

    def _asks(self, m: Json, kind: str) -> bool:
        return not self._is_own(m) and (kind == "im" or self._me.user_id in mentioned(m))

    def _is_own(self, m: Json) -> bool:
        return m.get("user") == self._me.user_id or (bool(self._me.bot_id) and m.get("bot_id") == self._me.bot_id)


def _ts(m: Json) -> str:
    return str(m.get("ts") or "")
