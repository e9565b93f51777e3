"""The product's own OTLP receiver as a fixture for any test: import `otlp_receiver` into a conftest.

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp_receiver.endpoint)
    assert otlp_receiver.wait_for(lambda r: any(s["name"] == "process slack" for s in r.spans), 10)

`otlp_receiver.answer = Answer.HANG | Answer.UNAVAILABLE` and `otlp_receiver.stop()` (refuses) make it a bad collector.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from telemetry.receiver import Answer, Receiver

__all__ = ["Answer", "Receiver", "otlp_receiver"]


@pytest.fixture
def otlp_receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver
