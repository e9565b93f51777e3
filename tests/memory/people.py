"""What people do to the files of a memory, also while a run commits or after it has died."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.records import sha256
from memory.store_known import KnownHashes
from tests.memory.consolidation_claims import tokens
from tests.memory.consolidation_history import History, records

BY_HAND = b"\nThis was written by hand.\n"


@dataclass(frozen=True, slots=True)
class Deed:
    """What is to be at `path` from now on; None: nothing."""

    path: str
    content: bytes | None


Act = Callable[[History], Deed | None]  # None: there was nothing to lay hand on


def committed(insomnia: Path) -> list[dict[str, Any]]:
    """The changes of the run that has begun to commit, and has not ended."""
    journal = insomnia / "memory" / "_state" / "journal.json"
    changes = json.loads(journal.read_bytes())["changes"] if journal.exists() else []
    return [{**each, "path": f"{'' if each['kind'] == 'knowledge' else 'memory/'}{each['kind']}/{each['slug']}.md"} for each in changes]


def _first(history: History, wanted: Callable[[dict[str, Any], str], bool]) -> str | None:
    """`wanted`: of a change, and the hash of what lies there now."""
    now = records(history.insomnia)
    found = (each["path"] for each in committed(history.insomnia) if wanted(each, sha256(now[each["path"]]) if each["path"] in now else ""))
    return next(found, None)


def is_written(change: dict[str, Any], now: str) -> bool:
    return change["after"] is not None and now == sha256(change["after"])


def is_to_change(change: dict[str, Any], now: str) -> bool:
    return change["after"] is not None and now == change["before_sha256"] != ""


def is_to_go(change: dict[str, Any], now: str) -> bool:
    return change["after"] is None and now == change["before_sha256"]


def is_to_come(change: dict[str, Any], now: str) -> bool:
    return change["before_sha256"] == now == ""


def lay_hand_on(history: History, path: str, content: bytes | None, *, in_place: bool = False) -> Deed:
    """As an editor does it that writes a file anew, or into the one that is there."""
    there = records(history.insomnia)
    elsewhere = {token for other, text in there.items() if other != path for token in tokens(text)}
    history.touched |= {*tokens(there.get(path, b""))} - elsewhere
    history.by_hand = True
    file = history.insomnia / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not in_place:
        file.unlink(missing_ok=True)
    if content is not None:
        file.write_bytes(content)
    return Deed(path, content)


def _edits(history: History, path: str | None) -> Deed | None:
    return lay_hand_on(history, path, records(history.insomnia)[path] + BY_HAND) if path else None


def _deletes(history: History, path: str | None) -> Deed | None:
    return lay_hand_on(history, path, None) if path else None


def edits_what_was_written(history: History) -> Deed | None:
    return _edits(history, _first(history, is_written))


def edits_what_is_to_change(history: History) -> Deed | None:
    return _edits(history, _first(history, is_to_change))


def edits_what_is_to_go(history: History) -> Deed | None:
    """What it was merged into holds the same."""
    path = _first(history, is_to_go)
    history.touched |= {*tokens(records(history.insomnia)[path])} if path else set()
    return _edits(history, path)


def deletes_what_was_written(history: History) -> Deed | None:
    """If the store had come to know that it was: else nobody can tell it from what was never written, and it is written again."""
    known = KnownHashes(history.insomnia).read()
    settled = {path: each.sha256 for path, each in known.items()}
    return _deletes(history, _first(history, lambda change, now: is_written(change, now) and settled.get(change["path"]) == now))


def deletes_what_is_to_change(history: History) -> Deed | None:
    return _deletes(history, _first(history, is_to_change))


def deletes_what_is_to_go(history: History) -> Deed | None:
    return _deletes(history, _first(history, is_to_go))


def takes_a_name(history: History) -> Deed | None:
    path = _first(history, is_to_come)
    return lay_hand_on(history, path, BY_HAND) if path else None


ACTS: tuple[Act, ...] = (
    edits_what_was_written,
    edits_what_is_to_change,
    edits_what_is_to_go,
    deletes_what_was_written,
    deletes_what_is_to_change,
    deletes_what_is_to_go,
    takes_a_name,
)


# -- anything, to any file -----------------------------------------------------------------------------------------------
def does_something(history: History, chance: random.Random, outside: Path) -> Deed | None:
    """To a file that the run is about to change, or has changed, or to any other. `outside`: where links lead."""
    there = sorted(path for path in records(history.insomnia) if not (history.insomnia / path).is_symlink())
    planned = [each["path"] for each in committed(history.insomnia) if each["path"] in there]
    candidates = planned if planned and chance.random() < 0.8 else there
    if not candidates:
        return None
    path = chance.choice(candidates)
    text = records(history.insomnia)[path]
    history.touched |= {*tokens(text)} if path in planned else set()  # half of a merge may stay where it was
    match chance.choice(("edit", "edit in place", "delete", "rename", "link", "break")):
        case "edit":
            return lay_hand_on(history, path, text + BY_HAND)
        case "edit in place":
            return lay_hand_on(history, path, text + BY_HAND, in_place=True)
        case "delete":
            return lay_hand_on(history, path, None)
        case "rename":
            lay_hand_on(history, path, None)
            return lay_hand_on(history, str(Path(path).with_name("by-hand.md")), text)
        case "link":
            deed = lay_hand_on(history, path, BY_HAND)
            outside.write_bytes(BY_HAND)
            (history.insomnia / path).unlink()
            (history.insomnia / path).symlink_to(outside)
            return deed
        case _:
            return lay_hand_on(history, path, b"---\ntitle: [\n" + text)
