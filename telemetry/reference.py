"""`python -m telemetry.reference > docs/telemetry.md`: every span, metric and log event, printed from the tables.

The committed page is compared with this in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from opentelemetry.trace import SpanKind

from telemetry.jsonl_fields import COMMON
from telemetry.jsonl_fields import FIELDS as LINE_NAMES
from telemetry.metric_kinds import Kind, Label, Metric, Source
from telemetry.metric_names import METRICS
from telemetry.names import Attr, Event, SpanName
from telemetry.reference_tables import ANYWHERE, EVENTS, FIELDS, RESOURCE, SPANS
from telemetry.spans import KINDS

HEAD = """\
# Telemetry reference

Written by `python -m telemetry.reference > docs/telemetry.md`; a change by hand would not survive.

What leaves the machine is decided by the standard `OTEL_*` variables: nothing without `OTEL_EXPORTER_OTLP_ENDPOINT`
(or the one of a signal), everything over OTLP with it. The log files in `.insomnia` and what `insomnia status` reads stay
as they are, with any sampler and with `OTEL_SDK_DISABLED=true`.

No span, metric or log event holds text of a message, a prompt or a note. The one exception is the `query` of
`record_usage`, redacted, in the local log alone. Ids are on spans and log events, never on metric labels."""


def reference() -> str:
    return "\n".join([HEAD, *_spans(), *_metrics(), *_events()]) + "\n"


def _spans() -> Iterator[str]:
    yield "\n## Resource\n"
    yield from _table(("attribute", "meaning"), ((_code(attr), attr.meaning) for attr in RESOURCE))
    yield "\n## Spans\n"
    yield (
        "`session.reset` and `thread.*` stand in the trace of the reply that met them. An attribute is left out where it says nothing.\n"
        "On every span that failed or was cancelled there is also:\n"
    )
    yield from _table(("attribute", "meaning"), ((_code(attr), attr.meaning) for attr in ANYWHERE))
    for name in SpanName:
        yield f"\n### `{name.value}`\n\n{_sentence(name.meaning)} Kind: {KINDS.get(name, SpanKind.INTERNAL).name}.\n"
        yield from _table(("attribute", "unit", "meaning"), ((_code(attr), attr.unit, attr.meaning) for attr in SPANS[name]))


def _metrics() -> Iterator[str]:
    yield "\n## Metrics\n"
    yield (
        "The first name is that of OTLP, the second that of Prometheus, whether it scrapes or is sent OTLP. A histogram's series\n"
        "there end in `_bucket`, `_sum`, `_count`, and dots in labels become `_`. Counters with known labels start at 0.\n"
    )
    header = ("OTLP", "Prometheus", "kind, unit", "labels", "meaning")
    yield from _table(header, map(_metric, METRICS))
    yield "\n### Labels\n"
    yield from _table(("label", "values", "on"), _labels())
    yield "\n### Buckets\n"
    buckets: dict[tuple[float, ...], list[str]] = {}
    for metric in METRICS:
        if metric.kind is Kind.HISTOGRAM:
            buckets.setdefault(metric.buckets, []).append(f"`{metric.name}`")
    rows = ((", ".join(f"{bound:.10g}" for bound in bounds), ", ".join(names)) for bounds, names in buckets.items())
    yield from _table(("upper bounds", "of"), rows)


def _metric(metric: Metric) -> Sequence[str]:
    labels = ", ".join(f"`{label.key}`" + (" (optional)" if label.optional else "") for label in metric.labels)
    return f"`{metric.name}`", f"`{metric.prometheus_name}`", f"{metric.kind.value}, `{metric.unit}`", labels, metric.description


def _labels() -> Iterator[Sequence[str]]:
    on: dict[Label, list[str]] = {}
    for metric in METRICS:
        for label in metric.labels:
            on.setdefault(label, []).append(f"`{metric.name}`")
    for label in sorted(on, key=lambda label: label.key):
        yield f"`{label.key}`", _values(label), ", ".join(on[label])


def _values(label: Label) -> str:
    if label.source is Source.ROUTES:
        return f"the configured routes; any other: `{label.fallback}`"
    if label.source is Source.ACCOUNTS:
        return f"the configured accounts; any other: `{label.fallback}`"
    if label.source is Source.FIRST_SEEN:
        return f"the first {label.most} that occur; any other: `{label.fallback}`"
    return ", ".join(f"`{value}`" for value in label.values)


def _events() -> Iterator[str]:
    yield "\n## Log events\n"
    yield (
        "Each is an OpenTelemetry log record with this event name, and one line of JSON in the local files. The body opens with the\n"
        "event's name, since some log stores lose it. In the files each line has, besides its own fields:\n"
    )
    yield from _table(("field", "meaning"), ((f"`{name}`", meaning) for name, meaning in COMMON.items()))
    for event in Event:
        yield f"\n### `{event.value}`\n\n{_sentence(event.meaning)} Stream: {event.stream.value}.\n"
        if event in EVENTS:
            rows = ((_code(attr), f"`{LINE_NAMES[attr]}`", attr.unit, attr.meaning) for attr in EVENTS[event])
            yield from _table(("attribute", "in the line", "unit", "meaning"), rows)
        else:
            yield from _table(("field", "meaning"), ((f"`{name}`", meaning) for name, meaning in FIELDS[event].items()))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _code(attr: Attr) -> str:
    return f"`{attr.value}`"


def _sentence(meaning: str) -> str:
    return f"{meaning[0].upper()}{meaning[1:]}."


if __name__ == "__main__":
    print(reference(), end="")
