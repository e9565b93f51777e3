"""Records, and files in a store, made with few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory.records import KnowledgeKind, Record, RecordKind, Scope, Source, Status, Trust, moment, path_of, render
from memory.store_scan import look
from memory.store_view import StoreView

NOW = 1_764_547_200.0


def source(**changed: Any) -> Source:
    return Source(**{"session": "5e1d", "range": (12, 15), "candidate": "5e1d.12.1", "ts": moment(NOW), **changed})


def record(slug: str = "deploy-freeze", **changed: Any) -> Record:
    kind = changed.get("kind", RecordKind.DECISION)
    waits = kind in (RecordKind.REQUEST, RecordKind.QUESTION)
    fields = {
        "kind": kind,
        "slug": slug,
        "title": "金曜のデプロイ凍結",
        "description": "Before a deploy",
        "status": Status.OPEN if waits else Status.ACTIVE,
        "scope": Scope.workspace(),
        "trust": Trust.USER,
        "body": f"The freeze begins on Friday at 15:00, says {slug}.",
        "created_at": moment(NOW),
        "updated_at": moment(NOW),
        "knowledge_kind": KnowledgeKind.FACT if kind is RecordKind.KNOWLEDGE else None,
    }
    return Record(**{**fields, **changed})


def text_of(**changed: str | None) -> str:
    """A file as somebody writes it by hand; None leaves the key out. `body` is the text."""
    fields = {
        "title": "Freeze",
        "description": "Before a deploy",
        "status": "active",
        "scope": "workspace",
        "trust": "user",
        "created_at": "2026-11-30T09:00:00Z",
        "updated_at": "2026-11-30T09:00:00Z",
        **changed,
    }
    body = fields.pop("body", "Friday at 15:00.")
    front = "".join(f"{key}: {value}\n" for key, value in fields.items() if value is not None)
    return f"---\n{front}---\n\n{body}\n"


def put(root: Path, content: str | bytes, slug: str = "deploy-freeze", kind: RecordKind = RecordKind.DECISION) -> Path:
    """By hand, as an editor does it."""
    path = root / path_of(kind, slug)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def view_of(root: Path, *records: Record) -> StoreView:
    for each in records:
        put(root, render(each), each.slug, each.kind)
    return look(root, lambda path, sha256: True)
