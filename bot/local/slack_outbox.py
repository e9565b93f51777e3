"""Events on their way to the bot, on disk until they are acknowledged or given up.

The workspace may live in the bot's own process: without this a mention that was said just before a kill would be lost,
which Slack does not do. Events that wait longer than `KEEP_SECONDS` over a restart are not delivered any more: an answer
to yesterday's question would surprise people.
"""

from __future__ import annotations

from pathlib import Path

from bot.local.slack_journal import Journal
from bot.local.slack_records import Clock, Json

FILE_NAME = "pending.jsonl"
KEEP_SECONDS = 600.0  # Slack's last redelivery comes about six minutes after the first
COMPACT_BYTES = 256 * 1024


class Outbox:
    def __init__(self, folder: Path, *, clock: Clock) -> None:
        self._clock = clock
        self._journal = Journal(folder / FILE_NAME)
        self._pending: dict[str, Json] = {}
        for record in self._journal.records:
            self._replay(record, now=clock())
        self._journal.records.clear()
        self._compact()

    @property
    def pending(self) -> list[Json]:
        """Payloads in the order in which they happened."""
        return list(self._pending.values())

    def put(self, payload: Json) -> None:
        self._journal.append({"kind": "event", "at": self._clock(), "payload": payload})
        self._pending[payload["event_id"]] = payload

    def done(self, payload: Json) -> None:
        if self._pending.pop(payload.get("event_id", ""), None) is not None:
            self._journal.append({"kind": "done", "id": payload["event_id"]})
            self._compact()

    def close(self) -> None:
        self._journal.close()

    def _replay(self, record: Json, *, now: float) -> None:
        match record:
            case {"kind": "event", "at": float() | int() as at, "payload": dict(payload)} if now - at <= KEEP_SECONDS:
                self._pending[payload["event_id"]] = payload
            case {"kind": "done", "id": str(event_id)}:
                self._pending.pop(event_id, None)

    def _compact(self) -> None:
        if not self._pending and self._journal.size > COMPACT_BYTES:
            self._journal.reset()
