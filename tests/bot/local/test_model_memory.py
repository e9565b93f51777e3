"""The embedded model as extract's model: which sentences it takes for what, and with which evidence."""

from __future__ import annotations

import json

import pytest

from bot.local.model_memory import MAX_CANDIDATES, STAGE, kind_of, propose


def rows(*texts: str, kind: str = "user", start: int = 1) -> str:
    lines = [json.dumps({"n": start + i, "kind": kind, "text": text}, ensure_ascii=False) for i, text in enumerate(texts)]
    return "\n".join(["<entries>", *lines, "</entries>"])


def proposed(prompt: str) -> list[tuple[str, str, list[int]]]:
    call = propose(prompt)
    assert call.name == STAGE
    return [(c["kind"], c["claim"], c["evidence"]) for c in call.input["candidates"]]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("decision", "We decided to ship on Friday."),
        ("decision", "リリースは金曜日に決まりました。"),
        ("decision", "京都で合宿することにしました。"),
        ("request", "Please remind me of the audit in March."),
        ("request", "毎週月曜に報告を送ってください。"),
        ("preference", "I prefer short answers."),
        ("preference", "箇条書きのほうがいいです。"),
        ("constraint", "The budget must not exceed 3,000 dollars."),
        ("constraint", "本番への直接アクセスは禁止です。"),
        ("lesson", "It turned out that the cache was cold."),
        ("lesson", "障害の原因は証明書の期限切れでした。"),
        ("question", "The name of the product is still open."),
        ("question", "会場はまだ決まっていません。"),
        ("knowledge", "SLO stands for service level objective."),
        ("knowledge", "MTGはミーティングの略です。"),
    ],
)
def test_a_sentence_that_says_so_is_taken_for_what_it_says(kind: str, sentence: str) -> None:
    assert kind_of(sentence) == kind


@pytest.mark.parametrize("sentence", ["Good morning!", "What did we decide?", "おはようございます", "何に決まりましたか？", "", "must"])
def test_small_talk_and_mere_questions_are_nothing(sentence: str) -> None:
    assert kind_of(sentence) is None


def test_the_evidence_is_the_number_of_the_row_in_which_it_stands() -> None:
    found = proposed(rows("hello", "We decided on blue. I prefer dark mode.", start=41))

    assert found == [("decision", "We decided on blue.", [42]), ("preference", "I prefer dark mode.", [42])]


def test_only_what_people_said_and_what_may_be_cited_is_proposed() -> None:
    context = json.dumps({"not_evidence": True, "kind": "user", "text": "We decided on red."})
    prompt = "\n".join([context, rows("We decided on green.", kind="assistant"), "{no json", '{"n": 1}', "We decided on pink."])

    assert proposed(prompt) == []


def test_what_a_person_only_quotes_is_not_proposed() -> None:
    said = "> We decided on red.\n```\nWe decided on pink.\n```\nWe decided on blue."

    assert proposed(rows(said)) == [("decision", "We decided on blue.", [1])]


def test_a_sentence_said_twice_is_proposed_once_and_never_more_than_the_tool_takes() -> None:
    twice = proposed(rows("We decided on blue.", "We decided on blue."))
    many = proposed(rows(*(f"We decided on colour {n}." for n in range(40))))

    assert twice == [("decision", "We decided on blue.", [1])]
    assert len(many) == MAX_CANDIDATES
