"""The HTTP session to a collector: what went wrong is an error in plain words.

The exporter by itself takes a redirect for success and loses the batch without a word, counts what was refused as
exported, and tries a certificate that it does not trust again and again. Of an address only host, port and path are
told: what else stands in it may be a secret, the operator's or the collector's.
"""

from __future__ import annotations

from typing import Any

import requests

from telemetry.secrets_out import bare

TRY_AGAIN = (429, 502, 503, 504)  # the specification's; the exporter waits and does
HINTS = {
    401: "check OTEL_EXPORTER_OTLP_HEADERS",
    403: "check OTEL_EXPORTER_OTLP_HEADERS",
    404: "check the endpoint, or switch this signal off: OTEL_METRICS_EXPORTER=none and the like",
    405: "check the endpoint, or switch this signal off: OTEL_METRICS_EXPORTER=none and the like",
}


class Redirected(Exception):
    """The collector answers elsewhere. It is not followed: data and headers go where the operator said and nowhere else."""


class Refused(Exception):
    """The collector answered with a status that trying again would not change."""


class NotTrusted(Exception):
    """TLS with the collector failed; trying again would not help."""


class CollectorSession(requests.Session):
    """`direct`: past any proxy."""

    def __init__(self, *, direct: bool) -> None:
        super().__init__()
        self.trust_env = not direct

    def request(self, method: str, url: str, **how: Any) -> requests.Response:  # type: ignore[override]
        shown = _shown(url)
        try:
            response = super().request(method, url, **how)
        except requests.exceptions.SSLError as error:
            raise NotTrusted(
                f"TLS with {shown} failed ({_root_cause(error)}); a certificate of your own is named by OTEL_EXPORTER_OTLP_CERTIFICATE"
            ) from error
        except requests.exceptions.ConnectionError as error:
            raise requests.exceptions.ConnectionError(f"{shown} cannot be reached ({_root_cause(error)})") from error
        if response.is_redirect or 300 <= response.status_code < 400:
            where = _shown(response.headers["Location"]) if "Location" in response.headers else "elsewhere"
            raise Redirected(f"{shown} redirects to {where}, which is not followed; set the endpoint to the final address")
        if response.status_code >= 400 and response.status_code not in TRY_AGAIN:
            hint = f"; {HINTS[response.status_code]}" if response.status_code in HINTS else ""
            raise Refused(f"{shown} answers {response.status_code} {response.reason}{hint}")
        return response


def _root_cause(error: BaseException) -> str:
    """Libraries wrap what the system said three times over."""
    inner: BaseException = error
    while (below := inner.__cause__ or inner.__context__) is not None:
        inner = below
    return getattr(inner, "strerror", None) or str(inner)


def _shown(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}://{bare(rest)}" if separator else bare(url)
