"""Telemetry for unit tests: it keeps the spans and facts that it is given, as `telemetry/emit.py` promises to take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from telemetry.emit import AttrValue, Span
from telemetry.events import Fact, TraceRef
from telemetry.names import Attr, SpanName

F = TypeVar("F")


@dataclass(slots=True, eq=False)
class FakeSpan:
    name: str
    ref: TraceRef
    parent: FakeSpan | None
    attributes: dict[Attr, AttrValue] = field(default_factory=dict)
    links: list[TraceRef] = field(default_factory=list)
    children: list[FakeSpan] = field(default_factory=list)
    error: str | None = None
    ends: int = 0

    def set(self, attributes: Mapping[Attr, AttrValue]) -> None:
        if not self.ends:
            self.attributes |= attributes

    def fail(self, error_type: str) -> None:
        if not self.ends:
            self.error = error_type

    def end(self) -> None:
        self.ends += 1

    def tree(self) -> str:
        """`name(child child)`, in the order in which they began."""
        inside = " ".join(child.tree() for child in self.children)
        return f"{self.name}({inside})" if inside else self.name


_current: ContextVar[FakeSpan | None] = ContextVar("current span of a test", default=None)


class RecordingEmit:
    """Implements `telemetry.emit.Emit`; `facts` with the span in which each was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Fact, FakeSpan | None]] = []
        self.spans: list[FakeSpan] = []
        self.listeners: list[Callable[[Fact], None]] = []

    def __call__(self, fact: Fact) -> None:
        self.told.append((fact, _current.get()))
        for listener in self.listeners:
            listener(fact)

    def of(self, kind: type[F]) -> list[F]:
        return [fact for fact, _ in self.told if isinstance(fact, kind)]

    def named(self, name: str) -> list[FakeSpan]:
        return [span for span in self.spans if span.name == name]

    @property
    def roots(self) -> list[FakeSpan]:
        return [span for span in self.spans if span.parent is None]

    @contextmanager
    def span(
        self, name: SpanName, attributes: Mapping[Attr, AttrValue] | None = None, *, label: str = "", links: Sequence[TraceRef] = ()
    ) -> Iterator[FakeSpan]:
        span = self.begin(name, attributes, label=label, links=links)
        try:
            with self.within(span):
                yield span
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            span.end()

    def begin(
        self,
        name: SpanName,
        attributes: Mapping[Attr, AttrValue] | None = None,
        *,
        label: str = "",
        root: bool = False,
        links: Sequence[TraceRef] = (),
    ) -> FakeSpan:
        parent, number = None if root else _current.get(), len(self.spans) + 1
        trace_id = parent.ref.trace_id if parent else f"{number:032x}"
        full = f"{name.value} {label}" if label else name.value
        span = FakeSpan(full, TraceRef(trace_id, f"{number:016x}"), parent, dict(attributes or {}), list(links))
        self.spans.append(span)
        if parent is not None:
            parent.children.append(span)
        return span

    @contextmanager
    def within(self, span: Span) -> Iterator[None]:
        assert isinstance(span, FakeSpan)
        token = _current.set(span)
        try:
            yield
        finally:
            _current.reset(token)

    def current(self) -> TraceRef | None:
        span = _current.get()
        return span.ref if span else None
