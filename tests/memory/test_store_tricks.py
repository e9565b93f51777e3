"""Whatever stands in a file's place: nothing outside the store is read, written, removed or waited for."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.disk import NotOurs
from memory.lint_rules import Rule
from memory.records import RecordKind, path_of
from memory.store import Store, StoreRefused
from tests.memory.made_records import put, record, text_of

PLACE = path_of(RecordKind.DECISION, "deploy-freeze")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "store"
    root.mkdir()
    return Store(root)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file of the machine, that stays as it is."""
    path = tmp_path / "outside.md"
    path.write_text(text_of(body="not ours"), encoding="utf-8")
    before = path.stat()
    yield path
    after = path.stat()
    assert path.read_text(encoding="utf-8") == text_of(body="not ours")
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)


def symlink(place: Path, outside: Path) -> None:
    place.symlink_to(outside)


def dangling(place: Path, outside: Path) -> None:
    place.symlink_to(outside.with_name("nothing"))


def loop(place: Path, outside: Path) -> None:
    place.symlink_to(place)


def hard_link(place: Path, outside: Path) -> None:
    place.hardlink_to(outside)


def fifo(place: Path, outside: Path) -> None:
    os.mkfifo(place)


def folder(place: Path, outside: Path) -> None:
    (place / "inside").mkdir(parents=True)


def listener(place: Path, outside: Path) -> None:
    """A socket's name in the file system."""
    os.mknod(place, stat.S_IFSOCK | 0o600)


Trick = Callable[[Path, Path], None]
tricks = pytest.mark.parametrize("trick", [symlink, dangling, loop, hard_link, fifo, folder, listener])


@tricks
def test_it_is_not_read_and_the_view_says_so(store: Store, outside: Path, trick: Trick) -> None:
    put(store.root, text_of(), slug="good")
    trick(store.root / PLACE, outside)

    opened = os.listdir("/proc/self/fd")
    view = store.view()

    assert len(os.listdir("/proc/self/fd")) == len(opened)
    assert [key for key in view.stored] == [(RecordKind.DECISION, "good")]
    assert [(stray.rule, stray.path) for stray in view.strays] == [(Rule.NO_PLAIN_FILE, PLACE)]


@tricks
def test_it_is_not_replaced_by_a_write_and_not_moved_by_a_removal(store: Store, outside: Path, trick: Trick) -> None:
    place = store.root / PLACE
    place.parent.mkdir(parents=True)
    trick(place, outside)
    before = os.lstat(place)

    for doing in (
        lambda: store.write(record(), None),
        lambda: store.write(record(), "0" * 64),
        lambda: store.remove(RecordKind.DECISION, "deploy-freeze", "0" * 64, "run1"),
    ):
        with pytest.raises(StoreRefused) as caught:
            doing()
        assert caught.value.rule is Rule.NO_PLAIN_FILE

    after = os.lstat(place)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert [path.name for path in place.parent.iterdir()] == [place.name]


@pytest.mark.parametrize("linked", ["memory", "memory/decision", "memory/_state", "memory/_trash", "memory/_trash/run1"])
def test_a_folder_that_is_a_link_is_not_entered(store: Store, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere, text_of(body="not ours"))
    (elsewhere / "deploy-freeze.md").write_text(text_of(body="not ours"), encoding="utf-8")
    before = sorted(elsewhere.rglob("*"))
    read = ""
    if "_trash" in linked:
        read = store.write(record(), None).after_sha256
    (store.root / linked).parent.mkdir(parents=True, exist_ok=True)
    (store.root / linked).symlink_to(elsewhere)

    assert [each.body for each in store.view().records() if each.body == "not ours"] == []
    with pytest.raises(NotOurs):
        store.remove(RecordKind.DECISION, "deploy-freeze", read, "run1")
    if "_trash" not in linked:
        with pytest.raises(NotOurs):
            store.write(record(), None)

    assert sorted(elsewhere.rglob("*")) == before


@pytest.mark.parametrize("slug", ["../x", "..", ".", "", "a/b", "/etc/passwd", "a\0", "A", "_state", ".tmp-x", "a" * 65, "a.md\n"])
def test_a_slug_cannot_lead_out_of_its_folder(store: Store, slug: str) -> None:
    with pytest.raises(StoreRefused) as caught:
        store.write(record(slug), None)
    assert caught.value.rule is Rule.SLUG
    with pytest.raises(StoreRefused) as caught:
        store.remove(RecordKind.DECISION, slug, "0" * 64, "run1")
    assert caught.value.rule is Rule.SLUG

    assert list(store.root.rglob("*.md")) == []


@pytest.mark.parametrize("name", ["memory/_state/store.lock", "memory/_state/known.json"])
@pytest.mark.parametrize("trick", [symlink, fifo])
def test_a_trick_in_our_own_files_is_refused_or_replaced_and_never_followed(store: Store, outside: Path, name: str, trick: Trick) -> None:
    (store.root / name).parent.mkdir(parents=True)
    trick(store.root / name, outside)

    try:
        store.view()
        store.write(record(), None)
    except OSError:
        assert name.endswith(".lock")
    else:
        assert len(store.view().stored) == 1


def test_a_huge_file_is_not_read_whole(store: Store) -> None:
    place = put(store.root, "x")
    os.truncate(place, 1 << 40)

    assert [stored.text for stored in store.view().stored.values()] == [""]
