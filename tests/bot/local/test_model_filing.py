from __future__ import annotations

import pytest

from bot.local.model_filing import another_slug, description_of, knowledge_kind_of, slug_of, title_of
from memory.records import MAX_SLUG_CHARS, is_slug

MONDAYS = "We decided: release branches are cut on Mondays."
予算 = "予算の上限は300万円です。"


def test_a_slug_is_made_of_the_claims_own_english_words() -> None:
    assert slug_of("decision", MONDAYS) == "release-branches-cut-mondays"


def test_a_japanese_claim_has_its_kind_and_a_short_hash_for_a_slug() -> None:
    slug = slug_of("constraint", 予算)

    assert slug.startswith("constraint-") and slug == slug_of("constraint", f" {予算} ") != slug_of(
        "constraint", "予算の上限は400万円です。"
    )


@pytest.mark.parametrize(
    "claim", [MONDAYS, 予算, "", "Yes.", "../../etc/passwd", "x" * 500, "word " * 100, "emoji 🎉 and \udc80", "v" * 70 + " w"]
)
def test_whatever_the_claim_its_slugs_are_slugs(claim: str) -> None:
    slug = slug_of("decision", claim)

    assert is_slug(slug) and is_slug(another_slug(slug, "5e551011.00000001.000")) and is_slug(another_slug("a" * MAX_SLUG_CHARS, "id"))


def test_the_numbers_of_a_japanese_claim_are_no_slug() -> None:
    assert slug_of("decision", "4.2 は 11/3 に出します。").startswith("decision-")


def test_another_slug_is_the_candidates_own() -> None:
    assert another_slug("a-b", "one") != another_slug("a-b", "other") and another_slug("a-b", "one").startswith("a-b-")


def test_a_title_is_the_first_words_cut_between_words() -> None:
    long = title_of("The release " + "really " * 20 + "ends.")

    assert title_of(MONDAYS) == "We decided: release branches are cut on Mondays"
    assert long.endswith("really…") and len(long) <= 71
    assert title_of(予算) == "予算の上限は300万円です" and len(title_of("長い文です、" * 30)) <= 41


def test_a_description_says_when_to_read_it_in_the_language_of_the_claim() -> None:
    assert description_of(MONDAYS) == "When it is about release, branches, cut, mondays"
    assert description_of(予算) == "「予算の上限は300万円です」の話が出たとき"
    assert description_of("We do.") == "When it is about We do"


@pytest.mark.parametrize(
    ("kind", "claim"),
    [
        ("term", "SLO stands for service level objective."),
        ("term", "MTGはミーティングの略です。"),
        ("policy", "The policy is that guests sign in."),
        ("policy", "返金の方針は30日以内です。"),
        ("rule", "The rule is two reviewers."),
        ("rule", "命名規則はスネークケースです。"),
        ("howto", "This is how to restart the worker."),
        ("howto", "復旧の手順は三段階です。"),
        ("fact", "The office is in Kyoto."),
        ("fact", "本社は京都にあります。"),
    ],
)
def test_knowledge_is_of_the_kind_that_its_words_say(kind: str, claim: str) -> None:
    assert knowledge_kind_of(claim) == kind
