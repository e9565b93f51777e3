"""Looks at the disk and makes a view of it.

What must stay true: nothing vanishes silently: a file that is no record is there as `BadRecord` or as a `Stray`; a half-done
write of ours (`.tmp-`), and what an editor hides with a dot, is neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from memory import store_files
from memory.frontmatter import Problem
from memory.lint_rules import Rule
from memory.records import BadRecord, Record, RecordKind, is_slug, parse, path_of, sha256
from memory.store_view import MAX_FILE_BYTES, Key, Stored, StoreView, Stray

SUFFIX = ".md"


def folder_of(kind: RecordKind) -> tuple[str, ...]:
    return ("knowledge",) if kind is RecordKind.KNOWLEDGE else ("memory", str(kind))


def look(root: Path, is_known: Callable[[str, str], bool]) -> StoreView:
    """`is_known(path, sha256)`: whether a tool of ours wrote that."""
    stored: dict[Key, Stored] = {}
    strays = list(_misplaced(root))
    for kind in RecordKind:
        for found in _folder(root, kind, is_known):
            if isinstance(found, Stored):
                stored[found.kind, found.slug] = found
            else:
                strays.append(found)
    return StoreView(stored=stored, strays=tuple(strays))


def _misplaced(root: Path) -> Iterator[Stray]:
    kinds = {str(kind) for kind in RecordKind if kind is not RecordKind.KNOWLEDGE}
    try:
        with store_files.directory(root, "memory") as at:
            names = sorted(os.listdir(at))
    except (FileNotFoundError, store_files.NotPlain):
        return  # the folders of the kinds say so
    for name in names:
        if name not in kinds and not name.startswith((".", "_")):
            known = ", ".join(sorted(kinds))
            mend = f"move what is in it into the folder of a kind (memory/: {known}; or knowledge/), or elsewhere"
            yield Stray(rule=Rule.PLACE, path=f"memory/{name}", message="nothing reads this place", mend=mend)


def _folder(root: Path, kind: RecordKind, is_known: Callable[[str, str], bool]) -> Iterator[Stored | Stray]:
    folder = "/".join(folder_of(kind))
    try:
        with store_files.directory(root, *folder_of(kind)) as at:
            for name in sorted(os.listdir(at)):
                if not name.startswith(".") and (found := _file(at, name, kind, is_known)):
                    yield found
    except FileNotFoundError:
        return
    except (store_files.NotPlain, PermissionError) as error:
        yield _not_plain(folder, _said(error))


def _file(at: int, name: str, kind: RecordKind, is_known: Callable[[str, str], bool]) -> Stored | Stray | None:
    slug = name.removesuffix(SUFFIX)
    path = f"{'/'.join(folder_of(kind))}/{name}"
    if slug == name:
        return Stray(rule=Rule.PLACE, path=path, message="nothing reads this file", mend="name it <slug>.md, or move it elsewhere")
    if not is_slug(slug):
        mend = "use small letters, digits and single hyphens, at most 64: deploy-freeze.md"
        return Stray(rule=Rule.SLUG, path=path, message="the file's name is no slug, so nothing reads it", mend=mend)
    try:
        read = store_files.read(at, name)
    except (store_files.NotPlain, OSError) as error:
        return _not_plain(path, _said(error))
    return None if read is None else stored_of(kind, slug, read, is_known)


def stored_of(kind: RecordKind, slug: str, content: bytes, is_known: Callable[[str, str], bool]) -> Stored:
    path, hashed, text = path_of(kind, slug), sha256(content), ""
    record: Record | BadRecord
    try:
        text = _decoded(content)
        record = parse(kind, slug, text)
    except BadRecord as bad:
        record = bad
    return Stored(kind=kind, slug=slug, path=path, record=record, sha256=hashed, text=text, unaudited=not is_known(path, hashed))


def _decoded(content: bytes) -> str:
    if len(content) > MAX_FILE_BYTES:
        message = f"the file has more than {MAX_FILE_BYTES} bytes"
        raise BadRecord((Problem(Rule.FILE_LONG, 1, message, "make several records of it"),))
    if content.startswith(b"\xef\xbb\xbf"):
        raise BadRecord((Problem(Rule.ENCODING, 1, "the file begins with a byte order mark", "save it as UTF-8 without BOM"),))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadRecord((Problem(Rule.ENCODING, line, "this is not UTF-8", "save the file as UTF-8"),)) from error


def _not_plain(path: str, what: str) -> Stray:
    return Stray(rule=Rule.NO_PLAIN_FILE, path=path, message=f"{what}, so it is not read", mend="put a plain file or folder in its place")


def _said(error: Exception) -> str:
    return f"it cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
