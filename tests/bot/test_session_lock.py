"""One owner a session, held against real processes. Time is shortened by the clock, processes are those that a test started."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import session_lock
from bot.ports import StartFailed
from bot.session_lock import PATIENCE_SECONDS, note_owner, take_lock
from tests.bot.ground import FakeClock

pytestmark = pytest.mark.kill

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(120)"
# It spawns a process that inherits the lock, and lives on in the same group when its parent is gone.
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPER!r}], pass_fds=[int(sys.argv[1])])"


class Shortened(FakeClock):
    """A second of patience takes a hundredth."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)
        self.at += seconds


class Owners:
    """Processes in groups of their own that inherited a lock, as the CLI does."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, fd: int | None, code: str = SLEEPER) -> subprocess.Popen[bytes]:
        given = [] if fd is None else [fd]
        command = [sys.executable, "-c", code, *map(str, given)]
        owner = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=given, start_new_session=True)
        self.started.append(owner)
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        return owner

    def end(self) -> None:
        for owner in self.started:
            if owner.poll() is None:
                os.killpg(owner.pid, signal.SIGKILL)
            owner.wait()
            assert owner.stdout is not None
            owner.stdout.close()


@pytest.fixture
def owners() -> Iterator[Owners]:
    owners = Owners()
    yield owners
    owners.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


async def given_away(path: Path, owners: Owners, code: str = SLEEPER, *, noted: bool = True) -> subprocess.Popen[bytes]:
    """What a bot does that is then killed: lock, spawn, note, and nothing is left but the child."""
    fd = await take_lock(path, clock=FakeClock())
    owner = owners.start(fd, code)
    if noted:
        note_owner(fd, owner.pid)
    os.close(fd)
    return owner


def is_free(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


async def test_a_free_lock_is_taken_at_once_and_is_its_owners_alone(path: Path) -> None:
    clock = FakeClock()
    began = clock.monotonic()

    fd = await take_lock(path, clock=clock)

    assert clock.monotonic() == began
    assert not is_free(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.close(fd)
    assert is_free(path)


async def test_a_child_holds_the_lock_after_its_bot_is_gone(path: Path, owners: Owners) -> None:
    owner = await given_away(path, owners)

    assert not is_free(path)
    owner.kill()
    owner.wait()
    assert is_free(path)


async def test_a_killed_owner_frees_the_lock_at_once(path: Path, owners: Owners) -> None:
    owner = await given_away(path, owners)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    clock = FakeClock()
    began = clock.monotonic()

    os.close(await take_lock(path, clock=clock))

    assert clock.monotonic() == began


async def test_a_living_owner_is_waited_for(path: Path, owners: Owners) -> None:
    owner, clock = await given_away(path, owners), Shortened()

    taking = asyncio.get_running_loop().create_task(take_lock(path, clock=clock))
    await asyncio.sleep(0)
    assert not taking.done()
    owner.terminate()
    owner.wait()
    os.close(await taking)

    assert clock.at - FakeClock().at < PATIENCE_SECONDS
    assert owner.returncode == -signal.SIGTERM  # it went by itself


async def test_an_owner_that_does_not_go_is_ended_with_its_whole_group(path: Path, owners: Owners) -> None:
    owner = await given_away(path, owners, PARENT)
    clock = Shortened()

    fd = await take_lock(path, clock=clock)

    assert owner.wait() == -signal.SIGKILL
    assert PATIENCE_SECONDS <= clock.at - FakeClock().at < 2 * PATIENCE_SECONDS
    assert not is_free(path)
    os.close(fd)
    assert is_free(path)  # its child is gone, too


async def test_a_group_whose_first_process_is_gone_is_ended_by_those_who_are_left(path: Path, owners: Owners) -> None:
    owner = await given_away(path, owners, PARENT)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert not is_free(path)  # the grandchild holds it

    os.close(await take_lock(path, clock=Shortened()))

    assert is_free(path)


async def test_an_owner_that_never_told_its_group_is_not_ended(path: Path, owners: Owners) -> None:
    owner = await given_away(path, owners, noted=False)

    with pytest.raises(StartFailed, match=f"another process holds {path}"):
        await take_lock(path, clock=Shortened())

    assert owner.poll() is None


@pytest.mark.parametrize("content", ["", "0", "1", "-1", "own group", "a word", "99999999999999999999", "stranger"])
async def test_a_number_that_proves_nothing_ends_nobody(path: Path, owners: Owners, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 and 1 mean one's own group and every process there is; a stranger has the number of a group that is gone."""
    ended: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: ended.append(group))
    owner, stranger = await given_away(path, owners), owners.start(None)
    path.write_text({"own group": str(os.getpgrp()), "stranger": str(stranger.pid)}.get(content, content))

    with pytest.raises(StartFailed):
        await take_lock(path, clock=Shortened())

    monkeypatch.undo()
    assert ended == []
    assert owner.poll() is None
    assert stranger.poll() is None


async def test_whoever_takes_the_lock_wipes_the_number_of_the_owner_before(path: Path, owners: Owners) -> None:
    owner = await given_away(path, owners)
    owner.kill()
    owner.wait()

    os.close(await take_lock(path, clock=FakeClock()))

    assert path.read_bytes() == b""


async def test_where_processes_cannot_be_looked_at_nobody_is_ended(
    path: Path, owners: Owners, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_lock, "PROC", tmp_path / "none")
    owner = await given_away(path, owners)

    with pytest.raises(StartFailed):
        await take_lock(path, clock=Shortened())

    assert owner.poll() is None


async def test_to_give_up_waiting_leaves_the_lock_to_its_owner_and_no_descriptor_open(path: Path, owners: Owners) -> None:
    await given_away(path, owners)
    opened = len(os.listdir("/proc/self/fd"))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await take_lock(path, clock=Shortened())

    assert len(os.listdir("/proc/self/fd")) == opened
    assert not is_free(path)


@pytest.mark.parametrize("place", ["none/lock", "link", "folder"])
async def test_a_lock_that_cannot_be_opened_is_a_start_that_failed(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StartFailed, match="cannot be opened"):
        await take_lock(tmp_path / place, clock=FakeClock())
