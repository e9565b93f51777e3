"""What one Messages request holds: who asked what in which thread, and which lines of each thread are in the context.

Pure. Must stay true: a line that is not in the request is not in the `Context`. The format that is read here is `bot.quoting`'s; it is
read leniently, so that a new attribute or note does not blind the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.local.model_turns import COMPACTION, Turn

CONTINUED = "This session is being continued"  # so a context starts whose beginning was compacted
NO_ANSWER = "No response requested."  # the CLI's stand-in for the answer of a turn that was cut

_BLOCK = re.compile(r'<(thread|message|summary|context)-([0-9a-f]{8})\b((?:"[^"]*"|[^">])*)>(.*?)</\1-\2>', re.DOTALL)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_SPEAKER = r"(?P<name>.+?) \((?P<id>[^\s,()]+), (?P<role>[^()]+)\)"
_FROM = re.compile(_SPEAKER)
_LINE = re.compile(rf"(?P<when>\d{{4}}-\d\d-\d\dT\S+|unknown-time) {_SPEAKER}(?P<tags>(?: \[[^\]]*\])*)(?:: ?(?P<text>.*))?")
_THREAD_ID = re.compile(r"[A-Z0-9]+/[A-Z0-9]+/\d+\.\d+")
_SKETCH = re.compile(r"^- thread (\S+) began: (.*)$", re.MULTILINE)
_OPEN = re.compile(r"^Open request in thread (\S+) from (.+?) at (\S*): (.*)$", re.MULTILINE)
_UNREAD = re.compile(
    r"not be read|cannot be read|unread|incomplete|not complete|not read|only (?:in )?part|partly"
    r"|読め(?:ません|ない|なかった|ていません)|読み込め|取得でき|不完全|一部|途中まで",
    re.IGNORECASE,
)
NOTE_LINES = 3  # a note about the history stands right before the message; further up it may be an older one, quoted in a summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message of a thread, as the context shows it. `own`: the bot wrote it. `when` is ISO, "" if the prompt did not say."""

    when: str
    name: str
    speaker: str
    text: str
    own: bool = False
    tags: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for the same message met twice: in its own prompt, and in a thread that was read again. An answer's time differs."""
        letters = re.sub(r"\W+", "", self.text)[:80]
        return ("", "", letters) if self.own else (self.when, self.speaker, letters)

    @property
    def changed(self) -> bool:
        return "edited" in self.tags or "deleted" in self.tags

    @property
    def seconds(self) -> float:
        try:
            return datetime.fromisoformat(self.when).timestamp()
        except ValueError:
            return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The message to be answered. `notes`: what its prompt says about history that is missing."""

    thread: str
    line: Line
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Context:
    """`threads`: lines held, by thread id. `sketches`: thread → first words, from an earlier summary. `open`: `asked` has no answer yet."""

    threads: dict[str, list[Line]] = field(default_factory=dict)
    sketches: dict[str, str] = field(default_factory=dict)
    asked: Asked | None = None
    plain: str = ""
    open: bool = False

    def earlier(self) -> list[Line]:
        """The lines held of the thread that was asked in, oldest first, without the question."""
        if self.asked is None:
            return []
        question = self.asked.line.key
        return [line for line in lines_in_order(self.threads.get(self.asked.thread, [])) if line.key != question]


def read(conversation: Sequence[Turn]) -> Context:
    context = Context()
    for turn in conversation:
        for text in turn.texts:
            if turn.role == "assistant":
                _read_answer(context, text)
            elif text.startswith(CONTINUED):
                context = _after_summary(text)
            elif not text.lstrip().startswith(COMPACTION):
                _read_prompt(context, text)
        if turn.calls_tool:
            context.open = context.asked is not None
    return context


def lines_in_order(lines: Sequence[Line]) -> list[Line]:
    """Each message once, as it was last shown, oldest first; deleted ones are gone. An answer stands right after its question."""
    held: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        if line.changed:
            held = {key: other for key, other in held.items() if line.own or (other.when, other.speaker) != (line.when, line.speaker)}
        if "deleted" not in line.tags and len(line.text) >= len(held.get(line.key, line).text):
            held[line.key] = line
    return sorted(held.values(), key=lambda line: line.seconds)


def _read_answer(context: Context, text: str) -> None:
    if context.asked is None or not text.strip() or text == NO_ANSWER:
        return
    line = Line(when=context.asked.line.when, name="", speaker="", text=text, own=True)
    context.threads.setdefault(context.asked.thread, []).append(line)
    context.open = False


def _read_prompt(context: Context, text: str) -> None:
    context.plain, end = text, 0
    for block in _BLOCK.finditer(text):
        _read_recalled(context, text[end : block.start()])
        end = block.end()
        attributes = dict(_ATTRIBUTE.findall(block[3]))
        thread = attributes.get("id", "")
        if block[1] == "message":
            line = _message_line(attributes, block[4])
            context.threads.setdefault(thread, []).append(line)
            context.asked, context.open = Asked(thread=thread, line=line, notes=tuple(_notes(text, block))), True
        elif block[1] == "thread":
            context.threads.setdefault(thread, []).extend(map(_said, filter(None, map(_LINE.fullmatch, block[4].splitlines()))))
        else:
            _read_recalled(context, block[4])


def _read_recalled(context: Context, text: str) -> None:
    """Lines of a summary that the bot put in front: each names its thread, or stands under a line that does."""
    thread = ""
    for raw in text.splitlines():
        said = _LINE.search(raw)
        named = _THREAD_ID.search(raw[: said.start()] + said["tags"] if said else raw)
        thread = named[0] if named else thread
        if said and thread:
            context.threads.setdefault(thread, []).append(_said(said))


def _said(match: re.Match[str]) -> Line:
    when = "" if match["when"] == "unknown-time" else match["when"]
    own = match["role"].split(",")[0].strip() == "you"
    return Line(when=when, name=match["name"], speaker=match["id"], text=match["text"] or "", own=own, tags=match["tags"])


def _message_line(attributes: Mapping[str, str], body: str) -> Line:
    speaker = _FROM.fullmatch(attributes.get("from", ""))
    name, number = (speaker["name"], speaker["id"]) if speaker else (attributes.get("from", "?"), "")
    when = attributes.get("at", "").replace("unknown-time", "")
    return Line(when=when, name=name, speaker=number, text=body.strip("\n"))


def _notes(prompt: str, message: re.Match[str]) -> Iterator[str]:
    """Lines of the prompt itself, never of a person, that say the history is missing or incomplete."""
    blocks = [block for block in _BLOCK.finditer(prompt, 0, message.start()) if block[1] == "thread"]
    inside = [line for block in blocks for line in block[4].splitlines()]
    before = prompt[blocks[-1].end() if blocks else 0 : message.start()].splitlines()
    around = [line for line in before if line.strip()][-NOTE_LINES:] + prompt[message.end() :].splitlines()
    for line in [*inside, *around]:
        if _UNREAD.search(line) and not _LINE.search(line):
            yield line.strip(" []")


def _after_summary(text: str) -> Context:
    context = Context(sketches=dict(_SKETCH.findall(text)))
    if found := _OPEN.search(text):
        thread, name, when, question = found.groups()
        line = Line(when=when, name=name, speaker="", text=question.replace(" ⏎ ", "\n"))
        context.asked = Asked(thread=thread, line=line)
        context.threads[thread] = []
        context.open = True
    return context
