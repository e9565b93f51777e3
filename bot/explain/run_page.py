"""Memory runs for a terminal: one line each, or one of them as a page. Pure: plain values → lines.

Good at 80 columns; ids and reasons come from outside: whoever prints the lines takes control characters out of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

from bot.explain.bars import duration
from bot.explain.explanation import INTERRUPTED, RUNNING
from bot.explain.page import LABEL, ago, model_told
from bot.explain.run_words import DONE, REASONS, STATUSES, TRIGGERS, UNDO
from bot.explain.runs import MANIFEST, RUN_FILE, Changed, MemoryRun, Operation, ReadRange, Reply, Settled
from bot.explain.wrapping import whole, wrap
from memory.lint_rules import RULES, Rule
from telemetry.memory_events import MemoryStatus, RecordOp

MOST_ROWS = 60  # of a list on the page; the rest is in the JSON
SHORT_ID = 8
HEADINGS = ("TIME", "RUN", "WORKER", "TRIGGER", "STATUS", "TOOK", "COST", "WHAT")
WIDE_ONLY = ("COST", "TRIGGER", "TOOK", "WORKER")  # left out in this order where there is no room
FORGOTTEN = "From its manifest: the trace store has no trace of it (any more)."
ONLY_BEGUN = "From its run file: it has not ended, and there is no trace of it yet."


# -- a line ------------------------------------------------------------------------------------------------------------
def row(run: MemoryRun) -> tuple[str, ...]:
    when = f"{datetime.fromtimestamp(run.began):%Y-%m-%d %H:%M}"
    cost = "" if run.cost_usd is None else f"${run.cost_usd:.4f}"
    took = "" if run.seconds is None else duration(run.seconds * 1000)
    return (when, run.id[:SHORT_ID] or run.trace_id[:SHORT_ID], short(run.worker), run.trigger, run.status or "?", took, cost, what(run))


def what(run: MemoryRun) -> str:
    """What it did, or why it did nothing."""
    notes = (
        f"taken back by {run.undone_by[:SHORT_ID]}" if run.undone_by else "",
        _what(run),
        "its process died; a later one ended it" if run.recovered else "",
        "the trace store has forgotten it" if run.source == MANIFEST and not run.undoes else "",
    )
    return "; ".join(filter(None, notes))


def _what(run: MemoryRun) -> str:
    if run.undoes:
        return f"undo of {run.undoes[:SHORT_ID]}: {_count(len(run.changed), 'file')}"
    if run.status in (RUNNING, INTERRUPTED):
        return _candidates(run.given) if run.given else ""
    if run.status != MemoryStatus.COMPLETED:
        return f"{_spaced(run.reason)}{f' ({run.detail})' if run.detail else ''}"
    did = _did(run.counts) or _spaced(run.reason)
    of = f" (of {_candidates(run.given)})" if run.given else ""
    read = f" (of {_entries(run.read)})" if run.read and run.read.first else ""
    return f"{did}{of}{read}"


def short(worker: str) -> str:
    return worker.removeprefix("memory_")


def _did(counts: Mapping[str, int]) -> str:
    """A file that goes is told as what took it away."""
    told = {word: count for word, count in counts.items() if count}
    if told.keys() & {DONE[RecordOp.DROP], DONE[RecordOp.MERGE]}:
        told.pop(DONE[RecordOp.DELETE], None)
    return ", ".join(f"{word} {count}" for word, count in told.items())


# -- a page ------------------------------------------------------------------------------------------------------------
def page(run: MemoryRun, *, width: int, now: float, zone: tzinfo | None) -> list[str]:
    """`now`: seconds since the epoch; `zone` None: the machine's own."""
    return list(_page(run, width=width, now=now, zone=zone))


def _page(run: MemoryRun, *, width: int, now: float, zone: tzinfo | None) -> Iterator[str]:
    yield from wrap(f"{_head(run)} · {_when(run.began, now, zone)}", width)
    if run.source == MANIFEST and not run.undoes:
        yield from wrap(FORGOTTEN, width)
    if run.source == RUN_FILE:
        yield from wrap(ONLY_BEGUN, width)
    yield ""
    for label, told in _facts(run):
        if told:
            yield from wrap(told, width, label=f"{label:{LABEL}}")
    yield from _section("What its tools did, in order:", [_operation(each) for each in run.operations], width)
    yield from _section("Its candidates:", [_settled(each) for each in run.settled], width)
    yield from _section("Files, below .insomnia:", [_changed(each) for each in run.changed], width)


def _section(title: str, rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[str]:
    """Columns of the first two parts, the third one wrapped."""
    if not rows:
        return
    yield ""
    yield title
    shown = rows[:MOST_ROWS]
    first, second = (max(len(each[column]) for each in shown) for column in (0, 1))
    for one, two, rest in shown:
        label = f"  {one:{first}}  {two:{second}}  "
        if len(label) <= width:
            yield from wrap(rest, width, label=label, indent=6)
        else:
            yield from wrap(f"{one}  {two}  {rest}", width, label="  ", indent=6)
    if len(rows) > MOST_ROWS:
        yield f"  and {len(rows) - MOST_ROWS} more: --json shows them all"


def _head(run: MemoryRun) -> str:
    if run.undoes:
        return f"Run {run.undoes} {STATUSES[UNDO]}"
    word = STATUSES.get(run.status, run.status)
    took = f" after {duration(run.seconds * 1000)}" if run.seconds is not None and run.status != MemoryStatus.SKIPPED else ""
    return f"{short(run.worker).capitalize() or 'Memory run'} {word}{took}{f' ({run.reason})' if run.reason else ''}"


def _when(began: float, now: float, zone: tzinfo | None) -> str:
    return f"{datetime.fromtimestamp(began, zone).astimezone(zone):%Y-%m-%d %H:%M:%S} ({ago(now - began)})"


def _facts(run: MemoryRun) -> Iterator[tuple[str, str]]:
    yield "Run", run.id or "its id is not known: it had not ended when its process did"
    yield "Because", _because(run)
    yield "Trigger", f"{TRIGGERS.get(run.trigger, 'it is not known')} ({run.trigger})" if run.trigger else ""
    yield "After", _reply(run.reply)
    yield "Died", f"its process died; what it had begun is in the trace {run.died}" if run.died else ""
    yield "Read", _read(run.read)
    yield "Given", _given(run)
    yield "Did", _did(run.counts)
    yield "Settled", ", ".join(f"{word} {count}" for word, count in run.dispositions.items())
    yield "Lost", _lost(run)
    yield "Model", model_told(run.model)
    yield "Undo", _undo(run)
    yield "Trace", run.trace_id


def _because(run: MemoryRun) -> str:
    return "; ".join(filter(None, (REASONS.get(run.reason, _spaced(run.reason)), run.detail)))


def _reply(reply: Reply | None) -> str:
    if reply is None:
        return ""
    where = f"the reply to {reply.channel}/{reply.ts}" if reply.ts else "a reply that the trace store has forgotten"
    thread = f" in the thread {reply.thread_ts}" if reply.thread_ts not in ("", reply.ts) else ""
    return f"{where}{thread}: {whole(f'insomnia why {reply.trace_id[:SHORT_ID]}')}" if reply.ts else where


def _read(read: ReadRange | None) -> str:
    if read is None:
        return ""
    entries = f", {_entries(read)} of its log" if read.first else ""
    shown = f", {read.entries} of them shown to the model" if read.entries else ""
    return f"session {read.session_id}{f' of the route {read.route}' if read.route else ''}{entries}{shown}"


def _entries(read: ReadRange) -> str:
    return f"entry {read.first}" if read.first == read.last else f"entries {read.first} to {read.last}"


def _given(run: MemoryRun) -> str:
    if run.given is None:
        return ""
    aside = (
        f"; {_count(run.invalid, 'file')} beside them {'was' if run.invalid == 1 else 'were'} none, and put aside" if run.invalid else ""
    )
    return f"{_candidates(run.given)}{f' of the scope {run.scope}' if run.scope else ''}{aside}"


def _lost(run: MemoryRun) -> str:
    if run.survival is None:
        return ""
    s = run.survival
    of_records, of_specifics = (f" of {total}" if total is not None else "" for total in (s.records, s.specifics))
    return f"{s.records_lost}{of_records} records, {s.specifics_lost}{of_specifics} names, numbers and dates of its scope"


def _undo(run: MemoryRun) -> str:
    if run.undone_by:
        return f"it was taken back by {run.undone_by}; to have it again: {whole(f'insomnia memory undo {run.undone_by}')}"
    if any(each.applied for each in run.changed):
        return f"{whole(f'insomnia memory undo {run.id}')} takes it back; with --dry-run it only shows what that would do"
    return "it changed no record, so there is nothing to take back" if run.changed or run.settled else ""


# -- rows of the page --------------------------------------------------------------------------------------------------
def _operation(each: Operation) -> tuple[str, str, str]:
    record = f"{each.kind}/{each.slug}" if each.slug else each.kind
    if each.outcome == "planned":
        ended = {True: "planned, applied", False: "planned, not applied", None: "planned"}[each.applied]
    else:
        ended = _spaced(each.outcome)
    found = "" if each.results is None else _count(each.results, "record")
    settled = f"{each.candidate} {each.disposition}".strip()
    told = filter(None, (ended, found, settled, "; ".join(map(_rule, each.rules))))
    return each.tool, record, ": ".join(told)


def _rule(rule: str) -> str:
    return f"{rule} {RULES[Rule(rule)][0]}" if rule in set(Rule) else rule


def _settled(each: Settled) -> tuple[str, str, str]:
    return each.candidate, each.disposition, ": ".join(filter(None, (each.record, each.reason)))


def _changed(each: Changed) -> tuple[str, str, str]:
    if not each.applied:
        return "not done", each.path, "somebody had changed it meanwhile, and theirs stays"
    note = f"merged into {each.into}" if each.into else "new" if each.new else "removed" if each.gone else ""
    return DONE.get(each.op, each.op), each.path, "; ".join(filter(None, (note, each.why)))


def _candidates(count: int) -> str:
    return _count(count, "candidate")


def _count(number: int, what_: str) -> str:
    return f"{number} {what_}{'' if number == 1 else 's'}"


def _spaced(word: str) -> str:
    return word.replace("_", " ")
