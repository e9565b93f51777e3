"""What of a reply stands in Slack already: looked up in the thread by the metadata of its parts.

It waits as long as Slack cannot be asked, within bounds; it never guesses. Where Slack will not tell, SlackError says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.messages import Message, Role
from bot.ports import Clock, SlackError, SlackPort
from bot.reply_parts import Reply
from bot.slack_codes import may_pass
from bot.slack_text import Me, speaker_of

PAGE_SIZE = 200
LONGEST_WAIT_SECONDS = 60.0
# While Slack is away nothing else could be posted either, so the lane may wait: five minutes beside the calls' own limits.
PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0)


class Standing:
    def __init__(self, slack: SlackPort, *, me: Me, clock: Clock) -> None:
        self._slack, self._me, self._clock = slack, me, clock

    async def parts(self, message: Message, reply: Reply) -> dict[int, tuple[str, ...]]:
        """Part number -> the ts under which it stands, more than one where it stands twice; oldest first."""
        for pause in (*PAUSES, None):
            try:
                return await self._read(message, reply)
            except SlackError as e:
                if pause is None or not may_pass(e.code):
                    raise
                await self._clock.sleep(max(pause, min(e.retry_after, LONGEST_WAIT_SECONDS)))
        raise AssertionError("unreachable: the last try returns or raises")

    async def _read(self, message: Message, reply: Reply) -> dict[int, tuple[str, ...]]:
        """Everything below the message; Slack may repeat one on two pages."""
        found: dict[int, set[str]] = {}
        cursor, seen = "", set[str]()
        while cursor not in seen:
            seen.add(cursor)
            thread = message.thread
            page = await self._slack.replies(thread.channel, thread.ts, cursor=cursor, limit=PAGE_SIZE, oldest=message.ts, metadata=True)
            for posted in page.messages:
                if (number := self._number(posted, message, reply)) is not None:
                    found.setdefault(number, set()).add(str(posted["ts"]))
            cursor = page.next_cursor
            if not cursor:
                break
        return {number: tuple(sorted(ts)) for number, ts in sorted(found.items())}

    def _number(self, posted: Mapping[str, object], message: Message, reply: Reply) -> int | None:
        """Anybody may write our metadata; only the bot's own posts count."""
        return reply.number_of(posted, message) if speaker_of(posted, self._me, {}).role is Role.OWN else None
