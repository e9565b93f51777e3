"""A process may die before any step of a write: each record is then whole, old or new, and nothing is taken for a person's."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory import store as store_module
from memory import store_files
from memory.records import RecordKind, render, sha256
from memory.store import Store
from tests.memory.dying import Death, Steps
from tests.memory.dying_store import stepped_store
from tests.memory.made_records import record

OLD, NEW = record(body="the old text"), record(body="the new text")
CHANGES = ("open", "mkdir", "rename", "replace", "link", "unlink", "fsync")


class Died(BaseException):
    """Not an Exception: nothing may clean up behind a dead process."""


class MortalOs:
    """`os`, until the step `dies_at`, and nothing at all from then on."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at, self.steps = dies_at, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.stepped(real) if name in CHANGES else real

    def stepped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **rest: Any) -> Any:
            self.steps += 1
            if self.steps >= self.dies_at:
                raise Died
            return real(*args, **rest)

        return step


def write_new(store: Store) -> None:
    store.write(NEW, None)


def write_over(store: Store) -> None:
    store.write(NEW, sha256(render(OLD)))


def remove(store: Store) -> None:
    store.remove(OLD.kind, OLD.slug, sha256(render(OLD)), "run1")


def died(root: Path, doing: Callable[[Store], None], dies_at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    mortal = MortalOs(dies_at)
    with monkeypatch.context() as patch:
        patch.setattr(store_files, "os", mortal)
        patch.setattr(store_files, "exchange", mortal.stepped(store_files.exchange))
        patch.setattr(store_module, "os", mortal)
        try:
            doing(Store(root))
        except Died:
            return True
    return False


def everything(root: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in root.rglob("*.md")]


@pytest.mark.parametrize("doing", [write_new, write_over, remove])
def test_a_death_at_any_step_leaves_a_whole_record_and_no_false_alarm(
    tmp_path: Path, doing: Callable[[Store], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = set()
    for dies_at in range(1, 200):
        root = tmp_path / str(dies_at)
        root.mkdir()
        if doing is not write_new:
            Store(root).write(OLD, None)

        if not died(root, doing, dies_at, monkeypatch):
            break

        store = Store(root)
        store.sweep()
        assert [str(path) for path in root.rglob(".tmp-*")] == []
        bodies = [each.body for each in store.view().records()]
        assert store.view().strays == () and bodies in ([], [OLD.body], [NEW.body])
        assert store.unaudited() == ()
        assert doing is write_new or render(OLD) in everything(root) or bodies == [NEW.body]
        outcomes.add(tuple(bodies))
        store.write(record("another"), None)
    assert dies_at > 15
    assert len(outcomes) == 2


def write_back(store: Store) -> None:
    store.write(OLD, sha256(render(NEW)))


def write_next(store: Store) -> None:
    """Over whatever is there."""
    there = store.view().get(OLD.kind, OLD.slug)
    store.write(record(body="the next text"), there and there.sha256)


def lives(root: Path, doing: Callable[[Store], None], dies_at: int) -> bool:
    """False: it died. What is half done is swept."""
    steps = Steps(dies_at)
    with contextlib.suppress(Death), stepped_store(steps):
        doing(Store(root))
    Store(root).sweep()
    return not steps.dead


@pytest.mark.sweep
@pytest.mark.parametrize("doing", [write_new, write_over, remove])
def test_a_death_while_changing_what_a_dead_writer_left_is_no_false_alarm_either(tmp_path: Path, doing: Callable[[Store], None]) -> None:
    """A writer that dies before it has settled its hash, and one after it that has only announced its own."""
    scenarios = 0
    for first, second in itertools.product(range(1, 16), range(1, 16)):
        root = tmp_path / f"{first} {second}"
        root.mkdir()
        if doing is not write_new:
            assert lives(root, write_new, 0) and lives(root, write_back, 0)

        if not lives(root, doing, first) and not lives(root, write_next, second):
            scenarios += 1
            assert Store(root).unaudited() == (), f"after deaths at {first} and {second}"
    assert scenarios > 40


def test_what_a_dead_writer_left_is_no_record_and_goes_with_the_sweep(tmp_path: Path) -> None:
    Store(tmp_path).write(OLD, None)
    folder = tmp_path / "memory" / "decision"
    (folder / ".tmp-ab12").write_text("half", encoding="utf-8")
    (folder / ".tmp-link").symlink_to(folder / "deploy-freeze.md")
    os.mkfifo(folder / ".tmp-fifo")

    assert (len(Store(tmp_path).view().stored), Store(tmp_path).view().strays) == (1, ())
    assert Store(tmp_path).sweep() == 3
    assert [path.name for path in folder.iterdir()] == ["deploy-freeze.md"]


WRITER = """
import sys
from pathlib import Path
from memory.records import RecordKind
from memory.store import Store, StoreConflict
from tests.memory.dying import Death, Steps
from tests.memory.dying_store import stepped_store
from tests.memory.made_records import record
store, name = Store(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
for n in range(1_000_000):
    stored = store.view().get(RecordKind.DECISION, "deploy-freeze")
    try:
        store.write(record(body=f"{name} {n} " + name * 4_000), stored and stored.sha256)
    except StoreConflict:
        pass
"""


def start_writer(root: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, root, name], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])


@pytest.mark.kill
def test_killed_writers_leave_whole_records_and_a_free_lock(tmp_path: Path) -> None:
    for turn in range(10):
        writers = [start_writer(tmp_path, name) for name in "ab"]
        for writer in writers:
            assert writer.stdout and writer.stdout.readline() == b"ready\n"
        time.sleep(0.03 + 0.011 * turn)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()

        store = Store(tmp_path)
        store.sweep()
        assert store.view().strays == () and store.unaudited() == ()
        assert all(len(set(each.body.split(" ")[2])) == 1 and len(each.body) > 4_000 for each in store.view().records())
    assert store.view().get(RecordKind.DECISION, "deploy-freeze")
