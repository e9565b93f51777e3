"""All sessions of the bot, one a session key. An object lives as long as the bot; its process comes and goes.

What must stay true: no more than `max_resident` processes live, unless more than that are at work at once: whoever needs
one ends the process that was used longest ago first, and nobody waits for a turn of another session.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bot.persistent_session import PersistentSession, SessionParts
from bot.routes import Destination


class Sessions:
    def __init__(self, parts: SessionParts, *, max_resident: int) -> None:
        self._parts = replace(parts, make_room=self.make_room)
        self._max_resident = max_resident
        self._sessions: dict[str, PersistentSession] = {}  # the one that was used longest ago stands first

    def peek_session(self, key: str) -> PersistentSession | None:
        """Never creates one: for those who only look."""
        return self._sessions.get(key)

    def session_for(self, to: Destination) -> PersistentSession:
        session = self._sessions.pop(to.key, None) or PersistentSession(to.route, to.key, self._parts)
        self._sessions[to.key] = session
        return session

    async def make_room(self) -> None:
        """Those at work are left alone; their turn's end makes room again."""
        while sum(session.is_resident for session in self._sessions.values()) > self._max_resident:
            longest_ago = next((session for session in self._sessions.values() if session.is_idle), None)
            if longest_ago is None:
                return
            await longest_ago.hibernate()

    def doubt_delivery(self, *, until: float = 0.0) -> None:
        """What was said up to now, or up to then (seconds since the epoch), may never arrive as an event."""
        until = until or self._parts.clock.now()
        for session in self._sessions.values():
            session.context.doubt_delivery(at=f"{until:.6f}")

    async def close_all(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions.values()), return_exceptions=True)
