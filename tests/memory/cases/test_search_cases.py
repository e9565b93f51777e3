"""Bugs of others that searching and reading must not have; the ids are those of the list of cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.records import Scope, moment
from memory.search_terms import fold
from tests.memory.made_records import NOW, record
from tests.memory.reading_desk import desk, in_channel, in_messages_of
from tests.memory.search_probes import NOTES, PLAIN_TEXT, PROBES

ASKED = ("記憶", "金曜", "予算", "田中", "ﾃﾞｰﾀﾍﾞｰｽ", "ＡＰＩ", "金曜のデプロイは？")


@pytest.mark.parametrize("query", ASKED)
def test_c085_what_is_asked_in_japanese_is_found_first_and_so_is_all_that_a_scan_finds(tmp_path: Path, query: str) -> None:
    records = [record(note.key, title=note.title, description=note.description, body=note.body) for note in NOTES]
    scanned = {note.key for note in NOTES if fold(query) in fold(f"{note.title}\n{note.description}\n{note.body}")}

    with desk(tmp_path / "state", *records) as made:
        found = made.found("memory_query", query=query, limit=20)

    assert found[0] == PROBES[query]
    assert scanned <= set(found)


@pytest.mark.parametrize("query", PLAIN_TEXT)
def test_c085_operators_are_plain_text_and_raise_nothing(tmp_path: Path, query: str) -> None:
    odd, even = record("odd", body=f"before {query} behind"), record("even", title="別", description="別", body="別")

    with desk(tmp_path / "state", odd, even) as made:
        found = made.found("memory_query", query=query)

    assert found == ["odd"]


def test_c093_what_was_said_in_direct_messages_is_found_only_there(tmp_path: Path) -> None:
    fact = record("surprise", title="誕生日の計画", body="田中さんの誕生日に花を贈る。", scope=Scope.user("U1"))

    with desk(tmp_path / "state", fact) as made:
        places = [in_channel("C1"), in_messages_of("U1"), in_messages_of("U2")]
        found = [made.found("memory_query", place, query="誕生日") for place in places]
        read = ["content" in made.ask("memory_read", place, kind="decision", slug="surprise") for place in places]
        used = [event["found"] for event in made.usage()]

    assert found == [[], ["surprise"], []]
    assert read == [False, True, False]
    assert used == [[], ["decision/surprise"], [], [], ["decision/surprise"], []]


def test_c075_a_list_begins_with_the_newest_and_says_how_many_it_leaves_out(tmp_path: Path) -> None:
    written = [record(f"r{n:03}", updated_at=moment(NOW + 60 * ((n * 7) % 300))) for n in range(300)]
    newest = [r.slug for r in sorted(written, key=lambda r: r.updated_at, reverse=True)[:20]]

    with desk(tmp_path / "state", *written) as made:
        listed = made.ask("memory_query", query="", limit=20)

    assert [result["slug"] for result in listed["results"]] == newest
    assert (listed["found"], listed["left_out"]) == (300, 280)
