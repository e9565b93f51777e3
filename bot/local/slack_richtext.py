"""Slack's text: what a client makes of typed words, the `rich_text` blocks beside it, and the words a person sees. Pure.

Slack escapes exactly `&`, `<` and `>`; everything else between `<` and `>` is an entity: a person, a channel, a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bot.local.slack_records import Json, Person

_ENTITY = re.compile(r"<([^<>\n]+)>")
_KEEP = r"<(?:@[UW][A-Z0-9]+|#[CG][A-Z0-9]+|!(?:here|channel|everyone))(?:\|[^<>\n]*)?>"
_URL = r"https?://[^\s<>]*[^\s<>.,;:!?)\]'\"、。」）]"


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def typed(text: str, people: Mapping[str, Person]) -> str:
    """What a client stores for typed words: escaped, `@handle` a mention, a URL a link; entities that are written out stay.
    A handle may be followed by Japanese at once, which has no spaces."""
    handles = {word.lower(): p.id for p in people.values() for word in (p.name, p.display_name)}
    known = "|".join(re.escape(h) for h in sorted(handles, key=len, reverse=True))
    pattern = re.compile(rf"({_KEEP})|({_URL})|(?<![A-Za-z0-9])@({known})(?![A-Za-z0-9_])", re.IGNORECASE)
    out, at = [], 0
    for found in pattern.finditer(text):
        entity, url, handle = found.groups()
        out += [escape(text[at : found.start()]), entity or (f"<{escape(url)}>" if url else f"<@{handles[handle.lower()]}>")]
        at = found.end()
    return "".join([*out, escape(text[at:])])


def blocks(text: str) -> list[Json]:
    """The blocks that a human client sends beside the text."""
    section = {"type": "rich_text_section", "elements": list(_elements(text))}
    return [{"type": "rich_text", "block_id": "b1", "elements": [section]}]


def words(text: str, people: Mapping[str, Person], channels: Mapping[str, str]) -> str:
    """What a person reads: names for ids, labels for links. `channels`: id to name."""
    return unescape(_ENTITY.sub(lambda found: _shown(found[1], people, channels), text))


def _shown(entity: str, people: Mapping[str, Person], channels: Mapping[str, str]) -> str:
    target, _, label = entity.partition("|")
    if target.startswith("@"):
        return "@" + (people[target[1:]].display_name if target[1:] in people else label or target[1:])
    if target.startswith("#"):
        return "#" + (label or channels.get(target[1:], target[1:]))
    if target.startswith("!"):
        return label or "@" + target[1:].partition("^")[0]
    return label or target.removeprefix("mailto:")


def _elements(text: str) -> Iterator[Json]:
    at = 0
    for found in _ENTITY.finditer(text):
        if found.start() > at:
            yield {"type": "text", "text": unescape(text[at : found.start()])}
        yield _element(found[1])
        at = found.end()
    if at < len(text):
        yield {"type": "text", "text": unescape(text[at:])}


def _element(entity: str) -> Json:
    target, _, label = entity.partition("|")
    if target.startswith("@"):
        return {"type": "user", "user_id": target[1:]}
    if target.startswith("#"):
        return {"type": "channel", "channel_id": target[1:]}
    if target.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": target.removeprefix("!subteam^")}
    if target in {"!here", "!channel", "!everyone"}:
        return {"type": "broadcast", "range": target[1:]}
    if target.startswith("!"):
        return {"type": "text", "text": unescape(label or target[1:])}
    return {"type": "link", "url": unescape(target), **({"text": unescape(label)} if label else {})}
