"""The records on disk: the only way in which the program changes one.

What must stay true: a record is changed only if it still is what the caller read (compare-and-set on hashes), so a person's
edit wins; a change is whole and on the disk, or not there at all; what is removed lies in `_trash/<run_id>/`; one change at a
time across processes (`flock`, whose file is never unlinked and whose content proves nothing).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory import store_files
from memory.disk import NotOurs
from memory.lint_rules import Rule
from memory.records import Record, RecordKind, is_slug, path_of, render, sha256
from memory.store_known import GONE, Known, KnownHashes
from memory.store_scan import SUFFIX, folder_of, look, stored_of
from memory.store_view import MAX_FILE_BYTES, Stored, StoreView, Stray
from telemetry.memory_events import RecordOp

__all__ = ["Store", "StoreBusy", "StoreConflict", "StoreRefused", "StoreView", "Stored", "Stray", "Unaudited", "Written"]

LOCK = "store.lock"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# One change takes milliseconds; on a contended disk three syncs were measured at 27 ms each.
LOCK_SECONDS, LOCK_PAUSE_SECONDS = 5.0, 0.005


class StoreConflict(Exception):
    """The record is not what the caller read. `found` None: it is not there; `expected` None: it was to be new."""

    def __init__(self, kind: RecordKind, slug: str, *, expected: str | None, found: str | None) -> None:
        what = "is not there any more" if found is None else "is there already" if expected is None else "was changed meanwhile"
        super().__init__(f"{kind}/{slug} {what}; read it again, and repeat what you want with what it says now")
        self.kind, self.slug, self.expected, self.found = kind, slug, expected, found


class StoreRefused(Exception):
    """Such a file is never written or replaced; `rule` says which rule forbids it."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class StoreBusy(Exception):
    """Another process has held the store for LOCK_SECONDS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A change that is on the disk. Hashes are empty where there was, or is, no file; `path` below `.insomnia`.
    `unaudited`: what it replaced was a person's. `trashed`: where the old file, or its copy, lies, below `.insomnia`.
    """

    kind: RecordKind
    slug: str
    path: str
    before_sha256: str
    after_sha256: str
    unaudited: bool = False
    trashed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unaudited:
    """A record that somebody wrote, changed or deleted outside the tools."""

    kind: RecordKind
    slug: str
    path: str
    op: RecordOp
    before_sha256: str
    after_sha256: str


class Store:
    """`root` is `.insomnia`. Every method may raise OSError (NotOurs where one of its folders is a link) and StoreBusy, and leaves the
    records as they were then.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known = KnownHashes(root)

    def view(self) -> StoreView:
        return self._look()[0]

    def last_known(self) -> dict[str, str]:
        """By path below `.insomnia`: the hash that a record had when it was last written or noticed."""
        return {path: each.sha256 for path, each in self._known.read().items() if each.sha256 != GONE}

    def find(self, kind: RecordKind, slug: str) -> Stored | None:
        """One record as it is now. None: there is none, or something else than a file."""
        with self._folder(*folder_of(kind)) as at, contextlib.suppress(store_files.NotPlain):
            content = store_files.read(at, _name(slug))
            return None if content is None else stored_of(kind, slug, content, lambda path, hashed: True)
        return None

    def write(self, record: Record, expected_sha256: str | None, *, run_id: str = "") -> Written:
        """As `write_file`."""
        return self.write_file(record.kind, record.slug, render(record).encode(), expected_sha256, run_id=run_id)

    def write_file(self, kind: RecordKind, slug: str, content: bytes, expected_sha256: str | None, *, run_id: str = "") -> Written:
        """`expected_sha256`: of the file that it replaces, None for a new one; with a `run_id` a copy of that goes to
        `_trash/<run_id>/`. Raises StoreConflict, StoreRefused.
        """
        if len(content) > MAX_FILE_BYTES:
            raise StoreRefused(Rule.FILE_LONG, f"{kind}/{slug} would have more than {MAX_FILE_BYTES} bytes")
        name, path = _name(slug), path_of(kind, slug)
        with self._lock(), self._folder(*folder_of(kind)) as at:
            self._expect(at, kind, slug, expected_sha256)
            unaudited = self._is_unaudited(path, expected_sha256 or GONE)
            trashed = self._keep(at, kind, slug, run_id) if run_id and expected_sha256 else ""
            self._known.announce(path, sha256(content), now=expected_sha256 or GONE)
            temporary = store_files.write_temporary(at, content)
            try:
                # Once more: writing and syncing took time enough for somebody to save the file in an editor.
                self._expect(at, kind, slug, expected_sha256)
                if not _put(at, temporary, name, expected_sha256, ours=sha256(content)):
                    raise StoreConflict(kind, slug, expected=expected_sha256, found=self._hash(at, kind, slug))
            finally:
                store_files.remove_quietly(at, temporary)
            os.fsync(at)
            self._known.settle(path, sha256(content))
        return Written(
            kind=kind,
            slug=slug,
            path=path,
            before_sha256=expected_sha256 or GONE,
            after_sha256=sha256(content),
            unaudited=unaudited,
            trashed=trashed,
        )

    def remove(self, kind: RecordKind, slug: str, expected_sha256: str, run_id: str) -> Written:
        """Moves the file to `_trash/<run_id>/`. Raises StoreConflict, StoreRefused."""
        name, path, trash = _name(slug), path_of(kind, slug), _trash(kind, run_id)
        with self._lock(), self._folder(*folder_of(kind)) as at, self._folder(*trash) as bin_at:
            self._expect(at, kind, slug, expected_sha256)
            unaudited = self._is_unaudited(path, expected_sha256)
            self._known.announce(path, GONE, now=expected_sha256)
            there = _free_name(bin_at, slug)
            try:
                os.rename(name, there, src_dir_fd=at, dst_dir_fd=bin_at)
            except FileNotFoundError as error:
                raise StoreConflict(kind, slug, expected=expected_sha256, found=None) from error
            if not _holds(bin_at, there, expected_sha256):
                _give_back(at, name, bin_at, there)
                raise StoreConflict(kind, slug, expected=expected_sha256, found=self._hash(at, kind, slug))
            os.fsync(bin_at)
            os.fsync(at)
            self._known.settle(path, GONE)
        trashed = "/".join((*trash, there))
        return Written(
            kind=kind, slug=slug, path=path, before_sha256=expected_sha256, after_sha256=GONE, unaudited=unaudited, trashed=trashed
        )

    def _keep(self, at: int, kind: RecordKind, slug: str, run_id: str) -> str:
        """A copy, since an editor may go on writing into the file itself. Where it lies, below `.insomnia`."""
        content, trash = self._read(at, kind, slug) or b"", _trash(kind, run_id)
        with self._folder(*trash) as bin_at:
            store_files.sweep(bin_at)
            kept = next((other for other in sorted(os.listdir(bin_at)) if _holds(bin_at, other, sha256(content))), "")
            if not kept:  # else the same run kept it before it died
                kept = _free_name(bin_at, slug)
                temporary = store_files.write_temporary(bin_at, content)
                os.rename(temporary, kept, src_dir_fd=bin_at, dst_dir_fd=bin_at)
                os.fsync(bin_at)
        return "/".join((*trash, kept))

    def unaudited(self) -> tuple[Unaudited, ...]:
        """What was changed outside the tools and not noticed yet; in the order of paths."""
        view, known = self._look()
        stored = {each.path: each for each in view.stored.values()}
        changes = []
        for path in sorted(stored.keys() | known.keys()):
            now = stored[path].sha256 if path in stored else GONE
            before = known.get(path, Known(GONE))
            if not before.accepts(now) and (key := _key_of(path)):
                op = RecordOp.WRITE if before.sha256 == GONE else RecordOp.DELETE if now == GONE else RecordOp.EDIT
                kind, slug = key
                changes.append(Unaudited(kind=kind, slug=slug, path=path, op=op, before_sha256=before.sha256, after_sha256=now))
        return tuple(changes)

    def notice(self, changes: Sequence[Unaudited]) -> None:
        """Takes what a person did for what is known from now on, so that it is told once. The records stay marked as theirs."""
        if not changes:
            return
        with self._lock():
            known = self._known.read()
            # What a tool has written since is its own again.
            still = [change for change in changes if known.get(change.path, Known(GONE)).sha256 == change.before_sha256]
            self._known.settle_all({change.path: change.after_sha256 for change in still}, by_hand=True)

    def sweep_trash(self, run_id: str) -> None:
        """What a death left half written there."""
        with self._lock():
            for kind in RecordKind:
                names = _trash(kind, run_id)
                with contextlib.suppress(FileNotFoundError, store_files.NotPlain), store_files.directory(self.root, *names) as at:
                    store_files.sweep(at)

    def trashed(self, kind: RecordKind, run_id: str, sha256: str, *, slug: str = "") -> bytes | None:
        """The content of the file of that hash that the run removed or changed; of that slug, where it matters which of two that were
        the same. None: it is not there (any more).
        """
        with contextlib.suppress(FileNotFoundError, store_files.NotPlain), store_files.directory(self.root, *_trash(kind, run_id)) as at:
            names = (name for name in sorted(os.listdir(at)) if not slug or name.startswith(f"{slug}."))
            return next((store_files.read(at, name) for name in names if _holds(at, name, sha256)), None)
        return None

    def sweep(self) -> int:
        """At start: removes what dead writers left half done; how many files. Never a record."""
        swept = 0
        with self._lock():
            for names in (*(folder_of(kind) for kind in RecordKind), ("memory", "_state")):
                with contextlib.suppress(FileNotFoundError, store_files.NotPlain), store_files.directory(self.root, *names) as at:
                    swept += store_files.sweep(at)
        return swept

    def _look(self) -> tuple[StoreView, dict[str, Known]]:
        """Both of one moment: a write between them would look like a person's."""
        with self._lock_to_read():
            known = self._known.read()
            return look(self.root, lambda path, hashed: _is_ours(known.get(path), hashed)), known

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with self._folder("memory", "_state") as at:
            descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=at)
        try:
            _wait_for(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _lock_to_read(self) -> Iterator[None]:
        """Makes nothing: where there is no lock file nothing was ever written, and a workspace may be somebody else's to write."""
        try:
            with store_files.directory(self.root, "memory", "_state") as at:
                descriptor = os.open(LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        except (FileNotFoundError, store_files.NotPlain):
            yield
            return
        try:
            _wait_for(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _folder(self, *names: str) -> Iterator[int]:
        with contextlib.ExitStack() as opened:
            try:
                at = opened.enter_context(store_files.directory(self.root, *names, make=True))
            except store_files.NotPlain as error:
                raise NotOurs(f"{'/'.join(names)} in .insomnia: {error}; put a real directory there, or remove it") from error
            yield at

    def _expect(self, at: int, kind: RecordKind, slug: str, expected: str | None) -> None:
        found = self._hash(at, kind, slug)
        if found != expected:
            raise StoreConflict(kind, slug, expected=expected, found=found)

    def _hash(self, at: int, kind: RecordKind, slug: str) -> str | None:
        content = self._read(at, kind, slug)
        return None if content is None else sha256(content)

    def _read(self, at: int, kind: RecordKind, slug: str) -> bytes | None:
        try:
            return store_files.read(at, _name(slug))
        except store_files.NotPlain as error:
            raise StoreRefused(Rule.NO_PLAIN_FILE, f"{path_of(kind, slug)} is no plain file: {error}") from error

    def _is_unaudited(self, path: str, sha256: str) -> bool:
        return not _is_ours(self._known.read().get(path, Known(GONE)), sha256)


def _name(slug: str) -> str:
    if not is_slug(slug):
        raise StoreRefused(Rule.SLUG, "a slug has small letters, digits and single hyphens, at most 64")
    return f"{slug}{SUFFIX}"


def _trash(kind: RecordKind, run_id: str) -> tuple[str, ...]:
    if not _RUN_ID.fullmatch(run_id):
        raise StoreRefused(Rule.PLACE, "the run's id cannot be the name of a folder")
    return ("memory", "_trash", run_id, str(kind))


def _put(at: int, temporary: str, name: str, expected: str | None, *, ours: str) -> bool:
    """False: somebody saved it, removed it or took its name in the last instant, and theirs stands as they left it."""
    try:
        if expected is None:
            os.link(temporary, name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
        elif not store_files.exchange(at, temporary, name):
            os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
        elif not _holds(at, temporary, expected):
            store_files.exchange(at, temporary, name)
            if not _holds(at, temporary, ours):  # they saved again meanwhile: their last counts
                store_files.exchange(at, temporary, name)
            return False
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def _holds(at: int, name: str, expected_sha256: str) -> bool:
    try:
        return sha256(store_files.read(at, name) or b"") == expected_sha256
    except store_files.NotPlain:
        return False


def _give_back(at: int, name: str, bin_at: int, there: str) -> None:
    """Somebody saved it in the last instant. Where yet another file has taken its place, it stays in the trash."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(there, name, src_dir_fd=bin_at, dst_dir_fd=at, follow_symlinks=False)
        except PermissionError:  # a folder has no second name
            os.rename(there, name, src_dir_fd=bin_at, dst_dir_fd=at)
        else:
            os.unlink(there, dir_fd=bin_at)


def _free_name(at: int, slug: str) -> str:
    """A run may remove a record, and remove it again after somebody brought it back."""
    taken = set(os.listdir(at))
    names = (f"{slug}{suffix}{SUFFIX}" for suffix in ("", *(f".{n}" for n in range(2, len(taken) + 3))))
    return next(name for name in names if name not in taken)


def _is_ours(known: Known | None, sha256: str) -> bool:
    return known is not None and known.accepts(sha256) and not (known.by_hand and sha256 == known.sha256)


def _key_of(path: str) -> tuple[RecordKind, str] | None:
    """None: a line of known.json that no record can have."""
    folder, _, name = path.removesuffix(SUFFIX).rpartition("/")
    kinds = {"/".join(folder_of(kind)): kind for kind in RecordKind}
    return (kinds[folder], name) if folder in kinds and is_slug(name) else None


def _wait_for(descriptor: int, how: int) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise StoreBusy(f"another process has held the memory store for {LOCK_SECONDS:.0f} s; try again, or end it") from error
        time.sleep(LOCK_PAUSE_SECONDS)
