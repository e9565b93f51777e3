"""The limits of OTEL_* that are no numbers. To be called before anything imports the SDK, which raises over them as it loads."""

from __future__ import annotations

from collections.abc import MutableMapping


def drop_wrong_limits(environ: MutableMapping[str, str]) -> list[str]:
    """Takes them out, so that there is no such limit; returns a sentence for each."""
    told = []
    for name in sorted(environ):
        value = environ[name].strip()
        if name.startswith("OTEL_") and name.endswith("_LIMIT") and value and not (value.isascii() and value.isdecimal()):
            del environ[name]
            told.append(f"{name}={value} is not a number, so there is no such limit")
    return told
