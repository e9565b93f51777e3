"""All sessions of the bot, one a session key. An object lives as long as the bot; its process comes and goes."""

from __future__ import annotations

import asyncio

from bot.persistent_session import PersistentSession, SessionParts
from bot.routes import Destination


class Sessions:
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._sessions: dict[str, PersistentSession] = {}

    def peek_session(self, key: str) -> PersistentSession | None:
        """Never creates one: for those who only look."""
        return self._sessions.get(key)

    def session_for(self, to: Destination) -> PersistentSession:
        if to.key not in self._sessions:
            self._sessions[to.key] = PersistentSession(to.route, to.key, self._parts)
        return self._sessions[to.key]

    def doubt_delivery(self, *, until: float = 0.0) -> None:
        """What was said up to now, or up to then (seconds since the epoch), may never arrive as an event."""
        until = until or self._parts.clock.now()
        for session in self._sessions.values():
            session.context.doubt_delivery(at=f"{until:.6f}")

    async def close_all(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions.values()), return_exceptions=True)
