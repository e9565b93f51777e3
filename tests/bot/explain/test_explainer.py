from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bot.explain import explainer
from bot.explain.explainer import Explainer
from bot.words import Language
from telemetry.events import Thread
from telemetry.names import Attr
from telemetry.trace_rows import Begun
from tests.bot.explain.explaining import Left
from tests.telemetry.made_traces import BEGAN, CHANNEL, MS, POST_TS, TEAM, THREAD_TS, TS, Made, failed, known, refetched, reset, root
from tests.telemetry.stores import begun, writer

HERE = Thread(TEAM, CHANNEL, THREAD_TS)
EN = Language.ENGLISH


class Waiting:
    """Time that passes only by waiting for it."""

    def __init__(self) -> None:
        self.elapsed, self.then = 0.0, lambda: None

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        self.then()


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def asked(
    left: Left, *, ts: str = "", thread: Thread = HERE, waiting: Waiting | None = None, language: Language = EN, besides: str = ""
) -> str:
    waiting = waiting or Waiting()
    explainer = Explainer(left.workspace.traces_db, sleep=waiting.sleep, monotonic=lambda: waiting.elapsed)
    return explainer.sentence(thread, language, message_ts=ts, besides=besides).sentence


def restarted(left: Left) -> None:
    """A store that is opened marks what an earlier process left."""
    writer(left.workspace.traces_db).write([])


def test_the_newest_reply_of_the_thread_is_explained(left: Left) -> None:
    left.traces(refetched(1), known(2, began=BEGAN + MS))

    assert asked(left).endswith("(1.5 s, trace 00000002)")


def test_a_drop_and_an_interrupted_attempt_are_no_reply(left: Left) -> None:
    dropped = Made(3, BEGAN + 2 * MS)
    root(dropped, 1, REPLY_OUTCOME="dropped", REPLY_REASON="not_allowed")
    left.traces(refetched(1), dropped)
    left.traces(known(4, began=BEGAN + 3 * MS), unended=True)
    restarted(left)

    assert asked(left).endswith("trace 00000001)")


@pytest.mark.parametrize(("language", "still"), [(EN, "I am still working on it."), (Language.JAPANESE, "まだ処理中です。")])
def test_while_an_answer_is_being_made_it_says_so(left: Left, language: Language, still: str) -> None:
    left.traces(refetched(1))
    asking = Made(3, BEGAN + 2 * MS)
    root(asking, None)
    asking.spans[0]._attributes = {**(asking.spans[0].attributes or {}), Attr.MESSAGING_MESSAGE_ID: "1796040199.000100"}  # type: ignore[assignment]
    writer(left.workspace.traces_db).write([*begun(known(2, began=BEGAN + MS)), Begun(asking.spans[0])])

    assert asked(left, language=language, besides="1796040199.000100").startswith(still)


def test_what_was_broken_off_and_not_made_since_is_said_so(left: Left) -> None:
    left.traces(known(1), unended=True)
    restarted(left)

    assert asked(left).startswith("I was stopped before I could answer.")


@pytest.mark.parametrize(
    ("language", "never"), [(EN, "I have not answered in this thread yet."), (Language.JAPANESE, "このスレッドではまだ回答していません。")]
)
def test_where_it_never_answered_it_says_that(left: Left, language: Language, never: str) -> None:
    dropped = Made(3, BEGAN + 2 * MS)
    root(dropped, 1, REPLY_OUTCOME="dropped", REPLY_REASON="not_allowed")
    left.traces(known(1, began=BEGAN - 10**12), dropped)
    younger = Thread(TEAM, CHANNEL, "1796040001.000100")

    assert asked(left, thread=younger, language=language) == never
    assert asked(left, thread=Thread(TEAM, CHANNEL, "1700000000.000100")) == "I have no record of that answer any more."


@pytest.mark.parametrize("ts", [TS, POST_TS])
def test_a_reply_is_found_by_its_question_and_by_any_message_of_its_answer(left: Left, ts: str) -> None:
    left.traces(failed())

    assert asked(left, ts=ts).startswith("I could not answer, because the model's usage limit was reached.")


def test_resets_since_are_counted(left: Left) -> None:
    left.traces(known(1), reset(2, "hibernate", began=BEGAN + 5_000 * MS), reset(3, "crash", began=BEGAN + 6_000 * MS))

    assert "The context was reset 2 times since." in asked(left)


@pytest.mark.parametrize("thread", [Thread("T0OTHER", CHANNEL, THREAD_TS), Thread(TEAM, "C9", THREAD_TS), Thread(TEAM, CHANNEL, "1.1")])
def test_a_thread_elsewhere_is_another_thread(left: Left, thread: Thread) -> None:
    left.traces(known())

    assert asked(left, thread=thread) == asked(left, thread=thread, ts="1.2") == "I have no record of that answer any more."


def test_a_reply_that_is_just_ending_is_waited_for(left: Left) -> None:
    left.traces(known(), unended=True)
    waiting = Waiting()
    waiting.then = lambda: left.traces(known())

    assert asked(left, ts=TS, waiting=waiting).endswith("(1.5 s, trace 00000001)")


def test_it_is_not_waited_for_for_ever(left: Left) -> None:
    left.traces(known(), unended=True)
    waiting = Waiting()

    assert asked(left, ts=TS, waiting=waiting).startswith("I am still working on it.")
    assert waiting.elapsed == pytest.approx(explainer.PATIENCE_SECONDS, abs=explainer.POLL_SECONDS)


@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_without_a_store_there_is_still_a_sentence(left: Left, content: bytes | None) -> None:
    if content is not None:
        left.workspace.traces_db.write_bytes(content)

    assert asked(left) == "I have no record of that answer any more."


async def test_the_loop_is_not_the_one_that_reads(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    left.traces(known())
    read_by = set[int]()
    look = Explainer._look
    monkeypatch.setattr(Explainer, "_look", lambda *of: read_by.add(threading.get_ident()) or look(*of))  # type: ignore[func-returns-value]

    sentence = (await Explainer(left.workspace.traces_db, sleep=time.sleep).sentence_for(HERE, EN)).sentence

    assert sentence.endswith("trace 00000001)")
    assert threading.get_ident() not in read_by
