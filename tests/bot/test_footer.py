"""The line under an answer, where it is switched on: what was re-read, and the trace; the model never sees it again."""

from __future__ import annotations

import pytest

from bot.footer import footer_line, without_footer
from bot.words import Language
from tests.bot.bench import Bench, block
from tests.bot.conftest import Make
from tests.bot.fakes import GENERAL, ME

EN, JA = Language.ENGLISH, Language.JAPANESE


def last_line(text: str) -> str:
    return text.splitlines()[-1]


@pytest.fixture
def footed(make_bench: Make) -> Bench:
    return make_bench(footer=True)


async def test_it_says_how_many_messages_were_read_again_and_the_short_trace_id(footed: Bench) -> None:
    root = footed.old_thread("The code is walnut.", "And the alarm is off.")

    read = await footed.ask("What is the code?", thread=root)
    held = await footed.ask("Sure?", thread=root)

    trace = footed.replies[0].ref.trace_id[:8]
    assert last_line(read.text) == f"_thread re-read: 2 · trace {trace}_"
    assert last_line(held.text).startswith("_nothing re-read · trace ")


async def test_it_says_what_was_added_and_what_was_left_out(footed: Bench) -> None:
    root = footed.old_thread(*(f"remark {n} " + "x" * 1_900 for n in range(30)))
    long = await footed.ask("What?", thread=root)
    footed.write("By the way", thread=root, user="U2")

    added = await footed.ask("And?", thread=root)

    assert "left out: " in last_line(long.text) and last_line(added.text).startswith("_added: 1 · trace ")


async def test_it_is_off_unless_it_is_switched_on(bench: Bench) -> None:
    assert (await bench.ask("Hello")).text == "answer 1"


async def test_it_speaks_the_language_of_the_question(make_bench: Make) -> None:
    bench = make_bench(footer=True, language="auto")

    assert last_line((await bench.ask("コードは？")).text).startswith("_読み直しなし · トレース ")


async def test_what_is_no_answer_of_the_model_has_none(footed: Bench) -> None:
    footed.claude.turn(RuntimeError())

    assert "re-read" not in (await footed.ask("Hello")).text


async def test_when_its_own_answers_are_read_back_the_model_does_not_see_it(make_bench: Make) -> None:
    first = make_bench(footer=True)
    asked = await first.ask("Hello")
    await first.sessions.close_all()
    second = make_bench(footer=True, before=first)

    again = await second.ask("And?", thread=asked.ts)

    assert "answer 1" in again.prompt and "trace" not in "".join(block(again.prompt))


async def test_words_of_others_that_look_like_it_stay(footed: Bench) -> None:
    line = footer_line(EN, read=2, added=0, omitted=0, trace_id="1a2b3c4d" * 4)
    root = footed.old_thread("Look", f"It said\n\n{line}")

    assert "1a2b3c4d" in (await footed.ask("Why?", thread=root)).prompt


async def test_an_edited_answer_of_its_own_is_read_without_it_too(footed: Bench) -> None:
    root = footed.old_thread("Look")
    line = footer_line(EN, read=2, added=0, omitted=0, trace_id="1a2b3c4d" * 4)
    footed.slack.put(GENERAL, f"It is walnut.\n\n{line}", user=ME.user_id, thread_ts=root)

    assert "1a2b3c4d" not in (await footed.ask("Why?", thread=root)).prompt


@pytest.mark.parametrize("language", [EN, JA])
@pytest.mark.parametrize(("read", "added", "omitted"), [(0, 0, 0), (3, 0, 0), (0, 2, 0), (3, 0, 9)])
def test_every_line_is_found_again_and_nothing_else_goes(language: Language, read: int, added: int, omitted: int) -> None:
    line = footer_line(language, read=read, added=added, omitted=omitted, trace_id="1a2b3c4d" * 4)

    assert without_footer(f"An answer.\n\n{line}") == "An answer.\n"[:-1]
    assert without_footer(f"An answer.\n\n{line.strip('_')}") == "An answer."
    assert without_footer(line + "\n\nmore") == line + "\n\nmore", "it stands at the end"


@pytest.mark.parametrize("text", ["", "see trace 1a2b3c4d", "nothing re-read", "added: 3 apples", "An answer.\n\nadded: 3 · trace soon"])
def test_what_only_resembles_it_stays(text: str) -> None:
    assert without_footer(text) == text
