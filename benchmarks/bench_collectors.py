"""What a bad collector costs a reply and an exit: nothing that can be measured, and three seconds at most.

Five real bots, each on the real CLI with a collector of its own (none, a good one, a dead, a hanging, a flapping one), are
asked in turns, so that whatever else the machine does meets all of them. A ratio is that of the medians against the bot
without a collector. Run it with `make bench`; the exit code is 1 where a bar is missed.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.collectors import Kind, story_with
from tests.integration.story import Place, Story

WARM_UP, ROUNDS = 5, 60
RATIO_BAR = 1.2  # of medians; two bots without a collector differ by up to a tenth
LATE_BAR = 1.5  # of the slowest tenth, which is noisier
EXIT_BAR_SECONDS = 3.0 + 0.5  # telemetry's own limit, and what two exits of one bot differ by


@dataclass(slots=True)
class Side:
    story: Story
    thread: Place
    replies: list[float] = field(default_factory=list)  # seconds from question to answer
    exit: float = 0.0

    async def ask(self) -> None:
        began = time.perf_counter()
        answer = await self.story.ask(self.thread, "What is the vault code?")
        self.replies.append(time.perf_counter() - began)
        if answer.outcome != "answered":
            raise SystemExit(f"a bot did not answer: {answer.text}")

    @property
    def median(self) -> float:
        return statistics.median(self.replies)

    @property
    def late(self) -> float:
        return statistics.quantiles(self.replies, n=10)[-1]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        sides = asyncio.run(_measured(Path(folder)))
    none = sides[Kind.NONE]
    print(f"\nof {ROUNDS} replies; without a collector: median {none.median * 1000:.0f} ms, exit {none.exit:.2f} s")
    return 0 if all([_told(kind, side, none) for kind, side in sides.items() if kind is not Kind.NONE]) else 1


async def _measured(folder: Path) -> dict[Kind, Side]:
    rng = random.Random(1)
    async with AsyncExitStack() as stack:
        sides = {kind: await _side(stack, kind, folder) for kind in Kind}
        for _ in range(WARM_UP + ROUNDS):
            for side in rng.sample(list(sides.values()), len(sides)):
                await side.ask()
        for side in sides.values():
            del side.replies[:WARM_UP]
            side.exit = await side.story.stop()
    return sides


async def _side(stack: AsyncExitStack, kind: Kind, folder: Path) -> Side:
    story = await stack.enter_async_context(story_with(kind, folder / kind))
    thread = story.old_thread("The vault code is walnut-4711.")
    await story.start()
    return Side(story, thread)


def _told(kind: Kind, side: Side, none: Side) -> bool:
    ratio, late, more = side.median / none.median, side.late / none.late, side.exit - none.exit
    kept = ratio <= RATIO_BAR and late <= LATE_BAR and more <= EXIT_BAR_SECONDS
    print(
        f"{'ok  ' if kept else 'SLOW'} {kind:8}  reply x{ratio:.2f} (bar {RATIO_BAR})"
        f"  slowest tenth x{late:.2f} (bar {LATE_BAR})  exit {more:+.2f} s (bar {EXIT_BAR_SECONDS:+})"
    )
    return kept


if __name__ == "__main__":
    sys.exit(main())
