"""What Slack is told: in two languages, of every decision and end, and never a word that somebody else wrote."""

from __future__ import annotations

import dataclasses

import pytest

from bot.explain import words as explain_words
from bot.explain.explanation import INTERRUPTED, RUNNING, Explanation, Gate, History, Reset, Session
from bot.explain.sentence import sentence_of
from bot.explain.words import in_words, why
from bot.words import Language
from telemetry.events import Decision, DropReason, FailReason, Reason, ResetCause
from telemetry.names import DECISION_REASONS

EN, JA = Language.ENGLISH, Language.JAPANESE
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def reply(decision: str = "", because: str = "", **more: object) -> Explanation:
    values: dict[str, object] = {"outcome": "answered", "seconds": 3.42, "gate": Gate(decision=decision, reason=because), **more}
    return Explanation(trace_id=TRACE, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("explanation", "english", "japanese"),
    [
        (
            reply(
                "refetched",
                "after_compaction",
                history=History(read=30, injected=28, omitted=2),
                session=Session(since=(Reset(cause="hibernate"),)),
            ),
            "The thread was read again from Slack, because the session's context had been compacted since. 30 messages read, 2 left out. "
            "The context was reset once since. (3.4 s, trace 4bf92f35)",
            "スレッドをSlackから読み直しました（その間にコンテキストが圧縮されました）。30件を読み、2件を省きました。"
            "その後、コンテキストは1回リセットされました。（3.4秒、トレース 4bf92f35）",
        ),
        (
            reply("known", "held"),
            "The thread was still in the session's context, so it was not read again. (3.4 s, trace 4bf92f35)",
            "スレッドはまだコンテキストにあり、読み直しは不要でした。（3.4秒、トレース 4bf92f35）",
        ),
        (
            reply("known", "held_delta", history=History(injected=1), session=Session(since=(Reset(cause="crash"),) * 3)),
            "The thread was still in the session's context, so it was not read again; what others had written since was added. "
            "1 message added, 0 left out. The context was reset 3 times since. (3.4 s, trace 4bf92f35)",
            "スレッドはまだコンテキストにあり、読み直しは不要でした（その後の他の人の発言を加えました）。1件を加え、0件を省きました。"
            "その後、コンテキストは3回リセットされました。（3.4秒、トレース 4bf92f35）",
        ),
        (
            reply("refetched", "not_known", history=History(read=15, injected=15, incomplete=True), outcome="failed", reason="model_limit"),
            "I could not answer, because the model's usage limit was reached. The thread was read again from Slack, because the session "
            "had not seen it yet. 15 messages read, 0 left out, though not all could be read. (3.4 s, trace 4bf92f35)",
            "回答できませんでした（モデルの利用上限に達しました）。スレッドをSlackから読み直しました（セッションがまだ読んでいないスレッドでした）。"
            "15件を読み、0件を省きました（全部は読めませんでした）。（3.4秒、トレース 4bf92f35）",
        ),
        (
            reply(outcome="dropped", reason="not_allowed", seconds=None),
            "I did not answer: its author may not use the bot here. (trace 4bf92f35)",
            "回答しませんでした（ここでボットを使う許可がない人の発言でした）。（トレース 4bf92f35）",
        ),
        (
            reply(outcome=RUNNING, seconds=None),
            "I am still working on it. (trace 4bf92f35)",
            "まだ処理中です。（トレース 4bf92f35）",
        ),
        (
            reply(outcome=INTERRUPTED, seconds=None),
            "I was stopped before I could answer. (trace 4bf92f35)",
            "回答の前に停止しました。（トレース 4bf92f35）",
        ),
        (None, "I have no record of that answer any more.", "その回答の記録はもう残っていません。"),
    ],
)
def test_the_sentence_in_both_languages(explanation: Explanation | None, english: str, japanese: str) -> None:
    assert sentence_of(explanation, EN) == english
    assert sentence_of(explanation, JA) == japanese


@pytest.mark.parametrize(
    ("words", "vocabulary", "silent"),
    [
        (explain_words.WHAT, Decision, set()),
        (explain_words.WHY, Reason, {Reason.HELD, Reason.FIRST_MESSAGE}),
        (explain_words.NO_ANSWER, FailReason, set()),
        (explain_words.DROPPED, DropReason, set()),
        (explain_words.RESETS, ResetCause, set()),
    ],
)
def test_every_word_of_ours_has_words_in_both_languages(words: dict[str, tuple[str, str]], vocabulary: type, silent: set[str]) -> None:
    assert set(words) == set(vocabulary) - silent  # type: ignore[call-overload]
    assert all(english.isascii() and not japanese.isascii() for english, japanese in words.values())


@pytest.mark.parametrize("language", [EN, JA])
def test_every_legal_decision_makes_a_sentence(language: Language) -> None:
    pairs = [(decision, reason) for decision in Decision for reason in DECISION_REASONS[decision]]

    sentences = {sentence_of(reply(decision, reason), language) for decision, reason in pairs}

    assert len(sentences) == len(pairs)
    assert not any("_" in sentence for sentence in sentences)


def test_a_word_of_a_later_version_is_shown_as_it_is() -> None:
    assert in_words(explain_words.WHAT, "guessed", JA) == "guessed"
    assert why("hunch") == "hunch"
    assert why(Reason.HELD) == ""


def test_nothing_but_ids_and_numbers_of_others_can_stand_in_an_explanation() -> None:
    assert not {"text", "body", "prompt"} & {field.name for field in dataclasses.fields(Explanation)}
