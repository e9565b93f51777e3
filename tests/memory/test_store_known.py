"""What was changed outside the tools is seen, told once, and never taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.records import RecordKind, render
from memory.store import Store
from memory.store_audit import tell_unaudited
from telemetry.memory_events import RecordOp, RecordOperation
from tests.bot.recording import RecordingEmit
from tests.memory.made_records import put, record, text_of

KNOWN = "memory/_state/known.json"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def seen(store: Store) -> list[tuple[str, str]]:
    return [(change.op, f"{change.kind}/{change.slug}") for change in store.unaudited()]


def told(store: Store) -> list[RecordOperation]:
    emit = RecordingEmit()
    tell_unaudited(store, emit)
    return emit.of(RecordOperation)


def is_by_hand(store: Store, slug: str = "deploy-freeze") -> bool:
    stored = store.view().get(RecordKind.DECISION, slug)
    assert stored
    return stored.unaudited


def test_what_the_tools_did_is_no_unaudited_change(store: Store) -> None:
    first = store.write(record(body="one"), None)
    second = store.write(record(body="two"), first.after_sha256)
    store.write(record("other"), None)
    store.remove(RecordKind.DECISION, "deploy-freeze", second.after_sha256, "run1")

    assert seen(store) == [] and not first.unaudited and not second.unaudited
    assert list(store.last_known()) == ["memory/decision/other.md"]


def test_what_a_person_wrote_changed_and_deleted_is_seen_with_its_hashes(store: Store, tmp_path: Path) -> None:
    changed, deleted = store.write(record("changed"), None), store.write(record("deleted"), None)
    put(tmp_path, text_of(), slug="changed")
    (tmp_path / deleted.path).unlink()
    put(tmp_path, text_of(), slug="new")

    assert seen(store) == [(RecordOp.EDIT, "decision/changed"), (RecordOp.DELETE, "decision/deleted"), (RecordOp.WRITE, "decision/new")]
    edit, delete, write = store.unaudited()
    assert (edit.before_sha256, delete.before_sha256, delete.after_sha256, write.before_sha256) == (
        changed.after_sha256,
        deleted.after_sha256,
        "",
        "",
    )


def test_a_change_is_told_once_and_the_record_stays_marked_as_a_persons(store: Store, tmp_path: Path) -> None:
    store.write(record(), None)
    assert not is_by_hand(store)
    put(tmp_path, text_of(body="a person's"))

    (fact,) = told(store)

    assert (fact.op, fact.slug, fact.unaudited, fact.path) == (RecordOp.EDIT, "deploy-freeze", True, "memory/decision/deploy-freeze.md")
    assert told(Store(tmp_path)) == [] and is_by_hand(store)
    assert (tmp_path / fact.path).read_text(encoding="utf-8") == text_of(body="a person's")


def test_a_tool_that_replaces_a_persons_text_says_so_and_takes_the_mark_away(store: Store, tmp_path: Path) -> None:
    store.write(record(), None)
    put(tmp_path, text_of())
    (change,) = store.unaudited()

    before_it_is_told = store.write(record(body="two"), change.after_sha256)
    assert before_it_is_told.unaudited and not is_by_hand(store) and seen(store) == []

    put(tmp_path, text_of())
    told(store)
    after_it_was_told = store.write(record(body="three"), change.after_sha256)
    assert after_it_was_told.unaudited and not is_by_hand(store)


def test_a_deletion_by_hand_is_told_once(store: Store, tmp_path: Path) -> None:
    (tmp_path / store.write(record(), None).path).unlink()

    assert [fact.op for fact in told(store)] == [RecordOp.DELETE]
    assert told(store) == [] and store.last_known() == {}


def test_putting_the_old_text_back_is_no_change(store: Store, tmp_path: Path) -> None:
    store.write(record(), None)
    put(tmp_path, text_of())
    put(tmp_path, render(record()))

    assert seen(store) == [] and not is_by_hand(store)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"v":1}', '{"v":1,"records":[]}', '{"v":1,"records":{"a":1}}', '{"v":2,"records":{}}', "[" * 100_000, "\xff"],
)
def test_without_the_known_hashes_everything_counts_as_a_persons_and_nothing_is_lost(store: Store, tmp_path: Path, content: str) -> None:
    written = store.write(record(), None)
    (tmp_path / KNOWN).write_text(content, encoding="latin-1")

    assert seen(store) == [(RecordOp.WRITE, "decision/deploy-freeze")] and is_by_hand(store)
    assert store.write(record(body="two"), written.after_sha256).unaudited
    assert seen(store) == [] and [each.body for each in store.view().records()] == ["two"]


def test_lines_that_no_record_can_have_are_passed_over(store: Store, tmp_path: Path) -> None:
    store.write(record(), None)
    known = json.loads((tmp_path / KNOWN).read_text(encoding="utf-8"))
    known["records"] |= {
        "../../etc/passwd": ["x", None, False],
        "memory/_logs/a.md": ["x", None, False],
        "memory/decision/A.md": ["x", None, False],
    }
    (tmp_path / KNOWN).write_text(json.dumps(known), encoding="utf-8")

    assert seen(store) == []


def test_a_change_is_not_noted_over_what_a_tool_wrote_after_it_was_seen(store: Store, tmp_path: Path) -> None:
    store.write(record(), None)
    put(tmp_path, text_of())
    changes = store.unaudited()
    store.write(record(body="two"), changes[0].after_sha256)

    store.notice(changes)

    assert seen(store) == [] and not is_by_hand(store)


def test_no_text_of_a_record_is_in_the_file_of_hashes(store: Store, tmp_path: Path) -> None:
    store.write(record(title="秘密", body="a secret"), None)

    text = (tmp_path / KNOWN).read_text(encoding="utf-8")
    assert "secret" not in text and "秘密" not in text
