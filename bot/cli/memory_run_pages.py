"""What memory runs did, a line each, for whoever asked for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cli.terminal import one_line, table
from telemetry.actionbar import counts

Result = Mapping[str, Any]

WORDS = {"completed": "done", "skipped": "nothing to do", "failed": "failed", "cancelled": "cancelled"}
SKIPS = {
    "no_staging": "no candidate waits",
    "no_valid_staging": "what waits is no candidate",
    "already_running": "another run is under way",
}
# One, and several.
DISPOSITIONS = {
    "applied": ("adopted", "adopted"),
    "duplicate": ("duplicate", "duplicates"),
    "already_covered": ("already covered", "already covered"),
    "discarded": ("discarded", "discarded"),
    "deferred": ("deferred", "deferred"),
}


def extracted(results: Sequence[Result]) -> str:
    told = _told(results)
    if not told:
        return "Nothing to read: no session has said anything yet."
    rows = [(WORDS[result["status"]], one_line(result["session_id"])[:8], _read(result)) for result in told]
    staged = sum(len(result["staged_ids"]) for result in told)
    return "\n".join([table([("RUN", "SESSION", "WHAT"), *rows]), f"{staged} candidates are staged by this."])


def _read(result: Result) -> str:
    first, last = result["range"] or (None, None)
    where = f"entries {first} to {last}: " if first else ""
    staged = f"staged {len(result['staged_ids'])}" if result["staged_ids"] else str(result["reason"]).replace("_", " ")
    return f"{_earlier(result)}{where}{staged}{_detail(result)}"


def consolidated(results: Sequence[Result]) -> str:
    rows = [(WORDS[result["status"]], one_line(result["work"]["scope"]) or "-", _worked(result)) for result in _told(results)]
    return table([("RUN", "SCOPE", "WHAT"), *rows])


def _worked(result: Result) -> str:
    reason = str(result["reason"])
    done = counts(0, result["work"]["ops"]) if result["status"] == "completed" else []
    said = ", ".join(done) or SKIPS.get(reason, reason.replace("_", " "))
    return _earlier(result) + "; ".join([f"{said}{_detail(result)}", *_candidates(result["work"]), *_invalid(result["work"])])


def _candidates(work: Result) -> list[str]:
    """What became of each; of a run that tells of none, how many it had."""
    settled = [f"{n} {words[n > 1]}" for one, words in DISPOSITIONS.items() if (n := work["dispositions"].get(one, 0))]
    if settled:
        return [", ".join(settled)]
    return [f"it had {_many(work['staging_count'], 'candidate')}"] if work["staging_count"] else []


def _invalid(work: Result) -> list[str]:
    count = work["invalid_count"]
    return [f"{_many(count, 'file')} put aside as no candidate"] if count else []


def _told(results: Sequence[Result]) -> Sequence[Result]:
    """Skips only where there is nothing else."""
    return [result for result in results if result["status"] != "skipped"] or results


def _earlier(result: Result) -> str:
    return "an earlier run that was cut off: " if result.get("recovered") else ""


def _detail(result: Result) -> str:
    return f" ({one_line(result['detail'])})" if result["detail"] else ""


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
