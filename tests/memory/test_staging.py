"""`_staging`: published whole and once, whatever is in the way; what is of another version is seen and not mixed in."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from memory.cursors import Cursor
from memory.disk import Disk, NotOurs
from memory.staging import Batch, Staging
from telemetry.memory_events import MemoryReason
from tests.memory.talk import Ground

SESSION = "5e551011-aaaa-4bbb-8ccc-0123456789ab"
NAME = "5e551011.00000001"


def batch(**fields: Any) -> Batch:
    about = {"session_id": SESSION, "route": "main", "start": 1, "entries": 4, "run_id": "r1", "staged_at": "2026-11-30T00:00:00Z"}
    return Batch(**{"cursor": Cursor(next=5, offset=9, anchor="a"), **about, **fields})


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path, disk=Disk())


def test_a_range_is_published_whole_for_its_owner_alone(staging: Staging, tmp_path: Path) -> None:
    done = staging.publish(batch(), [{"claim": "a"}, {"claim": "b"}])

    folder = tmp_path / "_staging" / NAME
    assert sorted(path.name for path in folder.iterdir()) == [f"{NAME}.000.json", f"{NAME}.001.json", "batch.json"]
    assert (done.ids, done.path, done.range) == ((f"{NAME}.000", f"{NAME}.001"), f"memory/_staging/{NAME}", (1, 4))
    assert staging.published(SESSION, 0, 1) == done
    assert oct(folder.stat().st_mode & 0o777) == "0o700" and {oct(p.stat().st_mode & 0o777) for p in folder.iterdir()} == {"0o600"}


def test_what_was_published_is_adopted_and_not_published_again(staging: Staging) -> None:
    first = staging.publish(batch(), [{"claim": "a"}])

    again = staging.publish(batch(run_id="r2"), [{"claim": "something else"}])

    assert again == first and [one["claim"] for one in staging.pending().candidates] == ["a"]


def test_another_session_with_the_same_beginning_gets_a_name_of_its_own(staging: Staging) -> None:
    staging.publish(batch(), [{"claim": "a"}])
    other = batch(session_id="5e551011-ffff-4bbb-8ccc-0123456789ab")

    done = staging.publish(other, [{"claim": "b"}])

    assert done.path == f"memory/_staging/{NAME}-2" and done.ids == (f"{NAME}-2.000",)
    assert staging.published(other.session_id, 0, 1) == done
    assert len(staging.pending().candidates) == 2


@pytest.mark.parametrize("in_the_way", ["file", "link", "rubbish", "future"])
def test_whatever_lies_under_the_name_is_left_alone(in_the_way: str, staging: Staging, tmp_path: Path) -> None:
    place = tmp_path / "_staging" / NAME
    place.parent.mkdir()
    if in_the_way == "file":
        place.write_text("mine")
    elif in_the_way == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        (place / "batch.json").write_text('{"v": 7}' if in_the_way == "future" else "{")

    done = staging.publish(batch(), [{"claim": "a"}])

    assert done.path.endswith("-2") and not list((tmp_path / "elsewhere").glob("*"))
    assert [one["claim"] for one in staging.pending().candidates] == ["a"]


def test_c066_what_cannot_be_read_is_told_apart_from_nothing(staging: Staging, tmp_path: Path) -> None:
    staging.publish(batch(), [{"claim": "a"}, {"claim": "b"}, {"claim": "c"}])
    folder = tmp_path / "_staging" / NAME
    (folder / f"{NAME}.001.json").write_text('{"v": 1, "cl')
    (folder / f"{NAME}.002.json").write_text(json.dumps({"v": 0, "id": f"{NAME}.002"}))
    (folder / "stray.json").write_text(json.dumps({"v": 1, "id": "forged"}))

    found = staging.pending()

    assert [one["claim"] for one in found.candidates] == ["a"]
    assert [path.name for path, _ in found.invalid] == [f"{NAME}.001.json", f"{NAME}.002.json", "stray.json"]


def test_temporary_files_of_the_dead_are_no_candidates_and_go(staging: Staging, tmp_path: Path) -> None:
    left = tmp_path / "_staging" / ".tmp-dead"
    left.mkdir(parents=True)
    (left / "x.000.json").write_text('{"v":1,"id":"x.000"}')

    assert staging.pending().candidates == []
    staging.sweep(["dead", "unheard-of"])
    assert not left.exists()


class FullDisk(Disk):
    """Full at the nth file that is made."""

    def __init__(self, at: int) -> None:
        self.at, self.made = at, 0

    def create(self, path: Path, content: bytes) -> None:
        self.made += 1
        if self.made >= self.at:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().create(path, content)


async def test_a_disk_that_is_full_at_whatever_file_ends_the_run_and_costs_nothing(tmp_path: Path) -> None:
    for at in range(1, 8):
        ground = Ground(tmp_path / str(at))
        ground.log.turn("keep one")
        ground.log.turn("keep two")
        ground.restarted(disk=FullDisk(at))
        result = await ground.run()
        assert len(ground.starts) == len(ground.ends) == 1
        assert result.completed or result.reason is MemoryReason.DISK_FULL
        ground.restarted().recover()

        await ground.drain()

        assert ground.claims == ["keep one", "keep two"], at
        assert [path for path in (tmp_path / str(at) / "memory").rglob(".tmp-*")] == []


@pytest.mark.parametrize("name", ["", "_staging", "_state", "_state/runs", "_state/cursors"])
async def test_a_link_in_the_place_of_a_folder_is_refused_in_a_sentence_and_nothing_is_written_there(name: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path / ".insomnia")
    ground.log.turn("keep it")
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / ".insomnia" / "memory" / name
    elsewhere.mkdir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(elsewhere)

    (result,) = await ground.drain()

    assert result.reason is MemoryReason.IO_ERROR and "is a link or no directory" in result.detail
    assert list(elsewhere.rglob("*")) == [] and len(ground.starts) == len(ground.ends) == 1 and ground.model.requests == []
    folder.unlink()
    assert (await ground.run()).completed and ground.claims == ["keep it"]


def test_candidates_are_not_read_through_a_link(staging: Staging, tmp_path: Path) -> None:
    Staging(tmp_path / "other", disk=Disk()).publish(batch(), [{"claim": "a"}])
    (tmp_path / "_staging").symlink_to(tmp_path / "other" / "_staging")

    with pytest.raises(NotOurs, match="memory/_staging"):
        staging.pending()
    with pytest.raises(NotOurs):
        staging.publish(batch(), [{"claim": "b"}])
