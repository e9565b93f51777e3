"""Every step of a disk and of the store counted by one counter, so that a process can die at it; and what then lies on the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory import store as store_module
from memory import store_files
from memory.disk import Disk
from tests.memory.dying import Steps


class SteppedDisk(Disk):
    """One step before each change, and one in the middle of a write. Nothing is synced: it is the process that dies, not the disk."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def create(self, path: Path, content: bytes) -> None:
        self._steps.step()
        with path.open("xb", buffering=0) as file:
            file.write(content[: len(content) // 2])
            self._steps.step()
            file.write(content[len(content) // 2 :])

    def rename(self, source: Path, target: Path) -> None:
        self._steps.step()
        source.rename(target)

    def unlink(self, path: Path) -> None:
        self._steps.step()
        path.unlink(missing_ok=True)

    def rmdir(self, path: Path) -> None:
        self._steps.step()
        path.rmdir()

    def mkdir(self, path: Path) -> None:
        if not path.is_dir():
            self._steps.step()
        super().mkdir(path)

    def sync(self, folder: Path) -> None:
        """Changes nothing for who reads the files afterwards."""


class SteppedAfter(Disk):
    """One step after each change."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def create(self, path: Path, content: bytes) -> None:
        with path.open("xb") as file:
            file.write(content)
        self._steps.step()

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)
        self._steps.step()

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._steps.step()

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self._steps.step()

    def sync(self, folder: Path) -> None:
        """As `SteppedDisk.sync`."""


class Full(Steps):
    """There is no space from the step `at` on; `late`: what is renamed is, before that is noticed."""

    def __init__(self, at: int = 0, *, late: bool = False) -> None:
        super().__init__(at)
        self.late = late

    @property
    def full(self) -> bool:
        return 0 < self.at <= self.count

    def step(self) -> None:
        """One that needs no space."""
        self.count += 1

    def need(self) -> None:
        self.count += 1
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullDisk(SteppedAfter):
    def __init__(self, steps: Full) -> None:
        super().__init__(steps)
        self._full = steps

    def create(self, path: Path, content: bytes) -> None:
        with path.open("xb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            self._full.need()
            file.write(content[len(content) // 2 :])

    def rename(self, source: Path, target: Path) -> None:
        if not self._full.late:
            self._full.need()
        source.rename(target)
        if self._full.late:
            self._full.need()

    def unlink(self, path: Path) -> None:
        """Needs no space."""
        path.unlink(missing_ok=True)

    def mkdir(self, path: Path) -> None:
        if not path.is_dir():
            self._full.need()
        path.mkdir(parents=True, exist_ok=True)


class SteppedOs:
    """`os` as the store uses it: one step before whatever changes something; with `looks`, before each look at a file too."""

    def __init__(self, steps: Steps, *, looks: bool = False) -> None:
        self._steps, self._looks = steps, looks

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.stepped(real) if name in ("rename", "replace", "link", "unlink") else real

    def stepped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **rest: Any) -> Any:
            self._steps.step()
            return real(*args, **rest)

        return step

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_EXCL or self._looks:
            self._steps.step()
        return os.open(path, flags, mode, dir_fd=dir_fd)

    def mkdir(self, name: str, mode: int, *, dir_fd: int) -> None:
        if name not in os.listdir(dir_fd):
            self._steps.step()
        os.mkdir(name, mode, dir_fd=dir_fd)

    def fsync(self, fd: int) -> None:
        """As `SteppedDisk.sync`."""


class FullOs(SteppedOs):
    def __init__(self, steps: Full) -> None:
        super().__init__(steps)
        self._full = steps

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.needing(real) if name in ("rename", "replace", "link") else real

    def needing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **rest: Any) -> Any:
            if not self._full.late:
                self._full.need()
            done = real(*args, **rest)
            if self._full.late:
                self._full.need()
            return done

        return step

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_EXCL:
            self._full.need()
        return os.open(path, flags, mode, dir_fd=dir_fd)

    def mkdir(self, name: str, mode: int, *, dir_fd: int) -> None:
        if name not in os.listdir(dir_fd):
            self._full.need()
        os.mkdir(name, mode, dir_fd=dir_fd)

    def fsync(self, fd: int) -> None:
        self._full.need()


@contextmanager
def stepped_store(steps: Steps, *, looks: bool = False) -> Iterator[None]:
    system = FullOs(steps) if isinstance(steps, Full) else SteppedOs(steps, looks=looks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_files, "os", system)
        patch.setattr(store_files, "exchange", system.stepped(store_files.exchange))
        patch.setattr(store_module, "os", system)
        yield


class AtOnce(ThreadPoolExecutor):
    """What is to be done in a thread is done where it is asked for: the same steps in the same order each time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **rest: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **rest))
        except BaseException as error:  # noqa: BLE001 as an executor does: whoever waits for it gets it
            future.set_exception(error)
        return future


class Watched(Steps):
    """Nobody dies: `before` is called before each step."""

    def __init__(self, before: Callable[[int], None]) -> None:
        super().__init__()
        self._before = before

    def step(self) -> None:
        self.count += 1
        self._before(self.count)


@dataclass(frozen=True, slots=True)
class Image:
    """All that lies in a folder: of each file every name that it has, and its content."""

    folders: tuple[Path, ...]
    files: tuple[tuple[tuple[Path, ...], bytes], ...]

    @classmethod
    def of(cls, root: Path) -> Image:
        folders, names, contents = list[Path](), dict[int, list[Path]](), dict[int, bytes]()
        for place, _, files in os.walk(root):
            folders.append(Path(place).relative_to(root))
            for name in files:
                path = Path(place, name)
                inode = path.stat().st_ino
                names.setdefault(inode, []).append(path.relative_to(root))
                contents[inode] = path.read_bytes()
        return cls(tuple(folders), tuple((tuple(names[inode]), contents[inode]) for inode in names))

    def restore(self, root: Path) -> None:
        for folder in self.folders:
            (root / folder).mkdir(exist_ok=True)
        for (first, *others), content in self.files:
            (root / first).write_bytes(content)
            for other in others:
                (root / other).hardlink_to(root / first)
