"""An old thread with a secret, and the two things that tests of losses do with it."""

from __future__ import annotations

from tests.bot.bench import KNOWN, Bench, quoted

TALK = ("The code is walnut.", "And the alarm is off.")


async def known(bench: Bench) -> str:
    root = bench.old_thread(*TALK)
    assert (await bench.ask("What is the code?", thread=root)).outcome == "answered"
    assert bench.knows(root)
    return root


async def read_in_again(bench: Bench, root: str, reason: str) -> None:
    """And known afterwards."""
    again = await bench.ask("What is the code?", thread=root)
    assert again.gate == ("refetched", reason, "full")
    assert quoted(again.prompts[-1])[:2] == list(TALK)
    assert (await bench.ask("Sure?", thread=root)).gate == KNOWN
