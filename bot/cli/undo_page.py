"""What taking a run back does, or did, for a terminal and as JSON: each file, what of its text changes, what is in the way.

What must stay true: it only reads; whatever is in the way is named together with what a person can do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bot.explain.wrapping import whole, wrap
from memory.consolidation.journal import Change, Done, Journals, Manifest
from memory.consolidation.undo import Undo
from memory.disk import Disk
from memory.records import sha256
from memory.store import Store, Stored

UNWRAPPED = 1_000_000
MOST_DIFF_LINES = 24  # of a file; a longer diff is counted
RESTORED, REMOVED, PUT_BACK = "restored", "removed", "put_back"
WOULD = {RESTORED: "would be restored", REMOVED: "would be removed", PUT_BACK: "would be put back"}


class LookedAt:
    """A plan beside the files as they are."""

    def __init__(self, insomnia: Path, plan: Undo) -> None:
        self._insomnia, self._plan = insomnia, plan
        self._now = Store(insomnia).view().stored
        self._journals = Journals(insomnia / "memory", disk=Disk())

    def page(self, *, width: int) -> Iterator[str]:
        plan = self._plan
        yield f"Run {plan.of} cannot be taken back." if plan.conflicts else f"Run {plan.of} would be taken back:"
        yield ""
        for change in plan.changes:
            mark = "  (but it was changed since)" if change.path in plan.conflicts else ""
            yield f"{WOULD[_what(change)]}  {change.path}{mark}"
            yield from self._difference(change)
        if plan.conflicts:
            yield ""
            yield from self.conflicts(width=width)

    def conflicts(self, *, width: int) -> Iterator[str]:
        """What is in the way, and what to do; nothing is taken back as long as one is there."""
        for change in self._plan.changes:
            if change.path in self._plan.conflicts:
                yield from wrap(f"{change.path}: {self._remedy(change)}", width, label="  ", indent=4)

    def as_json(self) -> Mapping[str, Any]:
        plan = self._plan
        return {
            "of": plan.of,
            "run_id": None,
            "done": False,
            "files": [
                {
                    "path": change.path,
                    "what": _what(change),
                    "before_sha256": change.before_sha256 or None,
                    "after_sha256": change.after_sha256 or None,
                    "diff": self._diff(change),
                }
                for change in plan.changes
            ],
            "conflicts": [
                {"path": change.path, "remedy": "".join(wrap(self._remedy(change), UNWRAPPED))}
                for change in plan.changes
                if change.path in plan.conflicts
            ],
        }

    def _difference(self, change: Change) -> Iterator[str]:
        diff = self._diff(change)
        if len(diff) <= MOST_DIFF_LINES:
            yield from (f"    {line}" for line in diff)
            return
        more, less = (sum(line.startswith(sign) for line in diff) for sign in "+-")
        yield f"    {more} lines come, {less} go; see them all: --json"

    def _diff(self, change: Change) -> list[str]:
        """Unified, without the names."""
        now = self._stored(change)
        before, after = (now.text if now else "").splitlines(), (change.after or "").splitlines()
        return list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]

    def _stored(self, change: Change) -> Stored | None:
        return self._now.get(change.key)

    def _remedy(self, change: Change) -> str:
        now, old = self._stored(change), self._old_text(change)
        if later := self._later(change, now.sha256 if now else ""):
            return f"run {later} changed it since; take that one back first: {whole(f'insomnia memory undo {later}')}"
        why = "somebody changed it since by hand, and that stays" if now else "somebody deleted, moved or replaced it since"
        if change.after is None:
            return f"{why}; the run made this file: delete it by hand if nobody wants it"
        where = f": the old text is in .insomnia/{old}" if old else ""
        return f"{why}; copy back by hand what is wanted of it{where}"

    def _later(self, change: Change, sha256_now: str) -> str:
        """The run that left the file as it is now, if it is another one than that which is to be taken back."""
        touched = [(each.run_id, done) for each in self._journals.manifests() for done in each.applied if done.path == change.path]
        run_id, last = touched[-1]
        return run_id if run_id != self._plan.of and last.after_sha256 == sha256_now else ""

    def _old_text(self, change: Change) -> str:
        folder = self._journals.trash_of(self._plan.of) / str(change.kind)
        paths = sorted(folder.glob(f"{change.slug}*.md")) if folder.is_dir() else []
        found = (path for path in paths if path.is_file() and sha256(path.read_bytes()) == change.after_sha256)
        return next((str(path.relative_to(self._insomnia)) for path in found), "")


def _what(change: Change | Done) -> str:
    if not change.after_sha256:
        return REMOVED
    return RESTORED if change.before_sha256 else PUT_BACK


def done_page(of: str, manifest: Manifest, *, width: int) -> Iterator[str]:
    yield f"Run {of} was taken back, by {manifest.run_id}."
    yield ""
    for each in manifest.done:
        yield f"{_what(each).replace('_', ' '):8}  {each.path}" if each.applied else f"not done  {each.path}: somebody changed it meanwhile"
    yield ""
    yield from wrap(f"To have it again: {whole(f'insomnia memory undo {manifest.run_id}')}", width)
    yield from wrap(f"The candidates that the run had settled stay settled: {whole('insomnia memory candidates')}", width)


def done_as_json(of: str, manifest: Manifest) -> Mapping[str, Any]:
    return {
        "of": of,
        "run_id": manifest.run_id,
        "done": len(manifest.applied) == len(manifest.done),
        "files": [
            {
                "path": each.path,
                "what": _what(each),
                "before_sha256": each.before_sha256 or None,
                "after_sha256": each.after_sha256 or None,
                "applied": each.applied,
            }
            for each in manifest.done
        ],
        "conflicts": [],
    }
