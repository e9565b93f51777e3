"""The OTEL_* variables that the SDK does not take as they are, put right before it is imported: over some it raises as it loads.

What must stay true: nothing slow is imported, and the SDK is not; a wrong value costs what it was to set, never the start;
each is named once with what is used instead; what may be a secret (headers, attributes of the resource) is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping
from urllib.parse import unquote

SIGNALS = ("TRACES", "METRICS", "LOGS")
SAMPLERS = (
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
)
EXEMPLAR_FILTERS = ("trace_based", "always_on", "always_off")
COMPRESSIONS = ("none", "gzip", "deflate")
# A name and a value as they may stand in an HTTP header, percent-encoded or not.
_HEADER = re.compile(r"[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+[ \t]*=[ \x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*", re.ASCII)
_PROVIDERS = {
    "OTEL_PYTHON_TRACER_PROVIDER": "opentelemetry_tracer_provider",
    "OTEL_PYTHON_METER_PROVIDER": "opentelemetry_meter_provider",
    "OTEL_PYTHON_LOGGER_PROVIDER": "opentelemetry_logger_provider",
    "OTEL_PYTHON_CONTEXT": "opentelemetry_context",
}

Environ = MutableMapping[str, str]
Told = list[str]


def mend_variables(environ: Environ) -> Told:
    """Takes out or replaces what is wrong; returns a sentence for each. What is blank is not set, as specified."""
    told: Told = []
    for name in sorted(name for name in environ if name.startswith("OTEL_")):
        if not environ[name].strip():
            del environ[name]
        elif mend := next((mend for pattern, mend in _RULES if re.fullmatch(pattern, name)), None):
            told += mend(environ, name)
    return told


def _limit(environ: Environ, name: str) -> Told:
    return _keep_if(_is_whole(environ[name]), environ, name, "is not a number, so there is no such limit")


def _setting(environ: Environ, name: str) -> Told:
    value = environ[name]
    return _keep_if(_is_whole(value) and int(value) > 0, environ, name, "is not a whole number above 0; the default is used")


def _one_of(words: tuple[str, ...], instead: str) -> Callable[[Environ, str], Told]:
    def mend(environ: Environ, name: str) -> Told:
        value = environ[name].strip().lower()
        if value in words:
            environ[name] = value
        return _keep_if(value in words, environ, name, f"is none of {', '.join(words)}; {instead}")

    return mend


def _ratio(environ: Environ, name: str) -> Told:
    """Of the samplers that take one; sorted, the sampler itself comes before it."""
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if not sampler.endswith("traceidratio") or _is_ratio(environ[name]):
        return []
    told = f"{name}={environ[name]} is not a number from 0 to 1; 1 is used: every trace is sent"
    environ[name] = "1.0"
    return [told]


def _sampler(environ: Environ, name: str) -> Told:
    told = _one_of(SAMPLERS, "parentbased_always_on is used: every trace is sent")(environ, name)
    if environ.get(name, "").endswith("traceidratio") and not environ.get(f"{name}_ARG", "").strip():
        environ[f"{name}_ARG"] = "1.0"  # the specification's; the SDK would complain
    return told


def _pairs(is_pair: Callable[[str], bool], what: str) -> Callable[[Environ, str], Told]:
    """A list of `name=value`. Only the place of a wrong one is told: it may be half of a secret."""

    def mend(environ: Environ, name: str) -> Told:
        entries = [entry for entry in environ[name].split(",") if entry.strip()]
        wrong = [place for place, entry in enumerate(entries, 1) if not is_pair(entry)]
        if not wrong:
            return []
        environ[name] = ",".join(entry for entry in entries if is_pair(entry))
        if not environ[name]:
            del environ[name]
        which = f"entry {wrong[0]}" if len(wrong) == 1 else f"entries {', '.join(map(str, wrong))}"
        return [f"{name}: {which} of {len(entries)} {'is' if len(wrong) == 1 else 'are'} not {what}, and left out"]

    return mend


def _is_header(entry: str) -> bool:
    if not _HEADER.fullmatch(entry):
        return False
    _, _, value = entry.partition("=")
    return not any(ord(sign) < 32 or ord(sign) > 126 for sign in unquote(value, errors="replace"))


def _registered(group: str, instead: str) -> Callable[[Environ, str], Told]:
    """By some package that is installed here."""

    def mend(environ: Environ, name: str) -> Told:
        return _keep_if(environ[name].strip() in _names(group), environ, name, f"is not installed here; {instead}")

    return mend


def _detectors(environ: Environ, name: str) -> Told:
    wanted = [detector.strip() for detector in environ[name].split(",") if detector.strip()]
    unknown = [detector for detector in wanted if detector != "*" and detector not in _names("opentelemetry_resource_detector")]
    if not unknown:
        return []
    environ[name] = ",".join(detector for detector in wanted if detector not in unknown)
    return [f"{name}: {', '.join(unknown)} is not installed here, and left out"]


def _names(group: str) -> set[str]:
    from importlib.metadata import entry_points  # only for a variable that hardly anybody sets

    return {entry.name for entry in entry_points(group=group)}


def _keep_if(is_right: bool, environ: Environ, name: str, what: str) -> Told:
    if is_right:
        return []
    return [f"{name}={environ.pop(name)} {what}"]


def _is_whole(value: str) -> bool:
    value = value.strip()
    return value.isascii() and value.isdecimal() and len(value) <= 18


def _is_ratio(value: str) -> bool:
    try:
        return 0 <= float(value) <= 1
    except ValueError:
        return False


_RULES: tuple[tuple[str, Callable[[Environ, str], Told]], ...] = (
    (r"OTEL_\w+_LIMIT", _limit),
    (r"OTEL_(BSP|BLRP|METRIC_EXPORT)_\w+", _setting),
    ("OTEL_TRACES_SAMPLER", _sampler),
    ("OTEL_TRACES_SAMPLER_ARG", _ratio),
    ("OTEL_METRICS_EXEMPLAR_FILTER", _one_of(EXEMPLAR_FILTERS, "trace_based is used")),
    (rf"OTEL_EXPORTER_OTLP_(({'|'.join(SIGNALS)})_)?COMPRESSION", _one_of(COMPRESSIONS, "nothing is compressed")),
    (rf"OTEL_EXPORTER_OTLP_(({'|'.join(SIGNALS)})_)?HEADERS", _pairs(_is_header, "name=value as HTTP takes it (percent-encode the value)")),
    ("OTEL_RESOURCE_ATTRIBUTES", _pairs(lambda entry: bool(entry.partition("=")[0].strip()) and "=" in entry, "key=value")),
    ("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", _detectors),
    *((name, _registered(group, "the SDK's own is used")) for name, group in _PROVIDERS.items()),
)
