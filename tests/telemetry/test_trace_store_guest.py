"""A command beside the bot adds its own trace to the store, and touches nothing else in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.names import Attr
from telemetry.trace_reading import Wanted, reading
from tests.telemetry.made_traces import BEGAN, MS, Made, known, run
from tests.telemetry.stores import begun, found, ids, store, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def undone(number: int) -> Made:
    made = Made(number, BEGAN + 9_000 * MS)
    made.span("memory.undo", 0, 3, {Attr.MEMORY_RUN_ID: "u1"})
    return made


def test_a_guest_adds_and_what_the_owner_has_not_ended_stays_open(path: Path) -> None:
    owner = writer(path)
    owner.write(begun(known(1)))

    guest = writer(path, guest=True)
    assert guest.write(undone(2).spans) == 0 and not guest.prune()
    guest.close()

    assert {int(one.trace_id[:8], 16): one.outcome for one in found(path)} == {1: "", 2: ""}
    assert owner.write(known(1).spans) == owner.write(known(3).spans) == 0
    owner.close()
    assert sorted(ids(found(path))) == [1, 2, 3]


def test_a_guest_prunes_nothing(path: Path) -> None:
    store(path, known(1))

    guest = writer(path, guest=True, seconds=1.0, now=BEGAN + 10**18)
    guest.write(undone(2).spans)

    assert not guest.prune() and sorted(ids(found(path))) == [1, 2]
    guest.close()


@pytest.mark.parametrize("there", ["nothing", "link", "empty"])
def test_a_guest_makes_no_file_and_follows_no_link(path: Path, there: str, capsys: pytest.CaptureFixture[str]) -> None:
    if there == "link":
        store(path.with_name("elsewhere"), known(1))
        path.symlink_to(path.with_name("elsewhere"))
    if there == "empty":
        path.touch()

    guest = writer(path, guest=True)

    assert guest.write(undone(2).spans) == 1
    guest.close()
    assert (path.exists(), path.is_symlink()) == {"nothing": (False, False), "link": (True, True), "empty": (True, False)}[there]
    assert there != "link" or ids(found(path.with_name("elsewhere"))) == [1]
    assert there != "empty" or path.stat().st_size == 0


def test_a_guest_leaves_a_damaged_file_where_it_is(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(b"damaged")

    assert writer(path, guest=True).write(undone(2).spans) == 1

    assert path.read_bytes() == b"damaged" and [each.name for each in path.parent.iterdir()] == [path.name]
    assert "cannot be used, so there is no trace" in capsys.readouterr().err


def test_runs_are_found_by_their_id_and_by_their_worker(path: Path) -> None:
    other = Made(3, BEGAN + MS)
    other.span("memory.run memory_extract", 0, 5, {Attr.MEMORY_RUN_ID: 'r"\\%'})
    store(path, run(1), known(2), other, undone(4))

    with reading(path) as traces:
        assert [ids(traces.by_run(prefix)) for prefix in ("r-7", "r-", "r", "7", 'r"', "u1", "%")] == [[1], [1], [3, 1], [], [3], [], []]
        assert ids(traces.listing(Wanted(name="memory.run memory_extract"))) == [3]
