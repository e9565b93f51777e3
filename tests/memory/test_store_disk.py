"""A disk that is full, or refuses, leaves every record as it was."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory import store_files
from memory.records import RecordKind, sha256
from memory.store import Store
from tests.memory.made_records import record

OLD, NEW = record(body="the old text"), record(body="the new text " + "x" * 6_000)
ROOM = 64 * 1024


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "known.json"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.root
def test_a_full_disk_leaves_the_old_record_and_the_next_write_works(disk: Path) -> None:
    store = Store(disk)
    read = store.write(OLD, None).after_sha256
    ballast = disk / "ballast"
    ballast.write_bytes(b"")
    with ballast.open("ab", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"x" * 4096)
    before = snapshot(disk)

    with pytest.raises(OSError) as caught:
        store.write(NEW, read)
    assert caught.value.errno == errno.ENOSPC
    assert snapshot(disk) == before and store.unaudited() == ()

    ballast.unlink()
    store.write(NEW, read)
    assert list(store.view().records()) == [NEW]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_an_error_of_the_disk_leaves_the_old_record_or_the_new_one(
    tmp_path: Path, failing: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    read = store.write(OLD, None).after_sha256
    real, calls = getattr(os, failing), []

    def fails(*args: object, **rest: object) -> None:
        calls.append(args)
        if len(calls) == nth:
            raise OSError(errno.EIO, "Input/output error")
        real(*args, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(store_files.os, failing, fails)
        try:
            store.write(NEW, read)
        except OSError:
            pass
        else:
            assert len(calls) < nth

    assert list(store.view().records()) in ([OLD], [NEW])
    assert store.unaudited() == () and list(tmp_path.rglob(".tmp-*")) == []
    stored = store.view().get(RecordKind.DECISION, "deploy-freeze")
    assert stored and stored.sha256 == sha256(stored.text)


def test_a_short_write_is_no_write(tmp_path: Path) -> None:
    store = Store(tmp_path)
    read = store.write(OLD, None).after_sha256
    before = snapshot(tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(OSError) as caught:
            store.write(NEW, read)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    assert caught.value.errno == errno.EFBIG
    assert snapshot(tmp_path) == before and store.unaudited() == ()
