"""What people have in hand of an answer: a permalink, a message's time stamp, a trace id, or nothing but that it was the last."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

LAST = "last"
FORMS = "a Slack permalink, CHANNEL/TS, TS, a trace id or the beginning of one (at least 4 digits), or `last`"
_TS = re.compile(r"\d{10}\.\d{6}", re.ASCII)
_LINKED_TS = re.compile(r"p(\d{10})(\d{6})", re.ASCII)
_CHANNEL = re.compile(r"[A-Z][A-Z0-9]{1,30}", re.ASCII)
_TRACE = re.compile(r"[0-9a-f]{4,32}", re.ASCII)


class BadRef(Exception):
    """It has none of the forms."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One of: a message (`ts`, perhaps `channel` and the `thread_ts` that its link names), a trace's `prefix`, or the last."""

    text: str
    channel: str = ""
    ts: str = ""
    prefix: str = ""
    thread_ts: str = ""

    @property
    def is_last(self) -> bool:
        return not (self.ts or self.prefix)


def parse_ref(text: str) -> Ref:
    """Raises BadRef."""
    bare = text.strip().strip("<>\"'`").partition("|")[0]  # as it is copied from a message or a shell
    if bare.lower() == LAST:
        return Ref(text)
    if bare.startswith(("http://", "https://")):
        return _permalink(text, bare)
    if _TRACE.fullmatch(bare.lower()):
        return Ref(text, prefix=bare.lower())
    channel, slash, ts = bare.rpartition("/")
    if (found := _ts(ts)) and (not slash or _CHANNEL.fullmatch(channel)):
        return Ref(text, channel=channel, ts=found)
    raise BadRef(text)


def _permalink(text: str, url: str) -> Ref:
    """`/archives/CHANNEL/pTS`, wherever the workspace is; Slack's own app also links to `/CHANNEL/thread/CHANNEL-TS`."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadRef(text) from error
    *_, channel, last = ["", "", *filter(None, parts.path.split("/"))]
    if channel == "thread":
        channel, _, last = last.partition("-")
    if not _CHANNEL.fullmatch(channel) or not (ts := _ts(last)):
        raise BadRef(text)
    thread_ts = parse_qs(parts.query).get("thread_ts", [""])[0]
    return Ref(text, channel=channel, ts=ts, thread_ts=thread_ts)


def _ts(text: str) -> str:
    if linked := _LINKED_TS.fullmatch(text):
        return f"{linked[1]}.{linked[2]}"
    return text if _TS.fullmatch(text) else ""
