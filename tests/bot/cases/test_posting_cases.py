"""Bugs of comparable products around posting, as cases that ours must not have; the numbers are our list's.

C041 (streamed messages) has no test: nothing is streamed into Slack yet.
"""

from __future__ import annotations

import asyncio
import re

import pytest

from bot.ports import Answer, SessionDied
from telemetry.names import Attr
from tests.bot.bench import Asked, Bench
from tests.bot.fakes import GENERAL, called, settled


async def answered(bench: Bench, text: str) -> Asked:
    bench.claude.turn(called(), Answer(text=text))
    return await bench.ask("Go on")


@pytest.mark.parametrize("length", [5_000, 12_000])
async def test_c038_a_long_answer_arrives_whole_and_the_status_is_cleared(bench: Bench, length: int) -> None:
    bench.slack.limit = 3_900
    text = " ".join(f"w{n:04}" for n in range(length // 6))

    asked = await answered(bench, text)

    assert asked.text == text and len(asked.posts) > 1
    assert bench.slack.of("set_status")[-1].text == ""
    assert bench.emit.named("slack.reply")[0].attributes[Attr.REPLY_FALLBACK] is True


LENGTHS = {
    "3001": "x " * 1_500 + "y",
    "4001": "x " * 2_000 + "y",
    "40001": "x " * 20_000 + "y",
    "one_word": "z" * 3_500,
    "japanese": "長い文章です。" * 1_000,
}


@pytest.mark.parametrize("text", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("limit", [None, 3_000])
async def test_c039_every_part_is_within_its_limit_none_is_blank_and_together_they_are_the_answer(
    bench: Bench, text: str, limit: int | None
) -> None:
    bench.slack.limit = limit

    asked = await answered(bench, text)

    assert asked.text == text
    assert all(post["text"].strip() and len(post["text"]) <= (limit or 4_000) for post in asked.posts)


async def test_c040_no_payload_comes_near_what_slack_refuses_in_all(bench: Bench) -> None:
    asked = await answered(bench, "\n\n".join("b" * 1_400 for _ in range(10)))

    assert max(len(post["text"]) for post in asked.posts) <= 4_000
    assert asked.text == "\n\n".join("b" * 1_400 for _ in range(10))


async def test_c042_the_status_of_each_thread_is_refreshed_and_cleared_at_every_end(bench: Bench) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on, called(), Answer(text="done"))
    one = bench.mention("A long one")
    for _ in range(10):
        await settled()
        bench.clock.advance(30)
    goes_on.set()
    await bench.ended()
    for _ in range(2):
        bench.claude.turn(SessionDied(1))
    two = await bench.ask("One that fails")
    bench.claude.turn(asyncio.Event(), Answer(text="never"))
    three = bench.mention("One that is cancelled")
    await settled()
    await bench.app.drain(0)

    by_thread = {ts: [c.text for c in bench.slack.of("set_status") if c.thread_ts == ts] for ts in (one, two.ts, three)}
    assert by_thread[one] == ["is thinking…"] * 4 + [""]
    assert by_thread[two.ts][-1] == "" and by_thread[three] == ["is thinking…", ""]
    bench.clock.advance(600)
    await settled()
    assert bench.slack.of("set_status")[-1].text == "", "never set again"


async def test_c043_where_the_root_was_deleted_meanwhile_nothing_stays_in_the_channel(bench: Bench) -> None:
    root = bench.old_thread("Delete me")
    bench.claude.turn(lambda: bench.slack.erase(GENERAL, root), called(), Answer(text="an answer of several parts " * 400))

    asked = await bench.ask("What is this?", thread=root)

    assert asked.posts == ()
    assert bench.outcomes == [("failed", "thread_gone")]
    assert bench.emit.named("slack.reply")[0].attributes[Attr.REPLY_MISPLACED] is True
    assert bench.replies[-1].attributes[Attr.REPLY_OUTCOME] == "failed"


async def test_c044_nobody_is_pinged_links_work_and_signs_show_as_written(bench: Bench) -> None:
    asked = await answered(
        bench,
        "<!channel> <!here> <!everyone> <!subteam^S1> <@U2> <https://example.com|doc> a < b && c > d\n```\n<!here> x &amp;&amp; y\n```",
    )

    assert asked.text == (
        "&lt;!channel&gt; &lt;!here&gt; &lt;!everyone&gt; &lt;!subteam^S1&gt; &lt;@U2&gt; <https://example.com|doc>"
        " a &lt; b &amp;&amp; c &gt; d\n```\n&lt;!here&gt; x &amp;amp;&amp;amp; y\n```"
    )


async def test_c045_code_that_is_cut_is_closed_and_opened_again(bench: Bench) -> None:
    code = "\n".join(f"def function_{n}(value): return value * {n}  # a comment" for n in range(160))

    asked = await answered(bench, f"```python\n{code}\n```")

    parts = [post["text"] for post in asked.posts]
    assert len(parts) >= 3
    assert all(part.startswith("```python\n") and part.endswith("```") and part.count("```") == 2 for part in parts)
    bodies = [re.fullmatch(r"```python\n(.*?)\n?```", part, re.DOTALL) for part in parts]
    assert "\n".join(body[1] for body in bodies if body) == code
