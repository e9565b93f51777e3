"""Where Slack keeps text outside of `text`: blocks, attachments and files, as pieces of mrkdwn in reading order.

Every piece is in Slack's own escaped form (`<@U1>`, `<url|label>`, `&amp;`), whatever it was in the payload, so that
`bot.slack_text` resolves all sources by one rule. Payloads come from any app: a wrong type is an empty piece, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def string(value: object) -> str:
    """Text of a JSON value: numbers count as text (fields of alerts hold them), anything else does not."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def maps(value: object) -> list[Json]:
    """The objects of a JSON list; nothing where it is no list."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [entry for entry in value if isinstance(entry, Mapping)]


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def block_pieces(blocks: object) -> list[str]:
    """One piece a paragraph, list item, quote, field or table row."""
    return [piece for block in maps(blocks) for piece in _block(block) if piece.strip()]


def attachment_pieces(attachment: Json) -> list[str]:
    """The fallback repeats the rest for old clients, so it counts only where there is nothing else."""
    title, link = string(attachment.get("title")), string(attachment.get("title_link"))
    fields = [_named(string(f.get("title")), string(f.get("value"))) for f in maps(attachment.get("fields"))]
    shared = [
        piece for entry in maps(attachment.get("message_blocks")) for piece in block_pieces(_object(entry.get("message")).get("blocks"))
    ]
    text = string(attachment.get("text"))
    pieces = [
        string(attachment.get("pretext")),
        f"<{link}|{title}>" if title and link else title,
        text,
        *fields,
        *block_pieces(attachment.get("blocks")),
        *([] if text.strip() else shared),
        *file_pieces(attachment.get("files")),
    ]
    return [piece for piece in pieces if piece.strip()] or [string(attachment.get("fallback"))]


def is_unfurl(attachment: Json) -> bool:
    """A preview that Slack or an app added to a link. A message that somebody forwarded (`is_share`) is content of its own."""
    if attachment.get("is_share"):
        return False
    return any(attachment.get(key) for key in ("from_url", "original_url", "is_msg_unfurl", "is_app_unfurl"))


def file_pieces(files: object) -> list[str]:
    """One line a file; the same file is named once."""
    return list(dict.fromkeys(_file(file) for file in maps(files)))


def _file(file: Json) -> str:
    if file.get("mode") == "tombstone":
        return "[file: deleted]"
    name = string(file.get("name")) or string(file.get("title")) or string(file.get("id")) or "unnamed"
    kind = string(file.get("mimetype")) or string(file.get("filetype"))
    return escape("[file: " + ", ".join(" ".join(part.split()) for part in (name, kind) if part) + "]")


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _named(title: str, value: str) -> str:
    return f"{title}: {value}" if title and value else title or value


def _text_object(value: object) -> str:
    """mrkdwn and plain_text objects arrive escaped alike; some apps put a bare string where an object belongs."""
    return string(_object(value).get("text")) if isinstance(value, Mapping) else string(value)


def _block(block: Json) -> Iterator[str]:
    match string(block.get("type")):
        case "rich_text":
            yield from _rich_text(block)
        case "section":
            yield _text_object(block.get("text"))
            yield from (_text_object(field) for field in maps(block.get("fields")))
        case "context":
            yield " ".join(filter(None, (_context_part(part) for part in maps(block.get("elements")))))
        case "table":
            rows = block.get("rows")
            yield from (_row(row) for row in rows) if isinstance(rows, Sequence) and not isinstance(rows, str) else ()
        case "image" | "video":
            yield _picture(block)
        case _:  # header, markdown, and what Slack may add: their text is in `text`
            yield _text_object(block.get("text"))


def _context_part(part: Json) -> str:
    return _picture(part) if part.get("type") == "image" else _text_object(part)


def _picture(block: Json) -> str:
    named = _text_object(block.get("title")) or string(block.get("alt_text"))
    return f"[{string(block.get('type'))}: {named}]" if named else ""


def _row(row: object) -> str:
    return " | ".join(_cell(cell) for cell in maps(row))


def _cell(cell: Json) -> str:
    if cell.get("type") == "rich_text":
        return " ".join(piece.strip() for piece in _rich_text(cell))
    return escape(string(cell.get("text")) or string(cell.get("value")))


def _rich_text(block: Json) -> Iterator[str]:
    for part in maps(block.get("elements")):
        match string(part.get("type")):
            case "rich_text_list":
                yield from _list_items(part)
            case "rich_text_quote":
                yield "\n".join("&gt; " + line for line in _inline(part).split("\n"))
            case "rich_text_preformatted":
                yield f"```\n{_inline(part)}\n```"
            case _:
                yield _inline(part)


def _list_items(part: Json) -> Iterator[str]:
    depth, first = _number(part.get("indent")), _number(part.get("offset")) + 1
    for place, item in enumerate(maps(part.get("elements")), first):
        yield "  " * min(depth, 8) + (f"{place}. " if part.get("style") == "ordered" else "• ") + _inline(item)


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _inline(part: Json) -> str:
    return "".join(_element(element) for element in maps(part.get("elements")))


def _styled_text(element: Json) -> str:
    text = escape(string(element.get("text")))
    return f"`{text}`" if text and _object(element.get("style")).get("code") else text


def _link(element: Json) -> str:
    url, label = escape(string(element.get("url"))).replace("|", "%7C"), escape(string(element.get("text")))
    return f"<{url}|{label}>" if label else f"<{url}>"


def _emoji(element: Json) -> str:
    tone = _number(element.get("skin_tone"))
    return f":{string(element.get('name'))}:" + (f":skin-tone-{tone}:" if tone else "")


def _date(element: Json) -> str:
    return f"<!date^{string(element.get('timestamp'))}|{escape(string(element.get('fallback')))}>"


_ELEMENTS: dict[str, Callable[[Json], str]] = {
    "text": _styled_text,
    "link": _link,
    "emoji": _emoji,
    "date": _date,
    "user": lambda element: f"<@{string(element.get('user_id'))}>",
    "channel": lambda element: f"<#{string(element.get('channel_id'))}>",
    "usergroup": lambda element: f"<!subteam^{string(element.get('usergroup_id'))}>",
    "broadcast": lambda element: f"<!{string(element.get('range'))}>",
    "color": lambda element: escape(string(element.get("value"))),
}


def _element(element: Json) -> str:
    return _ELEMENTS.get(string(element.get("type")), _styled_text)(element)
