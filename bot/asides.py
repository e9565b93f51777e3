"""What is told to one person beside the answers, and to nobody else: that they may not ask here, that there is nothing to stop.

What must stay true: whoever may not talk to the bot is told so once a day, in the language of what they wrote, and no word of it
reaches a model; what goes wrong here stops nothing.
"""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo

from bot.inbox import Inbox
from bot.ports import Clock, SlackError, SlackPort
from bot.words import Sentence, language_of, say


class Asides:
    """`language`: the configured one, or `auto`."""

    def __init__(self, slack: SlackPort, inbox: Inbox, *, language: str, tz: tzinfo, clock: Clock) -> None:
        self._slack, self._inbox, self._language, self._tz, self._clock = slack, inbox, language, tz, clock

    async def refuse(self, channel: str, user: str, text: str, *, thread_ts: str) -> None:
        """`text`: what they wrote."""
        if self._is_first_today(user):
            await self._whisper(channel, user, Sentence.NOT_ALLOWED, text, thread_ts)

    async def nothing_to_stop(self, channel: str, user: str, text: str, *, thread_ts: str) -> None:
        await self._whisper(channel, user, Sentence.NOTHING_TO_STOP, text, thread_ts)

    def _is_first_today(self, user: str) -> bool:
        today = datetime.fromtimestamp(self._clock.now(), self._tz).date().isoformat()
        return self._inbox.tell_once_a_day(f"refused {user}", today)

    async def _whisper(self, channel: str, user: str, sentence: Sentence, text: str, thread_ts: str) -> None:
        words = say(sentence, language_of(text, self._language))
        try:
            await self._slack.whisper(channel, user, words, thread_ts=thread_ts)
        except SlackError as e:
            print(f"insomnia: could not tell {user} in {channel}: {sentence.value} ({e.code})", file=sys.stderr)
