"""Takes secrets out of what is said on stderr: headers for collectors, and what URLs hold beside where they lead.

What must stay true: it is the last thing that happens to such a line, whoever wrote it: libraries put whole URLs, requests
and variables into their messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

HIDDEN = "***"
SHORTEST = 4  # characters; what is shorter would take half of every sentence with it
_URL = re.compile(r"""\b([a-z][a-z0-9+.-]*://)([^\s"'<>]*)""", re.IGNORECASE)
_USER = re.compile(r"""[^\s"'<>=()]*:[^\s"'<>()]*@(?=[\w\[])""")  # of an address without its `http://`
_QUERY = re.compile(r"""(/[^\s"'<>?]*)\?[^\s"'<>)]+""")  # of a path alone, as requests' errors have it
_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP_\w*HEADERS")
_ADDRESSES = re.compile(r"OTEL_EXPORTER_OTLP_\w*ENDPOINT|\w+_PROXY", re.IGNORECASE)


def without_secrets(text: str, environ: Mapping[str, str]) -> str:
    for secret in sorted({*_secrets(environ)}, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    text = _URL.sub(lambda found: found[1] + bare(found[2]), text)
    return _QUERY.sub(rf"\1?{HIDDEN}", _USER.sub("", text))


def bare(address: str) -> str:
    """Host, port and path of what follows a URL's scheme. A password may hold whatever else ends a host's name."""
    host = address.rpartition("@")[2]
    return re.split(r"[?#]", host, maxsplit=1)[0]


def _secrets(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if _HEADERS.fullmatch(name):
            yield from (form for entry in value.split(",") for form in _forms(entry.partition("=")[2] or entry))
        elif _ADDRESSES.fullmatch(name):
            address = value.partition("://")[2] or value
            user, _, password = address.rpartition("@")[0].partition(":")
            yield from _forms(password or user)
            yield from (form for pair in address.partition("?")[2].split("&") for form in _forms(pair.partition("=")[2]))


def _forms(value: str) -> Iterator[str]:
    """As it stands, decoded, and without the word in front (`Bearer`)."""
    for form in (value.strip(), unquote(value).strip()):
        yield form
        yield form.rpartition(" ")[2]
