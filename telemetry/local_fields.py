"""What a log record may say on this machine only, and the processor that takes it off what leaves the machine.

The limits of OTEL_* are for what leaves it, too: a line of the local log is whole.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from opentelemetry.sdk._logs import LogRecordLimits, LogRecordProcessor, ReadWriteLogRecord

from telemetry.names import Event

# What somebody searched memory for: the one text of a person or a model that a log has, and only the local one.
LOCAL_FIELDS: dict[str, frozenset[str]] = {Event.RECORD_USAGE.value: frozenset({"query"})}
_NONE = LogRecordLimits.UNSET
NO_LIMITS = LogRecordLimits(
    max_attributes=_NONE, max_attribute_length=_NONE, max_log_record_attributes=_NONE, max_log_record_attribute_length=_NONE
)


class WithoutLocalFields(LogRecordProcessor):
    """In front of an exporter to elsewhere. Others see the record as it was. Reads OTEL_* limits as it is made."""

    def __init__(self, onward: LogRecordProcessor) -> None:
        self._onward, self._limits = onward, LogRecordLimits()

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        local = LOCAL_FIELDS.get(log_record.log_record.event_name or "", frozenset())
        shown = copy.copy(log_record.log_record)
        shown.attributes = {name: value for name, value in (shown.attributes or {}).items() if name not in local}
        self._onward.on_emit(replace(log_record, log_record=shown, limits=self._limits))

    def shutdown(self) -> None:
        self._onward.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._onward.force_flush(timeout_millis))
