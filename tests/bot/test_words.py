"""The bot's own sentences."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from bot import words
from bot.words import HISTORY_UNREAD, NO_ANSWER, SENTENCES, Language, Sentence, language_of, say
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
    by_table = {*HISTORY_UNREAD.values(), *NO_ANSWER.values()}

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
