"""`@bot why` in a thread, and a question mark on an answer: told in Slack to whoever asked, and to nobody else.

What must stay true: it costs no turn of the session and no word of it reaches the model; nothing that goes wrong here
reaches the lane; what is told holds no text of a message, so whoever is in the channel may know it.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Protocol

from bot.explain.explainer import Why
from bot.explain.sentence import sentence_of
from bot.ports import SlackError, SlackPort
from bot.words import Language, language_of
from telemetry.events import Thread


class Explains(Protocol):
    """Where the traces are; see `explainer.Explainer`."""

    async def sentence_for(self, thread: Thread, language: Language, *, message_ts: str = "", besides: str = "") -> Why: ...


class Whys:
    """`language`: the configured one, or `auto`."""

    def __init__(self, explains: Explains, slack: SlackPort, *, language: str) -> None:
        self._explains, self._slack, self._language = explains, slack, language

    async def asked_in(self, thread: Thread, user: str, text: str, *, ts: str) -> None:
        """`text` and `ts`: of the message that asks."""
        language = language_of(text, self._language)
        asking = self._explains.sentence_for(thread, language, besides=ts)
        await self._whisper(thread.channel, user, await _told(asking, thread.ts, language))

    async def wondered(self, team: str, channel: str, ts: str, user: str) -> None:
        """By a reaction to the message `ts`. It has no words, so `auto` cannot tell the language from them: it is English then."""
        language = language_of("", self._language)
        asking = self._explains.sentence_for(Thread(team, channel, ts), language, message_ts=ts)
        await self._whisper(channel, user, await _told(asking, ts, language))

    async def _whisper(self, channel: str, user: str, why: Why) -> None:
        try:
            await self._slack.whisper(channel, user, why.sentence, thread_ts=why.thread_ts)
        except SlackError as e:
            print(f"insomnia: could not tell {user} in {channel} why ({e.code})", file=sys.stderr)


async def _told(asking: Awaitable[Why], thread_ts: str, language: Language) -> Why:
    try:
        return await asking
    except Exception as e:  # noqa: BLE001 - the boundary between what is stored, which may be anything, and the lanes
        print(f"insomnia: a reply could not be explained ({type(e).__name__})", file=sys.stderr)
        return Why(sentence_of(None, language), thread_ts)
