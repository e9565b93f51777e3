"""What a log record may say on this machine only, and the processor that takes it off what leaves the machine."""

from __future__ import annotations

import copy
from dataclasses import replace

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord

from telemetry.names import Event

# What somebody searched memory for: the one text of a person or a model that a log has, and only the local one.
LOCAL_FIELDS: dict[str, frozenset[str]] = {Event.RECORD_USAGE.value: frozenset({"query"})}


class WithoutLocalFields(LogRecordProcessor):
    """In front of an exporter to elsewhere. Others see the record as it was."""

    def __init__(self, onward: LogRecordProcessor) -> None:
        self._onward = onward

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        self._onward.on_emit(_without(log_record, LOCAL_FIELDS.get(log_record.log_record.event_name or "", frozenset())))

    def shutdown(self) -> None:
        self._onward.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._onward.force_flush(timeout_millis))


def _without(record: ReadWriteLogRecord, local: frozenset[str]) -> ReadWriteLogRecord:
    attributes = record.log_record.attributes or {}
    if not local & attributes.keys():
        return record
    shown = copy.copy(record.log_record)
    shown.attributes = {name: value for name, value in attributes.items() if name not in local}
    return replace(record, log_record=shown)
