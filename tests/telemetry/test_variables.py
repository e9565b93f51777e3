"""Wrong OTEL_* values are said and gone before the SDK sees them: over some it would raise as it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.variables import mend_variables

ROOT = Path(__file__).parents[2]
LIMITS = ("OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
STARTS = """
import os, sys
from telemetry.variables import mend_variables
assert "opentelemetry" not in sys.modules
print(*mend_variables(os.environ), sep="\\n", file=sys.stderr)
from telemetry.setup import TelemetrySettings, telemetry
from telemetry.names import SpanName
from opentelemetry.sdk.trace import SpanProcessor
class Kept(SpanProcessor):
    def on_end(self, span): print(span.name)
with telemetry(TelemetrySettings(span_processors=(Kept(),))) as emit, emit.span(SpanName.CHAT): pass
"""


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "\u0663"])
def test_a_limit_that_is_no_number_goes_and_is_named(value: str) -> None:
    environ = dict.fromkeys(LIMITS, value)

    told = mend_variables(environ)

    assert environ == {}
    assert told == [f"{name}={value} is not a number, so there is no such limit" for name in LIMITS]


@pytest.mark.parametrize("value", ["0", "128", " 7 "])
def test_numbers_stay_and_so_does_what_is_not_ours(value: str) -> None:
    environ = {**dict.fromkeys(LIMITS, value), "OTEL_SERVICE_NAME": "many", "RATE_LIMIT": "many"}

    assert mend_variables(environ) == [] and len(environ) == 5


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_what_is_blank_counts_as_not_set(blank: str) -> None:
    environ = dict.fromkeys((*LIMITS, HEADERS, "OTEL_TRACES_SAMPLER", "OTEL_METRICS_EXEMPLAR_FILTER", "OTEL_PYTHON_CONTEXT"), blank)

    assert mend_variables(environ) == [] and environ == {}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OTEL_TRACES_SAMPLER", "bogus", "parentbased_always_on is used: every trace is sent"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "bogus", "trace_based is used"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon", "the default is used"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "the default is used"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "brotli", "nothing is compressed"),
        ("OTEL_PYTHON_CONTEXT", "bogus", "the SDK's own is used"),
        ("OTEL_PYTHON_METER_PROVIDER", "bogus", "the SDK's own is used"),
    ],
)
def test_a_value_that_there_is_not_is_named_with_what_is_used_instead(name: str, value: str, told: str) -> None:
    environ = {name: value}

    (sentence,) = mend_variables(environ)

    assert environ == {}
    assert sentence.startswith(f"{name}={value} ") and sentence.endswith(told)


@pytest.mark.parametrize(
    ("ratio", "used", "sentences"), [("0.25", "0.25", 0), ("2", "1.0", 1), ("nan", "1.0", 1), ("half", "1.0", 1), ("", "1.0", 0)]
)
def test_a_ratio_is_a_number_from_0_to_1(ratio: str, used: str, sentences: int) -> None:
    environ = {"OTEL_TRACES_SAMPLER": "TraceIDRatio", "OTEL_TRACES_SAMPLER_ARG": ratio}

    assert len(mend_variables(environ)) == sentences
    assert environ == {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": used}


@pytest.mark.parametrize("wrong", ["Bearer SECRET", "=SECRET", "a b=SECRET", 'x=SEC"RET', "authorization=SECRET%0d%0aX:1"])
def test_of_a_header_that_is_none_only_the_place_is_told(wrong: str) -> None:
    environ = {HEADERS: f"x-org=acme,{wrong}", f"{HEADERS[:19]}TRACES_HEADERS": wrong}

    told = mend_variables(environ)

    assert environ == {HEADERS: "x-org=acme"}
    assert [line.split(":")[0] for line in told] == [HEADERS, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"]
    assert "entry 2 of 2 is not name=value" in told[0] and "SECRET" not in "".join(told)


@pytest.mark.parametrize("right", ["authorization=Basic%20YWJj", "authorization=Bearer abc", "a=b=c, d=e", "x-empty="])
def test_a_header_that_is_one_stays(right: str) -> None:
    environ = {HEADERS: right}

    assert mend_variables(environ) == [] and environ == {HEADERS: right}


def test_of_the_resource_only_what_is_no_pair_is_left_out() -> None:
    environ = {"OTEL_RESOURCE_ATTRIBUTES": "team=a,SECRET,=b", "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "bogus,process"}

    told = mend_variables(environ)

    assert environ == {"OTEL_RESOURCE_ATTRIBUTES": "team=a", "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "process"}
    assert told[0] == "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS: bogus is not installed here, and left out"
    assert told[1] == "OTEL_RESOURCE_ATTRIBUTES: entries 2, 3 of 3 are not key=value, and left out"


@pytest.mark.sweep
def test_the_bot_starts_with_all_of_them_wrong_and_says_so_without_a_traceback() -> None:
    wrong = {
        LIMITS[0]: "many",
        "OTEL_METRICS_EXEMPLAR_FILTER": "bogus",
        "OTEL_PYTHON_CONTEXT": "bogus",
        "OTEL_PYTHON_METER_PROVIDER": "bogus",
        "OTEL_PYTHON_TRACER_PROVIDER": "bogus",
        "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "bogus",
        "OTEL_RESOURCE_ATTRIBUTES": "bogus",
        "OTEL_TRACES_SAMPLER": "bogus",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        HEADERS: "SECRET",
    }

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STARTS], cwd=ROOT, env={**os.environ, **wrong}, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "chat\n"), done.stderr
    said = done.stderr.splitlines()
    assert "Traceback" not in done.stderr and "SECRET" not in done.stderr
    assert [name for name in wrong if "ENDPOINT" not in name and sum(line.startswith(name) for line in said) != 1] == []
