"""Somebody saves, deletes or replaces a file between any two steps of a change of it: theirs stays, and the change says so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memory import store_files
from memory.records import path_of, render, sha256
from memory.store import Store, StoreConflict, StoreRefused
from tests.memory.dying_store import Watched, stepped_store
from tests.memory.made_records import record

OLD, NEW = record(body="the old text"), record(body="the new text")
THEIRS = b"what somebody wrote"
PATH = path_of(OLD.kind, OLD.slug)


def saves(file: Path) -> None:
    """As most editors do it."""
    new = file.with_name("new~")
    new.write_bytes(THEIRS)
    new.replace(file)


def saves_in_place(file: Path) -> None:
    file.write_bytes(THEIRS)


def deletes(file: Path) -> None:
    file.unlink(missing_ok=True)


def links(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to(file.parents[2] / "outside.md")


def makes_a_folder(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


def is_theirs(file: Path, act: Callable[[Path], None]) -> bool:
    if act is deletes:
        return not file.exists()
    if act is links:
        return file.is_symlink()
    return file.is_dir() if act is makes_a_folder else file.read_bytes() == THEIRS


def write_new(store: Store) -> None:
    store.write(NEW, None, run_id="run1")


def write_over(store: Store) -> None:
    store.write(NEW, sha256(render(OLD)), run_id="run1")


def remove(store: Store) -> None:
    store.remove(OLD.kind, OLD.slug, sha256(render(OLD)), "run1")


@pytest.mark.parametrize("act", [saves, saves_in_place, deletes, links, makes_a_folder])
@pytest.mark.parametrize("doing", [write_new, write_over, remove])
def test_what_somebody_does_to_the_file_between_any_two_steps_stays(
    doing: Callable[[Store], None], act: Callable[[Path], None], tmp_path: Path
) -> None:
    step, acted, kept = 0, [True], 0
    while acted:
        step += 1
        root = tmp_path / str(step)
        file = root / PATH
        file.parent.mkdir(parents=True)
        (root / "outside.md").write_bytes(b"outside")
        if doing is not write_new:
            Store(root).write(OLD, None)
        acted, there = list[bool](), list[bool]()

        def acts(count: int, step: int = step, file: Path = file, acted: list[bool] = acted, there: list[bool] = there) -> None:
            if count == step:
                there.append(file.exists())
                act(file)
                acted.append(True)

        with stepped_store(Watched(acts), looks=True), contextlib.suppress(StoreConflict, StoreRefused):
            doing(Store(root))

        if acted and (act is not deletes or there[0]):
            assert is_theirs(file, act), f"step {step}"
            kept += 1
        assert (root / "outside.md").read_bytes() == b"outside"
        assert not list(root.rglob(".tmp-*"))
    assert step > 20 and kept > 5


@pytest.mark.parametrize("changed_meanwhile", [False, True])
def test_where_two_files_cannot_change_places_a_record_is_replaced(
    changed_meanwhile: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.write(OLD, None)
    monkeypatch.setattr(store_files, "_RENAMEAT2", None)
    if changed_meanwhile:
        (tmp_path / PATH).write_bytes(THEIRS)

    with pytest.raises(StoreConflict) if changed_meanwhile else contextlib.nullcontext():
        write_over(store)

    assert (tmp_path / PATH).read_bytes() == (THEIRS if changed_meanwhile else render(NEW).encode())
    assert not list(tmp_path.rglob(".tmp-*"))


def test_of_two_records_with_the_same_text_the_trash_knows_which_one_went(tmp_path: Path) -> None:
    store, twin = Store(tmp_path), replace(OLD, slug="twin")
    store.write(OLD, None)
    store.write(twin, None)

    remove(store)

    same = sha256(render(OLD))
    assert render(twin) == render(OLD)
    assert store.trashed(OLD.kind, "run1", same) == store.trashed(OLD.kind, "run1", same, slug=OLD.slug) == render(OLD).encode()
    assert store.trashed(OLD.kind, "run1", same, slug="twin") is None
