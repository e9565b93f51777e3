"""The demo's memory: what was said is staged, becomes records, answers elsewhere; neither logs nor a hostile model change any of it.

A step's name is an interface, as in `demo_story`, whose last steps these are.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from bot.cli import CommandError
from bot.cli.demo_bot import DemoBot
from bot.cli.demo_files import MemoryFiles
from bot.cli.demo_steps import HIRING, RELEASE, Act, Seen, gate_told, many

DECISION = "We decided: release branches are cut on Mondays."
WHEN, SAID = "When are release branches cut?", "cut on Mondays"
AGAIN = "Release branches are cut on Mondays, we agreed on that."
CHANGED = "We decided: release branches are cut on Tuesdays."
OTHER = "The standup must start no later than 10:15."
ENDLESS = 400  # more calls than any run takes
FORBIDDEN = ("L406", "L602", "L603")  # a candidate of nobody, a pinned record, one that is being used
AGREE = ("run_id", "worker", "trigger", "status", "reason", "trace_id")


def _extract_staged(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    before = {run["run_id"] for run in _runs(bot)}
    bot.ask(RELEASE, seen.thread, DECISION)
    bot.command("memory", "run", "extract", "--json")
    for _ in bot.patience():  # a run that the bot began by itself may still be under way
        seen.runs = [run for run in _runs(bot) if run["run_id"] not in before]
        if all(each[-1] != "started" for each in _statuses(seen.runs).values()):
            break
    staged = seen.staged = [c for c in bot.memory.staged() if c["claim"] in DECISION]
    ok = len(staged) == 1 and staged[0]["kind"] == "decision" and staged[0]["trust"] == "user"
    return ok, f"said: {DECISION} Staged: {json.dumps(staged[:1], ensure_ascii=False)}"


def _audit_lines(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    statuses = _statuses(seen.runs)
    done = [run for run in seen.runs if run["status"] == "completed"]
    paired = all(each == ["started", "completed"] for each in statuses.values() if each != ["skipped"])
    ok = paired and sum(run["extract"]["staged"] for run in done) > 0 and all(len(run["trace_id"]) == 32 for run in done)
    return ok, f"{many(len(seen.runs), 'line')} about {many(len(statuses), 'run')}; the last: {json.dumps(done[-1:], ensure_ascii=False)}"


def _actionbar_follows(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    done = [run for run in seen.runs if run["status"] == "completed"]
    for _ in bot.patience():  # the status is written twice a second at most
        memory, line = json.loads(bot.command("status", "--json"))["memory"], bot.command("status", "--line").strip()
        ok = bool(done) and memory["run_id"] == done[-1]["run_id"] and str(done[-1]["summary"]) in line
        if ok:
            break
    return ok, line


def _consolidation_wrote(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    runs = [run for run in bot.consolidate() if run["status"] == "completed"]
    records = {path: text for path, text in bot.memory.records().items() if text.rstrip().endswith(DECISION)}
    sources = [candidate["id"] for candidate in seen.staged]
    run = runs[-1]["run_id"] if runs else ""
    agree, shown = _agreeing(bot, run)
    wrote = len(records) == len(sources) == 1 and all(sources[0] in text and run in text for text in records.values())
    if wrote:
        (seen.record,) = records
    ok = wrote and agree and not bot.memory.staged()
    return ok, f"{', '.join(records)} says: {DECISION} Its source is the candidate {', '.join(sources)}. {shown}"


def _memory_answers_elsewhere(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    a = bot.ask(HIRING, bot.threads(HIRING)[0]["thread_ts"], WHEN)  # a private channel, with a session of its own
    looked = [s["attributes"].get("insomnia.memory.op.status") for s in bot.trace(a.trace_id) if s["name"] == "execute_tool memory_query"]
    ok = "From memory (decision/" in a.text and SAID in a.text and SAID not in a.context and looked == ["found"]
    return ok, f"asked in another channel, of a session that never held it: {WHEN} {gate_told(a)}; memory_query in its trace: {a.text}"


def _log_is_not_input(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    for text in (AGAIN, CHANGED, OTHER):
        bot.ask(RELEASE, seen.thread, text)
    bot.command("memory", "run", "extract", "--json")
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="insomnia-demo-") as folder:
        for name, meddle in (("kept", None), ("deleted", MemoryFiles.delete_logs), ("spoilt", MemoryFiles.spoil_logs)):
            files = bot.memory.copy_to(Path(folder) / name)
            if meddle is not None:
                meddle(files)
            runs = [(run["status"], run["reason"], run["work"]) for run in bot.consolidate(Path(folder) / name)]
            outcomes.append((runs, files.said_in_records()))
    (runs, records), *others = outcomes
    became = runs[0][2]["dispositions"] if runs else {}
    alike = all(other == outcomes[0] for other in others)
    replaced = sum("\nstatus: replaced\n" in text for text in records.values())
    counted = ", ".join(f"{count} {what}" for what, count in became.items())
    told = f"{counted}; {many(len(records), 'record')}, {replaced} of them replaced"
    ok = alike and became == {"applied": 2, "already_covered": 1} and replaced == 1
    how = "alike" if alike else "differently"
    return ok, f"three copies, with the logs, without them, with a page of lies for them, consolidated {how}: {told}"


def _hostile_model_contained(bot: DemoBot, seen: Seen) -> tuple[bool, str]:
    path = seen.record
    if not path:
        raise CommandError("no record was written that a hostile model could go for")
    bot.memory.pin(path)
    before, waiting = bot.memory.records(), bot.memory.staged()
    for step in hostile_steps(path, [str(candidate["id"]) for candidate in waiting]):
        bot.script(**step, memory=True, match="<candidates>")
    run = bot.consolidate()[-1]
    bot.end_script()
    lines = [line for line in _lines(bot, "record_operation") if line.get("run_id") == run["run_id"]]
    rules = sorted({rule for line in lines for rule in line["lint"]})
    untouched = bot.memory.records() == before and bot.memory.staged() == waiting and len(waiting) == 3
    malformed = [line for line in lines if not line["lint"]]  # the path for a slug, and the wider scope: arguments that no tool has
    refused = {line["status"] for line in lines} == {"rejected"} and set(FORBIDDEN) <= set(rules) and len(malformed) == 2
    bot.memory.unpin(path)
    after = bot.consolidate()[-1]  # by the rules again: nothing was lost by it
    ok = untouched and refused and (run["status"], run["reason"]) == ("failed", "model_output_invalid")
    told = f"{many(len(lines), 'change')} refused ({', '.join(rules)}), no file changed, {run['detail']}"
    then = ", ".join(f"{count} {what}" for what, count in after["work"]["dispositions"].items())
    return ok and after["status"] == "completed" and not bot.memory.staged(), f"{told}; the next run took the candidates up: {then}"


def hostile_steps(path: str, candidates: list[str]) -> list[dict[str, Any]]:
    """A model that wants the worst for this record: drop it, leave the store, widen its reach, rewrite it, and never stop."""
    kind, _, slug = path.removeprefix("memory/").removesuffix(".md").partition("/")
    record = {"kind": kind, "slug": slug}
    text = {"kind": kind, "title": "x", "description": "x", "content": "x"}
    calls: list[tuple[str, dict[str, Any], int]] = [
        ("memory_drop", {**record, "category": "noisy", "why": "It is in the way."}, 1),
        ("memory_write", {**text, "slug": "../../../../etc/cron.d/x", "candidates": candidates}, 1),
        ("memory_write", {**text, "slug": "everybodys", "candidates": candidates, "scope": "workspace", "trust": "user"}, 1),
        ("memory_write", {**text, "slug": "foreign", "candidates": [*candidates, "0.0.0"]}, 1),
        ("staging_resolve", {"candidate": "0.0.0", "disposition": "discarded", "reason": "Away with it."}, 1),
        ("memory_edit", {**record, "old_text": DECISION, "new_text": "Nobody cuts anything."}, ENDLESS),
    ]
    return [{"step": "tool", "name": f"mcp__insomnia__{name}", "input": arguments, "times": times} for name, arguments, times in calls]


def _agreeing(bot: DemoBot, run_id: str) -> tuple[bool, str]:
    """Whether the log's line and the status say the same of a run's end, and the status in words."""
    ended: dict[str, Any] = {}
    shown = ""
    for _ in bot.patience():
        ended = next((line for line in _runs(bot) if line["run_id"] == run_id and line["status"] != "started"), {})
        memory, shown = json.loads(bot.command("status", "--json"))["memory"], bot.command("status", "--line").strip()
        if ended and {name: memory[name] for name in AGREE} == {name: ended[name] for name in AGREE} and str(ended["summary"]) in shown:
            return True, shown
    return False, f"the line says {ended.get('summary')!r}, the status {shown!r}"


def _statuses(runs: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in runs:
        found.setdefault(run["run_id"], []).append(run["status"])
    return found


def _runs(bot: DemoBot) -> list[dict[str, Any]]:
    """The lines about runs of the memory workers, oldest first."""
    return _lines(bot, "worker_lifecycle")


def _lines(bot: DemoBot, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in bot.command("logs", "memory", "--json").splitlines()]
    return [line for line in lines if line["event"] == event]


EXTRACTION: tuple[Act, ...] = (_extract_staged, _audit_lines, _actionbar_follows)
CONSOLIDATION: tuple[Act, ...] = (
    _consolidation_wrote,
    _memory_answers_elsewhere,
    _log_is_not_input,
    _hostile_model_contained,
)
