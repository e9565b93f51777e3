"""No line on stderr holds what an operator, or a collector, put into a header or an address."""

from __future__ import annotations

import pytest

from telemetry.secrets_out import without_secrets
from telemetry.troubles import Troubles

SET = {
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20SECRET1,x-key=SECRET2",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "SECRET3 alone",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "https://user:SECRET%2F4@collector/x?token=SECRET5&a=b",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "user:SECRET6@collector:4317",
    "HTTPS_PROXY": "http://SECRET7@proxy:3128",
}


@pytest.mark.parametrize(
    "text",
    [
        "Header format invalid! SECRET3 alone",
        "got SECRET1, SECRET2 and Bearer SECRET1",
        "decoded: SECRET/4",
        "http://user:SECRET@host:4318/v1/traces cannot be reached",
        "http://user:SEC@RET?SECRET@host/x?token=SECRET#SECRET",
        "HTTPConnectionPool(host='h', port=1): Max retries exceeded with url: /v1/traces?token=SECRET (Caused by x)",
        "cannot reach user:SECRET@host:4317",
        "proxy SECRET7, token SECRET5, grpc SECRET6",
        "see <https://u:SECRET@h/?k=SECRET>",
    ],
)
def test_what_may_be_a_secret_is_not_said(text: str) -> None:
    assert "SECRET" not in without_secrets(text, SET)


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:4318/v1/traces cannot be reached (Connection refused)", "is it on? yes: at 10:00 (a/b)", "mail a@b.example"]
)
def test_what_is_none_is_said_as_it_stands(text: str) -> None:
    assert without_secrets(text, {}) == without_secrets(text, SET) == text


def test_every_trouble_is_said_without_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", SET["OTEL_EXPORTER_OTLP_HEADERS"])

    with Troubles().caught("sending"):
        raise ValueError("SECRET2 to http://u:SECRET@h/x?SECRET")

    assert capsys.readouterr().err == "insomnia: telemetry: sending failed: ValueError: *** to http://h/x (said once)\n"
