"""A process that exports and ends; run by test_export. Prints as JSON: seconds a span cost, seconds the exit took.

Arguments: `spans` (how many); the endpoint comes by the environment.
"""

from __future__ import annotations

import json
import sys
import time

from telemetry.names import SpanName
from telemetry.setup import TelemetrySettings, telemetry
from tests.telemetry import facts


def main(spans: int) -> None:
    with telemetry(TelemetrySettings(routes=("main",))) as emit:
        started = time.perf_counter()
        for _ in range(spans):
            with emit.span(SpanName.PROCESS):
                emit(facts.GATE)
        worked = time.perf_counter()
    print(json.dumps({"work": worked - started, "exit": time.perf_counter() - worked}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
