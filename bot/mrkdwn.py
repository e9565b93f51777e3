"""The model's answer as Slack text: nothing in it pings anybody, signs show as they were written, no chunk breaks code.

`neutralise` is applied once to a whole answer, `split` to what it returns. After `neutralise` a `<` begins nothing but a link
to an address, so `<!channel>`, `<@U2>` and the like are words, inside code and outside. (Plain `@channel` pings nobody as
long as a post does not ask for `link_names` or `parse=full`.)
"""

from __future__ import annotations

import re

from bot.chunks import CHUNK_CHARS, FENCE, pieces

_FENCED = re.compile(r"(`{3,})(.*?)(\1|\Z)", re.DOTALL)
_BARE_SIGN = re.compile(r"&(?!(?:amp|lt|gt);)")
_ADDRESS = r"(?:https?://|mailto:)"
# Code, links as Markdown writes them and links as Slack does: read in one pass, so that none is looked for inside another.
# One level of brackets in an address, as Wikipedia has them; a title after it is dropped.
_WHOLE = re.compile(
    r"(?<!`)(?P<code>`[^`\n]+`)(?!`)"
    rf"|!?\[(?P<text>[^\[\]\n]*)\]\((?P<to>{_ADDRESS}(?:[^\s<>|()]|\([^\s<>|()]*\))+)(?:[ \t]+\"[^\"\n]*\")?\)"
    rf"|<(?P<url>{_ADDRESS}[^\s<>|]+)(?:\|(?P<label>[^<>\n]*))?>"
)
_BOLD_ITALIC = re.compile(r"\*\*\*(?=[^\s*])([^*\n]*[^\s*])\*\*\*")
_BOLD = re.compile(
    r"(?<![A-Za-z0-9*])\*\*(?=[^\s*])([^\n]{0,600}?[^\s*])\*\*(?![A-Za-z0-9*])"
)  # bounded: or a line of openers takes seconds
_STRUCK = re.compile(r"~~(?=[^\s~])([^~\n]*[^\s~])~~")
_HEADING = re.compile(r"(?m)^ {0,3}#{1,6}[ \t]+(\S.*)$")
_BULLET = re.compile(r"(?m)^([ \t]*)\*[ \t]+(?=\S)(?!\*[ \t])")
_HELD = re.compile("\ufdd0([0-9]+)\ufdd1")  # noncharacters: they hold the place of code and links while the rest is rewritten
_UNSENDABLE = re.compile("[\x00\ud800-\udfff\ufdd0\ufdd1]")


def neutralise(text: str) -> str:
    """`&`, `<` and `>` escaped exactly once; links still work; Markdown that Slack does not know becomes what it knows.

    Outside of code an `&amp;` that the model wrote is taken for escaped already; in code it is shown as written. A fence
    that was left open is closed.
    """
    text = _UNSENDABLE.sub("\ufffd", text.replace("\r\n", "\n"))
    parts, at = [], 0
    for found in _FENCED.finditer(text):
        parts += [_prose(text[at : found.start()]), _fenced(found)]
        at = found.end()
    return "".join([*parts, _prose(text[at:])])


def split(text: str, limit: int = CHUNK_CHARS) -> list[str]:
    """Neutralised text as posts of at most `limit` characters, none of them blank; code that is cut is closed and opened again."""
    return [piece.shown for piece in pieces(text, limit)]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped_once(text: str) -> str:
    return _BARE_SIGN.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def _fenced(found: re.Match[str]) -> str:
    """Slack knows three backticks only, so a longer fence becomes one of three, and shorter ones in it must not end it."""
    body = _escaped(found[2]).replace(FENCE, "'''")
    if found[3]:
        return FENCE + body + FENCE
    if not body.strip():
        return body
    return FENCE + body + ("\n" if "\n" in body and not body.endswith("\n") else "") + FENCE


def _prose(text: str) -> str:
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(_whole(found))
        return f"\ufdd0{len(held) - 1}\ufdd1"

    rewritten = _marks(_escaped_once(_WHOLE.sub(hold, text)))
    return _HELD.sub(lambda found: held[int(found[1])], rewritten)


def _whole(found: re.Match[str]) -> str:
    if found["code"]:
        return _escaped(found["code"])
    url, label = _escaped_once(found["to"] or found["url"]), found["text"] or found["label"] or ""
    label = _escaped_once(label.replace("**", "").replace("`", "")).strip()  # Slack shows marks in a label as they are
    return f"<{url}|{label}>" if label else f"<{url}>"


def _marks(text: str) -> str:
    text = _HEADING.sub(lambda found: f"*{_heading(found[1])}*", text)
    text = _BULLET.sub(r"\1• ", text)
    text = _BOLD_ITALIC.sub(r"*_\1_*", text)
    return _STRUCK.sub(r"~\1~", _BOLD.sub(r"*\1*", text))


def _heading(text: str) -> str:
    """Bold as a whole, so marks of bold inside would end it; closing hashes go, the one of `C#` stays."""
    text = text.replace("**", "").strip()
    bare = text.rstrip("#")
    return bare.rstrip() if bare[-1:].isspace() else text
