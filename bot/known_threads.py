"""What the live context of one session holds: the set that implements the gate, and beside it what may take from it.

What must stay true: a thread is in the set only while its text is in the context. `forget` empties the set and opens a
new epoch; a mark that was earned in an older epoch is dropped. Memory only, on purpose: a lost set costs one re-read, a
stale one costs the bot its memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bot.messages import Role, Said
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
        self._doubts = 0  # how often delivery was doubted
        self._doubted_at = ""  # a Slack time: only a message after it can have a reading that covers the gap
        self._judged: dict[Thread, int] = {}  # doubts at the gate's last look
        self._reached: dict[Thread, str] = {}  # ts of the newest message of others that was shown, the answered ones included
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
        self._lost.pop(thread, None)
        (self._gapped.discard if self._covers_the_gap(thread) else self._gapped.add)(thread)
        return True

    def forget(self, cause: ResetCause, *, session_id: str) -> Loss:
        loss = Loss(cause, session_id, len(self._known))
        self._remember_lost(self._known, REASON_AFTER[cause])
        self._known.clear()
        self._gapped.clear()
        self._judged.clear()
        self._shown.clear()
        self._reached.clear()
        self.epoch += 1
        return loss

    def forget_one(self, thread: Thread, *, session_id: str) -> Loss:
        """For `reread`: it is read in anew, whole. No other thread is touched, so the epoch stays."""
        loss = Loss(ResetCause.FORGET_MANUAL, session_id, int(thread in self._known))
        self._known.discard(thread)
        self._gapped.discard(thread)
        self._shown.pop(thread, None)
        self._reached.pop(thread, None)
        self._remember_lost((thread,), Reason.MANUAL)
        return loss

    def _remember_lost(self, threads: Iterable[Thread], reason: Reason) -> None:
        for thread in threads:
            self._lost.pop(thread, None)  # the newest losses stand last
            self._lost[thread] = reason
        while len(self._lost) > LOST_REMEMBERED:
            del self._lost[next(iter(self._lost))]

    def lost_because(self, thread: Thread) -> Reason | None:
        return self._lost.get(thread)

    # -- what may have been missed -------------------------------------------------------------------------------------
    def doubt_delivery(self, *, at: str = "") -> None:
        """Events may be missing: every known thread is read again before it is trusted, and what is being read now, too.

        `at`: the time of the doubt as a Slack ts; a message older than that (it waited) cannot end it. "": any can.
        """
        self._gapped |= self._known
        self._doubts += 1
        self._doubted_at = at

    def is_gapped(self, thread: Thread) -> bool:
        """Asked by the gate: what is missed after this question is not covered by the reading that follows it."""
        self._judged[thread] = self._doubts
        return thread in self._gapped

    def _covers_the_gap(self, thread: Thread) -> bool:
        """Whether the turn that earned a mark began after the last doubt, and over a message written after it."""
        return self._judged.get(thread, self._doubts) == self._doubts and self._reached.get(thread, "") >= self._doubted_at

    # -- what was shown ------------------------------------------------------------------------------------------------
    def note_shown(self, thread: Thread, said: Iterable[Said], *, epoch: int) -> None:
        if epoch != self.epoch:
            return
        for s in said:
            self._shown.setdefault(thread, {})[s.ts] = s.digest
            if s.speaker.role is not Role.OWN:
                self._reached[thread] = max(self._reached.get(thread, ""), s.ts)

    def was_shown(self, thread: Thread, said: Said) -> bool:
        """This very text."""
        return self._shown.get(thread, {}).get(said.ts) == said.digest

    def holds_message(self, thread: Thread, ts: str) -> bool:
        """Any wording of it."""
        return ts in self._shown.get(thread, {})
