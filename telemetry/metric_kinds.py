"""What a metric and a label are: their kinds, where a label's values come from, how a name is called on the wire.

What must stay true: a label has few values, all known before the first event or cut off at a fixed number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

OTHER = "other"


class Kind(StrEnum):
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Source(Enum):
    """Where a label's values come from."""

    CLOSED = auto()
    ROUTES = auto()
    ACCOUNTS = auto()
    FIRST_SEEN = auto()


MAX_FIRST_SEEN = 32  # distinct values of a FIRST_SEEN label; a bot knows a handful of models, a bug may invent thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """`fallback` stands for every value outside the set. An optional label is left out where it says nothing.

    `most`: how many distinct values a FIRST_SEEN label may take.
    """

    key: str
    values: tuple[str, ...] = ()
    source: Source = Source.CLOSED
    most: int = MAX_FIRST_SEEN
    fallback: str = OTHER
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    observed: bool = False  # a counter whose owner keeps the sum; it is asked for it at each export

    @property
    def otlp_name(self) -> str:
        return self.name

    @property
    def prometheus_name(self) -> str:
        """As both the OTLP receiver of Prometheus and the Python exporter spell it; a histogram's series add `_bucket` etc."""
        unit = "" if self.unit.startswith("{") else f"_{_UNIT_WORDS.get(self.unit, self.unit)}"
        return self.name.replace(".", "_") + unit + ("_total" if self.kind is Kind.COUNTER else "")


_UNIT_WORDS = {"s": "seconds", "By": "bytes"}
