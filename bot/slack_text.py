"""One Slack message as plain text, and who wrote it.

The text of a message is the same whether it came as an event or from the history: previews of links, reply counts and
edit marks are not part of it, so its digest says whether a session was shown these very words. Of all mentions only the
bot's own tag is taken away; other people's names are content. Payloads are never trusted to be well formed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.footer import without_footer
from bot.messages import Change, Role, Said, Speaker
from bot.slack_blocks import Json, attachment_pieces, block_pieces, file_pieces, is_unfurl, maps, string

Names = Callable[[str], str | None] | Mapping[str, str]

_ENTITY = re.compile(r"<([^<>]*)>")
_LABELLED = re.compile(r"<([@#]\w+|!subteam\^\w+)\|([^<>|]+)>")
_LINK = re.compile(r"(?i)[a-z][a-z0-9+.-]*:[^|]*")
_USER = re.compile(r"<@(\w+)")
_ESCAPED = re.compile(r"&(amp|lt|gt);")
_SIGNS = {"amp": "&", "lt": "<", "gt": ">"}
# What mrkdwn and rich text write differently for the same words: marks of style, quotes and lists.
_LINE_MARKS = re.compile(r"(?m)^[ \t]*(?:>[ \t]*)?(?:(?:[•◦▪‣*-]|\d{1,3}[.)]|[a-z][.)]|[ivx]{1,5}[.)])[ \t]+)?")
_SPACES = " \t\u3000"
_STYLE_MARKS = re.compile(r"[*_~`]")


@dataclass(frozen=True, slots=True)
class Me:
    """The bot's own ids, from `auth.test`. `home`: its workspace, and the organization of that, where there is one."""

    user_id: str
    bot_id: str = ""
    home: frozenset[str] = frozenset()


def plain_text(message: Json, *, bot_user_id: str, names: Names) -> str:
    """Everything a reader sees in the message, each piece once; previews of links only where there is nothing else."""
    return _text(_sources(message), bot_user_id, names) or _text(_Sources(beside=_unfurls(message)), bot_user_id, names)


def mentioned_users(message: Json) -> set[str]:
    """The ids whose names `plain_text` will ask for."""
    sources = _sources(message)
    pieces = [sources.text, *sources.blocks, *sources.beside, *_unfurls(message)]
    return {user for piece in pieces for user in _USER.findall(piece)}


def author_of(message: Json) -> str:
    """The user id that wrote the message; "" where a bot without one did."""
    return string(message.get("user"))


def speaker_of(message: Json, me: Me, names: Names) -> Speaker:
    """Only the bot's own ids make a message its own: a name, or being any bot, does not."""
    user, bot = author_of(message), string(message.get("bot_id"))
    if (user and user == me.user_id) or (bot and bot == me.bot_id):
        return Speaker(id=me.user_id, name=_name(names, me.user_id) or _bot_name(message) or me.user_id, role=Role.OWN)
    if bot or message.get("subtype") == "bot_message" or message.get("is_bot") is True or user == "USLACKBOT":
        return Speaker(id=user or bot or "bot", name=_bot_name(message) or _name(names, user) or user or bot or "bot", role=Role.BOT)
    return Speaker(id=user or "unknown", name=_name(names, user) or _profile_name(message) or user or "unknown")


def is_stranger(message: Json, home: Collection[str]) -> bool:
    """Written by somebody of another organization, in a channel that is shared with it. Where nothing tells, nobody is."""
    team = string(message.get("user_team"))
    return bool(home) and bool(team) and team not in home


def said_of(
    message: Json, *, me: Me, names: Names, verified: Callable[[str], bool] = lambda _: True, change: Change = Change.POSTED
) -> Said:
    """The message as the prompt will quote it. `verified` is asked for the speaker's id; the bot trusts itself."""
    speaker = speaker_of(message, me, names)
    if speaker.role is not Role.OWN and (not verified(speaker.id) or is_stranger(message, me.home)):
        speaker = Speaker(id=speaker.id, name=speaker.name, role=speaker.role, verified=False)
    text = plain_text(message, bot_user_id=me.user_id, names=names)
    if speaker.role is Role.OWN:
        text = without_footer(text)
    return Said(ts=string(message.get("ts")), speaker=speaker, text=text, change=change)


def is_unfurl_only(before: Json, after: Json) -> bool:
    """Whether an edit event changed nothing that anybody wrote: a preview was added, a reply counted."""
    return _text(_sources(before), "", {}) == _text(_sources(after), "", {})


@dataclass(frozen=True, slots=True)
class _Sources:
    """Raw mrkdwn by where it stood. `blocks` usually repeat `text`; attachments and files (`beside`) add to it."""

    text: str = ""
    blocks: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)


def _sources(message: Json) -> _Sources:
    attached = [piece for a in maps(message.get("attachments")) if not is_unfurl(a) for piece in attachment_pieces(a)]
    return _Sources(
        text=string(message.get("text")),
        blocks=block_pieces(message.get("blocks")),
        beside=attached + file_pieces(message.get("files")),
    )


def _unfurls(message: Json) -> list[str]:
    return [piece for a in maps(message.get("attachments")) if is_unfurl(a) for piece in attachment_pieces(a)]


def _text(sources: _Sources, bot_user_id: str, names: Names) -> str:
    labels = dict(_LABELLED.findall(sources.text))

    def shown(piece: str) -> str:
        return _resolved(_without_tag(piece, bot_user_id), names, labels).replace("\r\n", "\n").strip()

    pieces = _merged(shown(sources.text), [shown(piece) for piece in sources.blocks])
    return "\n".join(_added(pieces, (shown(piece) for piece in sources.beside)))


def _merged(text: str, blocks: list[str]) -> list[str]:
    """`text` and blocks say the same, or one of them says more, or (an app's fallback) they differ and both are kept."""
    of_text, of_blocks = _gist(text), _gist("\n".join(blocks))
    if _holds(of_blocks, of_text) and of_text != of_blocks:
        return _added([], blocks)
    return _added([text] if text else [], blocks if not _holds(of_text, of_blocks) else [])


def _added(pieces: list[str], more: Iterable[str]) -> list[str]:
    """Each further piece, unless its words stand there already."""
    kept, words = list(pieces), _gist("\n".join(pieces))
    for piece in more:
        gist = _gist(piece)
        if piece and not _holds(words, gist):
            kept.append(piece)
            words = f"{words} {gist}"
    return kept


def _gist(text: str) -> str:
    """The words alone, so that `*now*` in mrkdwn and a bold `now` in a block compare equal."""
    return " ".join(_STYLE_MARKS.sub("", _LINE_MARKS.sub("", text)).split())


def _holds(whole: str, part: str) -> bool:
    """`part` stands in `whole` as words of its own: `ok` is not in `broken`."""
    if part not in whole:
        return False
    before, after = (r"(?<!\w)" if part[:1].isalnum() else ""), (r"(?!\w)" if part[-1:].isalnum() else "")
    return re.search(before + re.escape(part) + after, whole) is not None


def _without_tag(piece: str, bot_user_id: str) -> str:
    """The space around the tag goes with it, but words on both sides stay apart and lines stay lines."""
    if not bot_user_id or f"<@{bot_user_id}" not in piece:
        return piece
    kept, *rest = re.split(rf"<@{re.escape(bot_user_id)}(?:\|[^<>]*)?>", piece)
    for part in rest:
        before, after = kept.rstrip(_SPACES), part.lstrip(_SPACES)
        inner = before[-1:] not in ("", "\n") and after[:1] not in ("", "\n")
        apart = len(before) < len(kept) or len(after) < len(part)
        kept = before + (" " if inner and apart else "") + after
    return kept


def _resolved(piece: str, names: Names, labels: Mapping[str, str]) -> str:
    """Entities become words and the three escaped signs become themselves, in one pass: what a name holds is not read again."""
    return "".join(_segments(piece, names, labels))


def _segments(piece: str, names: Names, labels: Mapping[str, str]) -> Iterator[str]:
    at = 0
    for found in _ENTITY.finditer(piece):
        yield _unescaped(piece[at : found.start()])
        target, _, label = found[1].partition("|")
        yield _entity(target, _unescaped(label or labels.get(target, "")), names)
        at = found.end()
    yield _unescaped(piece[at:])


def _entity(target: str, label: str, names: Names) -> str:
    match target[:1]:
        case "@":
            return "@" + (_name(names, target[1:]) or label or target[1:])
        case "#":
            return "#" + (label or _name(names, target[1:]) or target[1:])
        case "!":
            return _special(target[1:], label)
        case _ if _LINK.fullmatch(target):
            return _link(_unescaped(target), label)
    return f"<{_unescaped(target)}{'|' + label if label else ''}>"


def _special(target: str, label: str) -> str:
    if target.startswith("date^"):
        return label or _iso(target.split("^")[1])
    if target.startswith("subteam^"):
        return "@" + (label.removeprefix("@") or target.split("^")[1])
    return label if label and label != target else "@" + target


def _iso(seconds: str) -> str:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return seconds


def _link(url: str, label: str) -> str:
    """A label that only repeats the address (Slack adds one to `example.com`) is left out."""
    bare = re.sub(r"(?i)^(?:[a-z][a-z0-9+.-]*:(?://)?)", "", url)
    return f"{label} ({url})" if label and label.rstrip("/") not in (url.rstrip("/"), bare.rstrip("/")) else url.removeprefix("mailto:")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _SIGNS[found[1]], text)


def _name(names: Names, user: str) -> str:
    if not user:
        return ""
    known = names.get(user) if isinstance(names, Mapping) else names(user)
    return known if known and known != user else ""


def _bot_name(message: Json) -> str:
    profile = message.get("bot_profile")
    return string(message.get("username")) or (string(profile.get("name")) if isinstance(profile, Mapping) else "")


def _profile_name(message: Json) -> str:
    profile = message.get("user_profile")
    if not isinstance(profile, Mapping):
        return ""
    return string(profile.get("display_name")) or string(profile.get("real_name"))
