"""Limits that are no numbers are said and gone before the SDK sees them: it would raise as it is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from telemetry.limits import drop_wrong_limits

NAMES = ("OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT")


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "\u0663"])
def test_what_is_no_number_goes_and_is_named(value: str) -> None:
    environ = dict.fromkeys(NAMES, value)

    told = drop_wrong_limits(environ)

    assert environ == {}
    assert told == [f"{name}={value} is not a number, so there is no such limit" for name in sorted(NAMES)]


@pytest.mark.parametrize("value", ["0", "128", " 7 ", ""])
def test_numbers_and_what_is_not_set_stay(value: str) -> None:
    environ = {**dict.fromkeys(NAMES, value), "OTEL_SERVICE_NAME": "many", "RATE_LIMIT": "many"}

    assert drop_wrong_limits(environ) == [] and len(environ) == 5


def test_the_sdk_is_not_imported_for_it() -> None:
    code = "import sys, telemetry.limits; sys.exit('opentelemetry.sdk' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, NAMES[1]: "many"}, check=False).returncode == 0
