"""`insomnia memory lint`, `list` and `show`: the memory's files as a person sees and edits them.

What must stay true: nothing here changes a record; `list` and `show` are told like every other reading of the memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
from pathlib import Path
from typing import Any

from bot.cli import FAILED, USAGE, CommandError
from bot.cli.memory_query import CALLER, ask
from bot.cli.put_aside import put_aside
from bot.cli.terminal import grey, one_line, safe, table
from bot.workspace import Workspace
from memory.lint import Report, Violation
from memory.lint import lint as lint_view
from memory.reading_schemas import EVERYTHING, KNOWLEDGE_QUERY, KNOWLEDGE_READ, MEMORY_QUERY, MEMORY_READ
from memory.records import BadRecord, Record, RecordKind
from memory.store import Store, StoreBusy, Stored, StoreView
from memory.tools import Asker

OWNER = Asker(caller=CALLER, scope=None)
HOW_TO_MEND = "insomnia memory lint"


def lint(args: argparse.Namespace) -> int:
    """Ends with 1 if there is an error; warnings alone are no failure."""
    view = _view(memory_workspace(args))
    report = lint_view(view)
    if args.json:
        print(json.dumps(_report_as_json(report, view), ensure_ascii=False, indent=2))
    else:
        _print_report(report, view)
    return FAILED if report.errors else 0


def list_records(args: argparse.Namespace) -> int:
    workspace = memory_workspace(args)
    view = _view(workspace)
    reading = {None: EVERYTHING, RecordKind.KNOWLEDGE: KNOWLEDGE_QUERY}.get(args.kind, MEMORY_QUERY)
    narrowed = {key: value for key in ("kind", "status") if (value := getattr(args, key)) and key in reading.spec.schema["properties"]}
    ask(workspace, reading, {"query": "", **narrowed}, OWNER)
    shown = sorted((each for each in view.stored.values() if _wanted(each, args)), key=_newest_first)
    if args.json:
        print(json.dumps([_as_json(each) for each in shown], ensure_ascii=False, indent=2))
        return 0
    if not shown:
        print("Nothing is remembered like that." if args.kind or args.status else "Nothing is remembered yet.")
    else:
        print(safe(table([("KIND", "SLUG", "STATUS", "SCOPE", "UPDATED", "TITLE"), *map(_row, shown)])))
    if any(isinstance(each.record, BadRecord) for each in shown) or view.strays:
        print(grey(f"Some files cannot be read: {HOW_TO_MEND}"))
    if told := put_aside(workspace.state):
        print(grey(told))
    return 0


def show(args: argparse.Namespace) -> int:
    workspace = memory_workspace(args)
    stored = _find(_view(workspace), args.record)
    if stored.kind is RecordKind.KNOWLEDGE:
        ask(workspace, KNOWLEDGE_READ, {"slug": stored.slug}, OWNER)
    else:
        ask(workspace, MEMORY_READ, {"kind": str(stored.kind), "slug": stored.slug}, OWNER)
    if args.json:
        print(json.dumps({**_as_json(stored), "text": stored.text}, ensure_ascii=False, indent=2))
        return 0
    print(grey(safe(f"{workspace.state / stored.path}{'  (edited by hand)' if stored.unaudited else ''}")))
    print(safe(stored.text.rstrip("\n")))
    if isinstance(stored.record, BadRecord):
        print(grey(f"This is no valid record, and no answer uses it: {HOW_TO_MEND}"))
    return 0


def memory_workspace(args: argparse.Namespace) -> Workspace:
    workspace = Workspace(args.workspace.resolve())
    if not workspace.state.is_dir():
        raise CommandError(f"there is no .insomnia in {workspace.root}; name the directory of the bot: --workspace DIR", USAGE)
    return workspace


def _view(workspace: Workspace) -> StoreView:
    try:
        return Store(workspace.state).view()
    except StoreBusy as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        where = Path(error.filename).name if isinstance(error.filename, str) else "a file of the memory"
        raise CommandError(f"the memory in {workspace.state} cannot be read ({where}: {error.strerror})") from error


def _wanted(stored: Stored, args: argparse.Namespace) -> bool:
    status = stored.record.status if isinstance(stored.record, Record) else None
    return args.kind in (None, stored.kind) and args.status in (None, status)


def _newest_first(stored: Stored) -> tuple[float, str]:
    """What cannot be read comes first: somebody has to look at it."""
    return (-stored.record.updated_at.timestamp() if isinstance(stored.record, Record) else float("-inf"), stored.path)


def _row(stored: Stored) -> tuple[str, ...]:
    record = stored.record
    if isinstance(record, BadRecord):
        return (stored.kind, stored.slug, "invalid", "", "", f"({HOW_TO_MEND})")
    mark = " (edited by hand)" if stored.unaudited else ""
    return (stored.kind, stored.slug, record.status, str(record.scope), f"{record.updated_at:%Y-%m-%d}", one_line(record.title) + mark)


def _find(view: StoreView, name: str) -> Stored:
    wanted = name.removeprefix(".insomnia/").removeprefix("memory/").removesuffix(".md")
    kind, _, slug = wanted.rpartition("/")
    found = [each for each in view.stored.values() if each.slug == slug and kind in ("", each.kind)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{each.kind}/{each.slug}" for each in found)
        raise CommandError(f"there are several of that name; say which: {names}", USAGE)
    near = difflib.get_close_matches(slug, {each.slug for each in view.stored.values()}, n=3)
    close = [f"{each.kind}/{each.slug}" for each in view.stored.values() if each.slug in near]
    hint = f"Did you mean {' or '.join(close)}?" if close else "See what there is: insomnia memory list"
    raise CommandError(f"there is no record {one_line(name)}. {hint}")


def _as_json(stored: Stored) -> dict[str, Any]:
    head = {"kind": stored.kind, "slug": stored.slug, "path": stored.path, "sha256": stored.sha256, "edited_by_hand": stored.unaudited}
    if isinstance(stored.record, BadRecord):
        return {**head, "valid": False, "problems": [dataclasses.asdict(problem) for problem in stored.record.problems]}
    record = stored.record
    return {
        **head,
        "valid": True,
        "title": record.title,
        "description": record.description,
        "status": record.status,
        "scope": str(record.scope),
        "trust": record.trust,
        "pinned": record.pinned,
        "created_at": record.created_at.isoformat(),
        "updated_at": record.updated_at.isoformat(),
        "replaced_by": record.replaced_by or None,
        "run_id": record.run_id or None,
        "knowledge_kind": record.knowledge_kind,
        "sources": [{**dataclasses.asdict(source), "ts": source.ts.isoformat()} for source in record.sources],
    }


def _report_as_json(report: Report, view: StoreView) -> dict[str, Any]:
    return {
        "files": len(view.stored) + len(view.strays),
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "violations": [dataclasses.asdict(violation) for violation in report.violations],
    }


def _print_report(report: Report, view: StoreView) -> None:
    by_path: dict[str, list[Violation]] = {}
    for violation in report.violations:
        by_path.setdefault(violation.path, []).append(violation)
    for path, violations in by_path.items():
        print(safe(f".insomnia/{path}"))
        for each in violations:
            where = f"line {each.line}: " if each.line else ""
            print(safe(f"  {each.rule} {each.severity}  {where}{each.message}"))
            print(grey(safe(f"       {each.mend}")))
    print(_summary(report, len(view.stored)))


def _summary(report: Report, records: int) -> str:
    checked = _count(records, "record")
    if not report.violations:
        return f"{checked} checked, nothing is wrong."
    return f"{checked} checked: {_count(len(report.errors), 'error')}, {_count(len(report.warnings), 'warning')}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
