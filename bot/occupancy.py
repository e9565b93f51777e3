"""How full the context of one session is, followed from one model call to the next, and whether the CLI is stuck in it.

A context only grows. Where it is less than half as full as the call before found it, and nobody said why, the CLI has
compacted it without a word. What must stay true: only calls of turns that ended well are believed, each model is compared
with itself, and whatever announces that the context shrank, or a new process, begins the comparison anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.ports import CallEnded, Cleared, Compacted, Compacting, CompactionGaveUp, StreamEvent, ToolStarted, Trimmed


@dataclass(frozen=True, slots=True)
class Fall:
    """Tokens of the context before and after."""

    before: int
    after: int


class Occupancy:
    """`tokens`: what the newest turn that ended well left, or a boundary told; 0 where that is not known.

    `compacting`: a compaction of this turn is under way, or nothing has come after it: a turn that hangs so hangs again.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.compacting = False
        self._base: dict[str, int] = {}
        self._calls: list[tuple[str, int]] = []

    def begin_anew(self, tokens: int = 0) -> None:
        self.tokens = tokens
        self._forget()

    def begin_turn(self) -> None:
        self.compacting = False
        self._calls.clear()

    def feed(self, event: StreamEvent) -> None:
        match event:
            case Compacting():
                self.compacting = True
            case ToolStarted():
                self.compacting = False
            case CompactionGaveUp():  # nothing was lost; what was measured before it was not the context alone
                self.compacting = False
                self._forget()
            case CallEnded():
                self.compacting = False
                if event.usage.occupancy:
                    self._calls.append((event.model, event.usage.occupancy))
            case Compacted():
                self.begin_anew(event.post_tokens or 0)
            case Cleared():
                self.begin_anew()
            case Trimmed():
                self._forget()
            case _:
                pass

    def end_turn(self) -> Fall | None:
        """After a turn that ended well: what nobody announced."""
        fall = None
        for model, tokens in self._calls:
            before, self._base[model], self.tokens = self._base.get(model, 0), tokens, tokens
            if tokens < before / 2:
                fall = Fall(before, tokens)
        return fall

    def _forget(self) -> None:
        self._base.clear()
        self._calls.clear()
