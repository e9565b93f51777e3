"""An explanation as one page for a terminal, for somebody who has read no documentation. Pure: explanation → lines.

It is good at 80 columns, and `ascii_only` for terminals that know no more. Ids come from outside: whoever prints the
lines takes control characters out of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import groupby

from bot.explain.bars import duration, waterfall
from bot.explain.explanation import INTERRUPTED, OK, RUNNING, WAITING, Explanation, History, ModelCall, Reset, Tool
from bot.explain.words import DROPPED, NO_ANSWER, RESETS, WHAT, in_words, why
from telemetry.events import Outcome, Reason
from telemetry.trace_rows import REPLY, RUN

LABEL = 10  # cells
_ASCII = str.maketrans({"█": "#", "░": ".", "│": "|", "→": "->", "…": "~", "·": "-"})
SOURCES = {
    "log": "From the bot's log: the trace of it was not, or not wholly, stored.",
    "inbox": "From the inbox: there is neither a trace nor a log line of it.",
}

EMBEDDED_ACCOUNT = "embedded"  # as the bot calls it; not taken from there, which would make the command slow
STAND_IN = "(embedded model: nothing is billed)"
UNTRACED = "From the bot's log: what is not taken up has no trace."


def page(explanation: Explanation, *, links: Mapping[str, str], width: int, now: float, zone: tzinfo | None, ascii_only: bool) -> list[str]:
    """`now`: seconds since the epoch; `zone` None: the machine's own."""
    lines = [*_lines(explanation, width=width, now=now, zone=zone), *(_labelled(k.title(), v, width=0) for k, v in links.items())]
    flat = [line for block in lines for line in ([block] if isinstance(block, str) else block)]
    return [line.translate(_ASCII) for line in flat] if ascii_only else flat


def _lines(e: Explanation, *, width: int, now: float, zone: tzinfo | None) -> Iterator[str | list[str]]:
    yield from textwrap.wrap(f"{_head(e)} · {_when(e, now, zone)}" if e.began is not None else _head(e), width)
    if e.source in SOURCES:
        yield SOURCES[e.source] if e.trace_id else UNTRACED
    yield ""
    for label, text in _facts(e):
        if text:
            yield _labelled(label, text, width=width)
    if len(e.parts) > 1:
        yield ""
        yield f"Where the {'time went' if e.seconds is not None else 'time went so far'}:"
        yield from waterfall(e.parts, width=width)
    yield ""
    if e.trace_id:
        yield _labelled("Trace", e.trace_id, width=width)


def _labelled(label: str, text: str, *, width: int) -> list[str]:
    """`width` 0: not wrapped, for what is to be copied."""
    if not width:
        return [f"{label:{LABEL}}{text}"]
    hanging = " " * LABEL
    return textwrap.wrap(text, width, initial_indent=f"{label:{LABEL}}", subsequent_indent=hanging, break_on_hyphens=False)


def _facts(e: Explanation) -> Iterator[tuple[str, str]]:
    if e.kind == REPLY:
        yield "Asked", _asked(e)
        yield "Gate", _gate(e)
        yield "History", _history(e)
    if e.kind == RUN:
        yield "Run", ", ".join(filter(None, (e.run.id, e.run.trigger and f"triggered by {e.run.trigger}")))
        yield "Did", ", ".join(f"{word} {count}" for word, count in e.run.counts.items()) or "nothing"
    yield "Session", _session(e)
    yield "Resets", _resets(e)
    yield "Model", _model(e)
    yield "Tools", _tools([tool for tool in e.tools if tool not in e.memory])
    yield "Memory", _tools(e.memory)
    yield "Attempts", _attempts(e)


# -- the first line ----------------------------------------------------------------------------------------------------
def _head(e: Explanation) -> str:
    took = duration(e.seconds * 1000) if e.seconds is not None else ""
    if e.kind not in (REPLY, RUN):
        return f"{e.name}, {took}" if took else f"{e.name}, still going on"
    what = "" if e.kind == REPLY else f"{e.name}: "
    return what + _end(e, took)


def _end(e: Explanation, took: str) -> str:
    match e.outcome:
        case Outcome.ANSWERED:
            return f"Answered in {took}" if took else "Answered"
        case Outcome.FAILED:
            because = in_words(NO_ANSWER, e.reason)
            return f"No answer{f' after {took}' if took else ''}{', because ' if because else ''}{because} ({e.reason or 'failed'})"
        case Outcome.DROPPED:
            return f"Not answered: {in_words(DROPPED, e.reason)} ({e.reason})"
        case Outcome.CANCELLED if e.kind == REPLY:
            return f"Not answered: the bot was stopped after {took}; it answers at its next start" if not e.next else "Not answered then"
        case _ if e.outcome == WAITING:
            return _waiting(e)
        case _ if e.outcome == RUNNING:
            return "Being answered just now" if e.kind == REPLY else "Running just now"
        case _ if e.outcome == INTERRUPTED:
            after = "" if e.next or e.kind == RUN else "; the message is answered at the next start" if not e.bot_runs else ""
            return f"Interrupted: the bot's process ended before it was done{after}"
    return f"{e.outcome or 'ended'}{f' after {took}' if took else ''}{f': {e.reason}' if e.reason else ''}"


def _waiting(e: Explanation) -> str:
    ahead = "" if not e.ahead else f", with {e.ahead} {'message' if e.ahead == 1 else 'messages'} before it"
    return f"Waiting for its turn{ahead}" if e.bot_runs else "Waiting: no bot runs; it is answered at the next start"


def _when(e: Explanation, now: float, zone: tzinfo | None) -> str:
    began = e.began or 0.0
    return f"{datetime.fromtimestamp(began, zone).astimezone(zone):%Y-%m-%d %H:%M:%S} ({ago(now - began)})"


def ago(seconds: float) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {word}{'' if count == 1 else 's'} ago"
    return "just now" if seconds < 10 else f"{int(seconds)} seconds ago"


# -- the facts ---------------------------------------------------------------------------------------------------------
def _asked(e: Explanation) -> str:
    m = e.message
    if not m.ts:
        return ""
    who = f"by {f'{m.name} ({m.user})' if m.name else m.user} " if m.user else ""
    thread = f", in the thread {m.thread_ts}" if m.thread_ts and m.thread_ts != m.ts else ""
    return f"{who}in {m.channel or 'an unknown channel'}, message {m.ts}{thread}"


def _gate(e: Explanation) -> str:
    g = e.gate
    if not g.decision:
        return "it was not asked" if e.outcome in (Outcome.FAILED, Outcome.DROPPED) else ""
    because = why(g.reason)
    joint = "; " if g.reason == Reason.HELD_DELTA else ", because "
    again = f"; asked {g.tries} times, since the context was lost before an answer was made" if g.tries > 1 else ""
    return f"{in_words(WHAT, g.decision)}{joint if because else ''}{because} ({g.decision}, {g.reason}){again}"


def _history(e: Explanation) -> str:
    h = e.history
    if not (e.gate.decision or h.read or h.injected):
        return ""
    parts = [_read(h)]
    parts += [f"{h.injected} put into the prompt ({e.gate.injection})"] if h.injected else []
    parts += [f"{h.omitted} left out for their length"] if h.omitted else []
    return ", ".join(parts)


def _read(h: History) -> str:
    if not h.read:
        return "the thread could not be read from Slack" if h.incomplete else "nothing read from Slack"
    return f"{_messages(h.read)} read from Slack{', which is not all of the thread' if h.incomplete else ''}"


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _session(e: Explanation) -> str:
    s, g = e.session, e.gate
    key = f"key {s.key}" if s.key and s.key != s.route else ""
    knew = f"{g.known_threads} known thread{'' if g.known_threads == 1 else 's'}" if g.known_threads is not None else ""
    parts = (s.route and f"route {s.route}", key, s.account and f"account {s.account}", s.id, _epoch(g.epoch), knew)
    return ", ".join(filter(None, parts))


def _epoch(epoch: int | None) -> str:
    return f"context number {epoch}" if epoch is not None else ""


def _resets(e: Explanation) -> str:
    on_the_way = "; ".join(map(_reset, e.session.resets))
    since = "; ".join(f"{cause}{f' {n} times' if n > 1 else ''}" for cause, n in _counted(e.session.since))
    if not (on_the_way or since):
        return "none on the way" if e.gate.decision else ""
    return "; ".join(filter(None, (on_the_way and f"on the way: {on_the_way}", since and f"since then: {since}")))


def _counted(resets: tuple[Reset, ...]) -> Iterator[tuple[str, int]]:
    for cause, same in groupby(resets, key=lambda reset: reset.cause):
        yield cause, len(list(same))


def _reset(reset: Reset) -> str:
    forgot = "" if reset.forgotten is None else f", {reset.forgotten} thread{'' if reset.forgotten == 1 else 's'} forgotten"
    shrank = "" if reset.pre_tokens is None else f", {reset.pre_tokens:,} tokens"
    shrank += "" if reset.post_tokens is None else f" → {reset.post_tokens:,}"
    return f"{in_words(RESETS, reset.cause)} ({reset.cause}){forgot}{shrank}"


def _model(e: Explanation) -> str:
    told = model_told(e.model)
    return f"{told} {STAND_IN}" if e.session.account == EMBEDDED_ACCOUNT and "$" in told else told


def model_told(calls: Sequence[ModelCall]) -> str:
    by_model: dict[str, list[ModelCall]] = {}
    for call in calls:
        by_model.setdefault(call.model, []).append(call)
    return "; ".join(_calls(model, calls_) for model, calls_ in by_model.items())


def _calls(model: str, calls: list[ModelCall]) -> str:
    def total(what: str) -> int:
        return sum(getattr(call, what) or 0 for call in calls)

    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    cost = f", ${sum(costs):.4f}" if costs else ""
    tokens = f"{total('input_tokens'):,} tokens in ({total('cache_read_tokens'):,} from the cache), {total('output_tokens'):,} out"
    return f"{model}: {len(calls)} call{'' if len(calls) == 1 else 's'}, {tokens}{cost}"


def _tools(tools: list[Tool] | tuple[Tool, ...]) -> str:
    return ", ".join(
        f"{tool.name}{f' {duration(tool.ms)}' if tool.ms is not None else ''}{'' if tool.status == OK else f' ({tool.status})'}"
        for tool in tools
    )


def _attempts(e: Explanation) -> str:
    if e.attempt == 1 and not (e.previous or e.next):
        return ""
    which = f"this is attempt {e.attempt} at the message" if e.attempt > 1 or e.next else ""
    if e.previous and e.attempt == 1:  # it was still waiting when the bot was stopped
        before = f"it had waited before, until the bot was stopped: {e.previous}"
    else:
        before = f"the one before it: {e.previous}" if e.previous else ""
    after = f"the one after it: {e.next}" if e.next else ""
    return "; ".join(filter(None, (which, before, after)))
