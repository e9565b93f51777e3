"""The bench as a fixture; what must hold after every story, whatever happened in it, is checked at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.bot.bench import Bench

Make = Callable[..., Bench]


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[Make]:
    """Each one is closed and checked in the end."""
    made: list[Bench] = []

    def make(**settings: object) -> Bench:
        made.append(Bench(tmp_path, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make

    for bench in made:
        await bench.close()
        _check(bench)


@pytest.fixture
def bench(make_bench: Make) -> Bench:
    return make_bench()


def _check(bench: Bench) -> None:
    assert bench.claude.unused == 0, "a scripted turn was never asked for"
    assert [span.tree() for span in bench.emit.spans if not span.ends] == [], "a span never ended"
    assert [root.ends for root in bench.replies if root.ends != 1] == [], "a root closes exactly once"
