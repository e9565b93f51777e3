"""The bot's own sentences."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from zoneinfo import ZoneInfo

import pytest

from bot import words
from bot.words import HISTORY_UNREAD, NO_ANSWER, NO_ANSWER_UNTIL, SENTENCES, Language, Sentence, language_of, moment, say
from telemetry.events import FailReason, Reason


def places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


@pytest.mark.parametrize("sentence", Sentence)
def test_both_languages_have_every_sentence_with_the_same_values(sentence: Sentence) -> None:
    english, japanese = SENTENCES[sentence]

    assert places(english) == places(japanese)
    assert english.isascii() or "…" in english
    assert language_of(re.sub("{.*?}", "", japanese)) is Language.JAPANESE
    assert not re.search("[<>&]", english + japanese)


def test_every_failed_reading_and_every_failed_answer_has_its_words() -> None:
    decided = {Reason.RATE_LIMITED, Reason.MISSING_SCOPE, Reason.NOT_IN_CHANNEL, Reason.THREAD_GONE, Reason.SLACK_ERROR, Reason.TIMEOUT}

    assert set(HISTORY_UNREAD) == decided
    assert set(NO_ANSWER) == set(FailReason) - {FailReason.THREAD_GONE}
    assert len(set(HISTORY_UNREAD.values())) == len(decided)


def test_every_sentence_is_said_somewhere() -> None:
    code = [path.read_text("utf-8") for path in Path(words.__file__).parent.rglob("*.py") if path.name != "words.py"]
    by_table = {*HISTORY_UNREAD.values(), *NO_ANSWER.values(), *NO_ANSWER_UNTIL.values()}

    assert [s for s in Sentence if s not in by_table and not any(f"Sentence.{s.name}" in text for text in code)] == []


def test_values_are_filled_in_and_missing_ones_are_an_error() -> None:
    assert say(Sentence.TRACE, Language.ENGLISH, trace="1a2b3c4d") == "trace 1a2b3c4d"
    assert say(Sentence.HISTORY_INCOMPLETE, Language.JAPANESE, read=3).startswith("このスレッドは一部（3件）")
    with pytest.raises(KeyError):
        say(Sentence.TRACE, Language.ENGLISH)


@pytest.mark.parametrize(
    ("text", "setting", "language"),
    [
        ("when is the release?", "auto", Language.ENGLISH),
        ("リリースはいつ？", "auto", Language.JAPANESE),
        ("ﾃｽﾄ", "auto", Language.JAPANESE),
        ("release 予定", "auto", Language.JAPANESE),
        ("", "auto", Language.ENGLISH),
        ("いつ？", "en", Language.ENGLISH),
        ("when?", "ja", Language.JAPANESE),
    ],
)
def test_the_language_is_that_of_the_message_unless_it_is_configured(text: str, setting: str, language: Language) -> None:
    assert language_of(text, setting) is language


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("15:00:00", "15:00 UTC"),
        ("15:00:01", "15:01 UTC"),
        ("14:59:59.5", "15:00 UTC"),
        ("23:59:30", "2023-11-15 00:00 UTC"),
    ],
)
def test_a_moment_is_told_to_the_minute_and_never_too_early(then: str, told: str) -> None:
    now = datetime(2023, 11, 14, 12, tzinfo=UTC).timestamp()

    assert moment(datetime.fromisoformat(f"2023-11-14T{then}+00:00").timestamp(), now=now, tz=UTC) == told


def test_what_is_today_depends_on_where_one_is() -> None:
    now, then = datetime(2023, 11, 14, 16, tzinfo=UTC).timestamp(), datetime(2023, 11, 14, 23, tzinfo=UTC).timestamp()

    assert moment(then, now=now, tz=ZoneInfo("Asia/Tokyo")) == "08:00 JST"
    assert moment(then, now=now - 3_600 * 2, tz=ZoneInfo("Asia/Tokyo")) == "2023-11-15 08:00 JST"
