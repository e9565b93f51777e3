from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from memory import store as store_module
from memory.lint_rules import Rule
from memory.records import BadRecord, RecordKind, render, sha256
from memory.store import Store, StoreBusy, StoreConflict, StoreRefused
from tests.memory.made_records import put, record, text_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def hash_of(store: Store, slug: str = "deploy-freeze", kind: RecordKind = RecordKind.DECISION) -> str:
    stored = store.view().get(kind, slug)
    assert stored
    return stored.sha256


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file() and "_state" not in path.parts}


def test_what_is_written_is_seen_by_another_store(store: Store, tmp_path: Path) -> None:
    made = record()

    written = store.write(made, None)

    stored = Store(tmp_path).view().get(made.kind, made.slug)
    assert stored and (stored.record, stored.sha256, stored.path) == (made, written.after_sha256, "memory/decision/deploy-freeze.md")
    assert (tmp_path / written.path).read_text(encoding="utf-8") == render(made) == stored.text
    assert (written.before_sha256, written.after_sha256) == ("", sha256(render(made)))


def test_a_view_is_a_snapshot_that_does_not_change(store: Store) -> None:
    store.write(record(body="one"), None)
    view = store.view()

    store.write(record(body="two"), hash_of(store))

    assert [each.body for each in view.records()] == ["one"]
    assert [each.body for each in store.view().records()] == ["two"]


def test_an_empty_workspace_is_an_empty_view_and_nothing_is_made_by_looking(store: Store, tmp_path: Path) -> None:
    assert (dict(store.view().stored), store.view().strays, store.unaudited(), store.last_known()) == ({}, (), (), {})
    assert list(tmp_path.iterdir()) == []


def test_everything_written_is_the_owners_alone(store: Store, tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        store.write(record(), None)
        store.remove(RecordKind.DECISION, "deploy-freeze", hash_of(store), "run1")
    finally:
        os.umask(previous)

    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert len(modes) >= 8
    assert {path: mode for path, mode in modes.items() if mode != (0o700 if (tmp_path / path).is_dir() else 0o600)} == {}


def test_a_file_open_to_others_is_the_owners_alone_after_a_tool_wrote_it(store: Store, tmp_path: Path) -> None:
    path = put(tmp_path, text_of())
    path.chmod(0o666)

    store.write(record(), hash_of(store))

    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("expected", [None, "0" * 64, ""])
def test_a_record_that_is_not_what_was_read_is_not_replaced(store: Store, tmp_path: Path, expected: str | None) -> None:
    store.write(record(body="a person's"), None)
    known = tmp_path / "memory/_state/known.json"
    before = files(tmp_path), known.read_bytes()

    with pytest.raises(StoreConflict) as caught:
        store.write(record(body="a tool's"), expected)

    assert (files(tmp_path), known.read_bytes()) == before
    assert (caught.value.expected, caught.value.found) == (expected, hash_of(store))
    assert "read it again" in str(caught.value)


def test_a_record_that_is_gone_is_not_brought_back(store: Store, tmp_path: Path) -> None:
    read = store.write(record(), None).after_sha256
    (tmp_path / "memory/decision/deploy-freeze.md").unlink()

    with pytest.raises(StoreConflict) as caught:
        store.write(record(body="changed"), read)

    assert caught.value.found is None and files(tmp_path) == {}


@pytest.mark.parametrize("new", [True, False])
def test_a_person_who_saves_while_the_tool_is_writing_wins(
    store: Store, tmp_path: Path, new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = None if new else store.write(record(body="one"), None).after_sha256
    write_temporary = store_module.store_files.write_temporary

    def saved_meanwhile(at: int, content: bytes) -> str:
        name = write_temporary(at, content)
        if content == render(record(body="a tool's")).encode():
            put(tmp_path, text_of(body="a person's"))
        return name

    monkeypatch.setattr(store_module.store_files, "write_temporary", saved_meanwhile)
    with pytest.raises(StoreConflict):
        store.write(record(body="a tool's"), read)

    assert files(tmp_path) == {"memory/decision/deploy-freeze.md": text_of(body="a person's").encode()}


def test_a_person_who_creates_the_file_in_the_last_instant_wins(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def created_meanwhile(src: str, dst: str, **rest: object) -> None:
        put(tmp_path, text_of(body="a person's"))
        link(src, dst, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store_module.os, "link", created_meanwhile)
    with pytest.raises(StoreConflict):
        store.write(record(), None)

    assert files(tmp_path) == {"memory/decision/deploy-freeze.md": text_of(body="a person's").encode()}


def test_what_is_removed_lies_in_the_trash_of_its_run_byte_for_byte(store: Store, tmp_path: Path) -> None:
    content = text_of(body="  odd\n\n\n").encode() + b"\n\n"
    put(tmp_path, content)

    removed = store.remove(RecordKind.DECISION, "deploy-freeze", sha256(content), "run1")

    assert removed.trashed == "memory/_trash/run1/decision/deploy-freeze.md" and removed.after_sha256 == ""
    assert files(tmp_path) == {removed.trashed: content}
    assert not store.view().stored


def test_a_run_that_removes_a_record_twice_keeps_both(store: Store, tmp_path: Path) -> None:
    for body in ("one", "two", "three"):
        written = store.write(record(body=body), None)
        store.remove(RecordKind.DECISION, "deploy-freeze", written.after_sha256, "run1")

    kept = files(tmp_path)
    assert sorted(kept) == [f"memory/_trash/run1/decision/deploy-freeze{n}.md" for n in (".2", ".3", "")]
    assert sorted(content.decode().split("---\n")[-1].strip() for content in kept.values()) == ["one", "three", "two"]


def test_a_record_that_was_changed_meanwhile_is_not_removed(store: Store, tmp_path: Path) -> None:
    read = store.write(record(), None).after_sha256
    put(tmp_path, text_of(body="a person's"))

    with pytest.raises(StoreConflict):
        store.remove(RecordKind.DECISION, "deploy-freeze", read, "run1")

    assert files(tmp_path) == {"memory/decision/deploy-freeze.md": text_of(body="a person's").encode()}


def test_a_record_that_is_saved_in_the_last_instant_is_put_back(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = store.write(record(), None).after_sha256
    rename = os.rename

    def saved_meanwhile(src: str, dst: str, **rest: object) -> None:
        put(tmp_path, text_of(body="a person's"))
        rename(src, dst, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store_module.os, "rename", saved_meanwhile)
    with pytest.raises(StoreConflict):
        store.remove(RecordKind.DECISION, "deploy-freeze", read, "run1")

    assert files(tmp_path) == {"memory/decision/deploy-freeze.md": text_of(body="a person's").encode()}


@pytest.mark.parametrize("run_id", ["", "..", "../x", "a/b", ".tmp", "a" * 65, "a\n", "a\0"])
def test_a_runs_id_cannot_lead_out_of_the_trash(store: Store, run_id: str) -> None:
    read = store.write(record(), None).after_sha256

    with pytest.raises(StoreRefused) as caught:
        store.remove(RecordKind.DECISION, "deploy-freeze", read, run_id)

    assert caught.value.rule is Rule.PLACE and store.view().stored


def test_a_record_that_could_not_be_read_again_is_not_written(store: Store) -> None:
    with pytest.raises(StoreRefused) as caught:
        store.write(record(body="日" * 30_000), None)

    assert caught.value.rule is Rule.FILE_LONG and not store.view().stored


def test_a_file_that_is_no_record_is_in_the_view_and_can_be_replaced(store: Store, tmp_path: Path) -> None:
    put(tmp_path, "nonsense")

    (stored,) = store.view().stored.values()
    assert isinstance(stored.record, BadRecord) and stored.text == "nonsense" and list(store.view().records()) == []

    store.write(record(), stored.sha256)
    assert list(store.view().records()) == [record()]


def test_files_that_an_editor_hides_are_left_alone(store: Store, tmp_path: Path) -> None:
    put(tmp_path, text_of())
    for name in (".deploy-freeze.md.swp", ".DS_Store"):
        (tmp_path / "memory" / "decision" / name).write_bytes(b"\0")
    for name in ("_logs", "_state", "_staging", ".gitkeep"):
        (tmp_path / "memory" / name).mkdir()

    assert (len(store.view().stored), store.view().strays) == (1, ())


def test_a_store_that_somebody_else_holds_is_said_to_be_busy(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(record(), None)
    monkeypatch.setattr(store_module, "LOCK_SECONDS", 0.0)
    with (tmp_path / "memory/_state/store.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        with pytest.raises(StoreBusy):
            store.view()
        with pytest.raises(StoreBusy):
            store.write(record("other"), None)

    assert len(store.view().stored) == 1


def test_knowledge_is_written_beside_memory(store: Store, tmp_path: Path) -> None:
    made = record("term", kind=RecordKind.KNOWLEDGE)

    store.write(made, None)
    store.write(replace(made, body="changed"), hash_of(store, "term", RecordKind.KNOWLEDGE))

    assert list(files(tmp_path)) == ["knowledge/term.md"]
