"""The hash of each record as a tool last wrote it (`_state/known.json`): how a change outside the tools is seen.

What must stay true: a write is announced here before it happens and settled after it, so that one cut short by a kill is
never taken for a person's; what a person wrote stays marked until a tool writes the record again. Only hashes, no text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory import store_files
from memory.disk import NotOurs

NAME = "known.json"
VERSION = 1
GONE = ""  # the hash of a record that is not there


@dataclass(frozen=True, slots=True)
class Known:
    """`sha256` as last seen. `announced`: the one that a write is about to make it. `by_hand`: a person's, and told already."""

    sha256: str
    announced: str | None = None
    by_hand: bool = False

    def accepts(self, sha256: str) -> bool:
        return sha256 in (self.sha256, self.announced)


class KnownHashes:
    """Whoever changes it holds the store's lock. A damaged file is as none: every record is then one changed by hand."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self) -> dict[str, Known]:
        """By path below `.insomnia`. Raises OSError."""
        try:
            with store_files.directory(self._root, "memory", "_state") as at:
                content = store_files.read(at, NAME, limit=None)
        except (FileNotFoundError, store_files.NotPlain):
            return {}
        return _loaded(content) if content else {}

    def announce(self, path: str, sha256: str, *, now: str) -> None:
        """`now`: what the record is. Where a write had announced that and died, it is settled by this one."""
        known = self.read()
        before = known.get(path, Known(GONE))
        before = Known(now) if now == before.announced else before
        self._write({**known, path: Known(before.sha256, sha256, before.by_hand)})

    def settle(self, path: str, sha256: str, *, by_hand: bool = False) -> None:
        self.settle_all({path: sha256}, by_hand=by_hand)

    def settle_all(self, hashes: Mapping[str, str], *, by_hand: bool) -> None:
        known = self.read() | {path: Known(sha256, None, by_hand) for path, sha256 in hashes.items()}
        self._write({path: each for path, each in known.items() if each.sha256 != GONE or each.announced})

    def _write(self, known: Mapping[str, Known]) -> None:
        rows = {path: [each.sha256, each.announced, each.by_hand] for path, each in sorted(known.items())}
        content = json.dumps({"v": VERSION, "records": rows}, indent=0) + "\n"
        try:
            with store_files.directory(self._root, "memory", "_state", make=True) as at:
                store_files.replace(at, NAME, content.encode())
        except store_files.NotPlain as error:
            raise NotOurs(f"memory/_state in .insomnia: {error}; put a real directory there") from error


def _loaded(content: bytes) -> dict[str, Known]:
    try:
        read: dict[str, Any] = json.loads(content)
        if read["v"] != VERSION:
            return {}
        return {str(path): _known(*row) for path, row in read["records"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _known(sha256: str, announced: str | None, by_hand: bool) -> Known:
    return Known(str(sha256), None if announced is None else str(announced), bool(by_hand))
