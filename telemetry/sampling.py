"""The sampler around the configured one: what it would drop is recorded all the same, for the sinks on this machine.

What must stay true: what leaves the machine is what the configured sampler took, and a span that it did not take is as
whole as any other. (The SDK's own sampler for this passes on a dropped span without the attributes that it began with.)
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


class RecordAll(Sampler):
    def __init__(self, configured: Sampler) -> None:
        self._configured = configured

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        result = self._configured.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
        if result.decision is not Decision.DROP:
            return result
        kept = dict(attributes or {})
        kept.update(result.attributes or {})
        return SamplingResult(Decision.RECORD_ONLY, kept, result.trace_state)

    def get_description(self) -> str:
        return f"RecordAll{{{self._configured.get_description()}}}"
