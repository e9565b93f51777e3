"""A bot that dies at a chosen step: before or after any statement to its disk, any call to Slack, any word to the CLI.

What must stay true: after its death nothing that it still tries has any effect, whoever catches what is raised; what was
not committed is gone; Slack and the CLI's scripted turns live on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tests.bot.bench import Bench
from tests.bot.fakes import FakeProcess, settled
from tests.bot.full_disk import RefusingDb


class Death(BaseException):
    """As SIGKILL."""


class Steps:
    """Counted from `begin`. `at`: the step that is not survived; 0: none."""

    def __init__(self) -> None:
        self.count, self.at, self.dead = 0, 0, False

    def begin(self, at: int) -> None:
        self.count, self.at = 0, at

    def step(self) -> None:
        self.count += 1
        if self.dead or self.count == self.at:
            self.dead = True
            raise Death


class Mortal:
    """One step before each call of what it stands in front of, and one after."""

    def __init__(self, target: Any, steps: Steps) -> None:
        self._target, self._steps = target, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found
        return self._awaited(found) if inspect.iscoroutinefunction(found) else self._called(found)

    def _called(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self._steps.step()
            result = work(*args, **more)
            self._steps.step()
            return result

        return call

    def _awaited(self, work: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **more: Any) -> Any:
            self._steps.step()
            result = await work(*args, **more)
            self._steps.step()
            return Mortal(result, self._steps) if isinstance(result, FakeProcess) else result

        return call

    # -- a transaction -------------------------------------------------------------------------------------------------
    def __enter__(self) -> Mortal:
        self._steps.step()
        self._target.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            try:
                self._steps.step()
            except Death:
                self._target.rollback()
                raise
        self._target.__exit__(kind, error, trace)
        self._steps.step()


async def bury(bench: Bench) -> None:
    """What a dead process leaves: its file as it was committed, and nothing that still runs."""
    refusing = bench.db._target if isinstance(bench.db, Mortal) else bench.db
    assert isinstance(refusing, RefusingDb)
    db = refusing.connection
    if db.in_transaction:
        db.rollback()
    db.close()  # first: what is cancelled must not put anything in order
    for task in list(bench.app._tasks):
        task.cancel()
    await settled()
