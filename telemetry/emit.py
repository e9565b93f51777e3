"""The only verbs that bot and memory see: `emit(fact)` and `emit.span(...)`.

A span follows the code through contextvars; where a message waits in a queue, `within(span)` carries it across. No verb
here ever raises into its caller, and none of them waits for anything that leaves the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from telemetry.events import Fact, TraceRef
from telemetry.names import Attr, SpanName

AttrValue = str | int | float | bool | Sequence[str]


class Span(Protocol):
    """One timed piece of work. `end` may be called twice; only the first call counts."""

    @property
    def ref(self) -> TraceRef: ...

    def set(self, attributes: Mapping[Attr, AttrValue]) -> None: ...

    def fail(self, error_type: str) -> None:
        """Status ERROR with `error.type`, which is also its description; `error_type` is a word of ours, never a model's or a person's."""

    def end(self) -> None: ...


class Emit(Protocol):
    def __call__(self, fact: Fact) -> None:
        """Hands a fact to its sinks, in the context of the current span. Never raises."""

    def span(
        self, name: SpanName, attributes: Mapping[Attr, AttrValue] | None = None, *, label: str = "", links: Sequence[TraceRef] = ()
    ) -> AbstractContextManager[Span]:
        """A child of the current span, current inside the block. `label` is appended to the name (`chat <model>`).

        An exception marks it failed with the exception's class name, CancelledError as `cancelled`; both go on.
        """

    def begin(
        self,
        name: SpanName,
        attributes: Mapping[Attr, AttrValue] | None = None,
        *,
        label: str = "",
        root: bool = False,
        links: Sequence[TraceRef] = (),
    ) -> Span:
        """Starts a span that the caller ends; a child of the current one unless `root`. It is not made current."""

    def within(self, span: Span) -> AbstractContextManager[None]:
        """Makes a begun span current inside the block, in whatever task that runs; does not end it."""

    def current(self) -> TraceRef | None: ...
