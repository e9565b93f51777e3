"""What the live context of one session holds: the set that implements the gate, and beside it what may take from it.

What must stay true: a thread is in the set only while its text is in the context. `forget` empties the set and opens a
new epoch; a mark that was earned in an older epoch is dropped. Memory only, on purpose: a lost set costs one re-read, a
stale one costs the bot its memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bot.messages import Said
from telemetry.events import REASON_AFTER, Reason, ResetCause, Thread

LOST_REMEMBERED = 1_000  # threads whose loss is remembered, only to name a reason


@dataclass(slots=True)
class Loss:
    """A reset that happened; it is told once it is known how the session goes on."""

    cause: ResetCause
    session_id: str
    forgotten: int


class KnownThreads:
    def __init__(self) -> None:
        self.epoch = 0
        self._known: set[Thread] = set()
        self._shown: dict[Thread, dict[str, str]] = {}  # message ts -> digest of the text that this context was given
        self._gapped: set[Thread] = set()  # known, but events of theirs may have been missed
        self._lost: dict[Thread, Reason] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, thread: Thread) -> bool:
        return thread in self._known

    def mark(self, thread: Thread, *, epoch: int) -> bool:
        """False, and nothing changed, when the epoch in which the mark was earned is over."""
        if epoch != self.epoch:
            return False
        self._known.add(thread)
        self._gapped.discard(thread)
        self._lost.pop(thread, None)
        return True

    def forget(self, cause: ResetCause, *, session_id: str) -> Loss:
        loss = Loss(cause, session_id, len(self._known))
        self._lost |= dict.fromkeys(self._known, REASON_AFTER[cause])
        while len(self._lost) > LOST_REMEMBERED:
            del self._lost[next(iter(self._lost))]
        self._known.clear()
        self._gapped.clear()
        self._shown.clear()
        self.epoch += 1
        return loss

    def forget_one(self, thread: Thread, *, session_id: str) -> Loss:
        """For `reread`: it is read in anew, whole. No other thread is touched, so the epoch stays."""
        loss = Loss(ResetCause.FORGET_MANUAL, session_id, int(thread in self._known))
        self._known.discard(thread)
        self._gapped.discard(thread)
        self._shown.pop(thread, None)
        self._lost[thread] = Reason.MANUAL
        return loss

    def lost_because(self, thread: Thread) -> Reason | None:
        return self._lost.get(thread)

    # -- what may have been missed -------------------------------------------------------------------------------------
    def doubt_delivery(self) -> None:
        """Events may be missing: every known thread is read again before it is trusted."""
        self._gapped |= self._known

    def is_gapped(self, thread: Thread) -> bool:
        return thread in self._gapped

    # -- what was shown ------------------------------------------------------------------------------------------------
    def note_shown(self, thread: Thread, said: Iterable[Said], *, epoch: int) -> None:
        if epoch == self.epoch:
            self._shown.setdefault(thread, {}).update({s.ts: s.digest for s in said})

    def was_shown(self, thread: Thread, said: Said) -> bool:
        """This very text."""
        return self._shown.get(thread, {}).get(said.ts) == said.digest

    def holds_message(self, thread: Thread, ts: str) -> bool:
        """Any wording of it."""
        return ts in self._shown.get(thread, {})
