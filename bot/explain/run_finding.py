"""Finds memory runs wherever they left a mark: the trace store, the manifests of what they changed, the files of those that run.

What must stay true: it only reads, and takes no lock; one run is told once, however many processes and files know of it; a source
that is damaged or gone hides no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bot.explain.explanation import INTERRUPTED, RUNNING
from bot.explain.run_words import DONE, UNDO
from bot.explain.runs import MANIFEST, RUN_FILE, Changed, MemoryRun, Operation, Reply, Settled, Survival, joined, run_of
from bot.explain.sources import Sources
from memory.consolidation.journal import Done, Journals, Manifest
from memory.consolidation.outcome import verdict, work_of
from memory.consolidation.undo import undone_by
from memory.disk import Disk
from memory.record_types import path_of
from memory.run_files import RunFile, RunFiles
from telemetry.memory_events import MemoryWorker, RecordKind, RecordOp
from telemetry.names import SpanName
from telemetry.trace_reading import StoredTrace, Summary, TraceReader, Wanted
from telemetry.trace_rows import REPLY, RUN

PREFIX_DIGITS = 4  # less of a trace id is no hint at one


class RunFinder:
    """`insomnia`: `.insomnia`. `sources.bot_runs`: whether any process works in the workspace. All raise OSError where the memory
    cannot be read; a trace store that cannot be read is as one that knows nothing.
    """

    def __init__(self, insomnia: Path, sources: Sources) -> None:
        memory = insomnia / "memory"
        self._sources = sources
        self._files = RunFiles(memory / "_state", disk=Disk())
        self._journals = Journals(memory, disk=Disk())

    def newest(self, *, worker: MemoryWorker | None = None, since: float | None = None, limit: int) -> Sequence[MemoryRun]:
        # A run that was recovered has a trace of each of its processes.
        wanted = Wanted(kinds=(RUN,), name=f"{SpanName.MEMORY_RUN} {worker}" if worker else "", since=since, limit=limit * 2)
        manifests = [] if worker is MemoryWorker.EXTRACT else self._journals.manifests()
        files = [file for file in self._files.all() if worker in (None, file.key.worker)]

        def look(traces: TraceReader | None) -> list[MemoryRun]:
            runs = list(_of_traces(traces.listing(wanted), traces)) if traces else []
            return self._told(_Known(runs, manifests[-limit:], files), manifests, traces)

        kept = [run for run in self._ask(look) if since is None or run.recovered or run.began >= since]
        return sorted(kept, key=lambda run: run.began, reverse=True)[:limit]

    def by_id(self, prefix: str) -> Sequence[MemoryRun]:
        """By the run's id or its trace's, or the beginning of one. More than one: it is ambiguous."""
        manifests, files = self._journals.manifests(), self._files.all()

        def look(traces: TraceReader | None) -> list[MemoryRun]:
            runs = list(_of_traces(_summaries(prefix, traces), traces)) if traces else []
            ids = {run.id for run in runs} | {run.trace_id for run in runs} | {run.died for run in runs}
            near = [
                each for each in manifests if {each.run_id, each.trace_id} & (ids - {""}) or _begins(prefix, each.run_id, each.trace_id)
            ]
            return self._told(_Known(runs, near, files), manifests, traces)

        found = [run for run in self._ask(look) if _begins(prefix, run.id, run.trace_id, run.died)]
        return [run for run in found if run.id == prefix] or found

    def damaged(self, prefix: str = "") -> Sequence[str]:
        """Ids of runs whose manifest cannot be read."""
        return [name for name in self._journals.unreadable() if name.startswith(prefix)]

    def _ask(self, look: Callable[[TraceReader | None], list[MemoryRun]]) -> list[MemoryRun]:
        found = self._sources.ask_traces(look)
        return look(None) if found is None else found

    # -- what else is known of them ------------------------------------------------------------------------------------
    def _told(self, known: _Known, manifests: Sequence[Manifest], traces: TraceReader | None) -> list[MemoryRun]:
        """Each once. `manifests`: all there are, since any of them may undo another."""
        alive, told, done = self._sources.bot_runs(), list[MemoryRun](), set[str]()
        for run in known.runs:
            manifest = known.manifest_of(run)
            if manifest:
                done.add(manifest.run_id)
                run = _with_manifest(run, manifest, manifests)
            elif run.status in (RUNNING, INTERRUPTED):
                run = _with_file(run, known.file_of(run), alive=alive)
            told.append(run)
        for manifest in known.manifests:
            if manifest.run_id not in done:
                told.append(_with_manifest(_of_store(manifest, traces) or _forgotten(manifest), manifest, manifests))
        ids = {run.id for run in told} | {run.trace_id for run in told}
        return [*told, *(_of_file(file, alive=alive) for file in known.files if not {file.run_id, file.trace_id} & ids)]


@dataclass(frozen=True, slots=True)
class _Known:
    """From each source."""

    runs: Sequence[MemoryRun]
    manifests: Sequence[Manifest]
    files: Sequence[RunFile]

    def manifest_of(self, run: MemoryRun) -> Manifest | None:
        ids = {run.id, run.trace_id, run.died} - {""}
        return next((each for each in self.manifests if not each.undoes and ids & {each.run_id, each.trace_id}), None)

    def file_of(self, run: MemoryRun) -> RunFile | None:
        return next((file for file in self.files if file.run_id == run.id or file.trace_id == run.trace_id), None)


def _summaries(prefix: str, traces: TraceReader) -> list[Summary]:
    found = traces.by_run(prefix)
    by_trace = traces.by_prefix(prefix) if len(prefix) >= PREFIX_DIGITS and _is_hex(prefix) else []
    for summary in by_trace:
        if summary.kind == RUN and summary not in found and (stored := traces.trace(summary.trace_id)):
            found += (traces.by_run(run_of(stored).id) if run_of(stored).id else []) or [summary]  # with that of whoever ended it
    return sorted(found, key=lambda summary: summary.started, reverse=True)


def _of_traces(summaries: Sequence[Summary], traces: TraceReader) -> Iterator[MemoryRun]:
    """Newest first; the trace of a process that died is part of the run that was recovered from it."""
    died: set[str] = set()
    for summary in summaries:
        if summary.kind != RUN or summary.trace_id in died or (stored := traces.trace(summary.trace_id)) is None:
            continue
        run = run_of(stored)
        while (before := _died(stored, traces)) is not None and before.about.trace_id not in died:
            died.add(before.about.trace_id)
            run, stored = joined(run, replace(run_of(before), reply=_reply(before, traces))), before
        yield replace(run, reply=run.reply or _reply(stored, traces))


def _links(stored: StoredTrace) -> Sequence[str]:
    return [link.trace_id for link in stored.root.links] if stored.root else []


def _died(stored: StoredTrace, traces: TraceReader) -> StoredTrace | None:
    """A run that links to a run tells the end of that one."""
    found = (traces.trace(link) for link in _links(stored) if link != stored.about.trace_id)
    return next((trace for trace in found if trace and trace.about.kind == RUN), None)


def _reply(stored: StoredTrace, traces: TraceReader) -> Reply | None:
    """One that the store has forgotten is told by its trace alone; a run that died and is forgotten looks the same, and is neither."""
    for link in _links(stored):
        about = next(iter(traces.by_prefix(link)), None)
        if about is not None and about.kind == REPLY:
            return reply_of(about)
        if about is None and not run_of(stored).recovered:
            return Reply(trace_id=link)
    return None


def reply_of(about: Summary) -> Reply:
    words = {name: getattr(about, name) for name in ("team", "channel", "ts", "thread_ts", "outcome")}
    return Reply(trace_id=about.trace_id, **words)


# -- manifests and run files -------------------------------------------------------------------------------------------
def _of_store(manifest: Manifest, traces: TraceReader | None) -> MemoryRun | None:
    """What is not among the newest traces may still be in the store."""
    if traces is None or manifest.undoes or not manifest.trace_id:
        return None
    return next(iter(_of_traces(traces.by_prefix(manifest.trace_id), traces)), None)


def _forgotten(manifest: Manifest) -> MemoryRun:
    """The trace store has no trace of it (any more)."""
    status, reason = (UNDO, "") if manifest.undoes else verdict(manifest)
    return MemoryRun(
        id=manifest.run_id,
        trace_id=manifest.trace_id,
        source=MANIFEST,
        began=manifest.at,
        worker=str(MemoryWorker.CONSOLIDATION),
        status=str(status),
        reason=str(reason),
    )


def _with_manifest(run: MemoryRun, manifest: Manifest, manifests: Sequence[Manifest]) -> MemoryRun:
    """What happened on the disk, which the manifest knows best."""
    work, later = work_of(manifest), undone_by(manifest, manifests)
    survival = Survival(records_lost=work.records_lost, specifics_lost=work.specifics_lost, records=work.records, specifics=work.specifics)
    there = {each.path for each in manifest.applied}
    if run.status in (RUNNING, INTERRUPTED):  # its process died after the commit, or is just ending
        status, reason = verdict(manifest)
        run = replace(run, status=str(status), reason=str(reason))
    return replace(
        run,
        id=manifest.run_id,
        scope=manifest.scope or run.scope,
        given=None if manifest.undoes else work.staging_count,
        invalid=work.invalid_count,
        counts={DONE[op]: count for op in RecordOp if (count := work.ops.get(op, 0))},
        dispositions={str(disposition): count for disposition, count in work.dispositions.items()},
        survival=None if manifest.undoes else survival,
        undoes=manifest.undoes,
        undone_by=later.run_id if later else "",
        operations=tuple(replace(each, applied=_path(each) in there) if each.outcome == "planned" else each for each in run.operations),
        changed=tuple(map(_changed, manifest.done)),
        settled=tuple(
            Settled(candidate=one, disposition=found.disposition, reason=found.reason, record=found.record)
            for one, found in manifest.resolutions.items()
        ),
    )


def _path(each: Operation) -> str:
    return path_of(RecordKind(each.kind), each.slug) if each.kind in set(RecordKind) and each.slug else ""


def _changed(done: Done) -> Changed:
    there = {"new": not done.before_sha256, "gone": not done.after_sha256}
    return Changed(path=done.path, op=done.op, applied=done.applied, into=done.into, why=done.note, **there)


def _with_file(run: MemoryRun, file: RunFile | None, *, alive: bool) -> MemoryRun:
    """Of one that has not ended: its file knows its id; where nobody works in the workspace nothing runs."""
    run = replace(run, id=run.id or file.run_id, trigger=run.trigger or str(file.trigger)) if file else run
    return run if alive else replace(run, status=INTERRUPTED)


def _of_file(file: RunFile, *, alive: bool) -> MemoryRun:
    """Begun a moment ago, or by a process that left no trace."""
    return MemoryRun(
        id=file.run_id,
        trace_id=file.trace_id,
        source=RUN_FILE,
        began=file.started_at,
        worker=str(file.key.worker),
        trigger=str(file.trigger),
        status=RUNNING if alive else INTERRUPTED,
    )


def _begins(prefix: str, run_id: str, *traces: str) -> bool:
    by_trace = len(prefix) >= PREFIX_DIGITS and any(trace.startswith(prefix) for trace in traces)
    return run_id.startswith(prefix) or by_trace


def _is_hex(text: str) -> bool:
    return set(text) <= set("0123456789abcdef")
