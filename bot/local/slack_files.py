"""A Slack file object for an uploaded file. There is no content behind it: only what a message shows of a file."""

from __future__ import annotations

import mimetypes
import uuid
from pathlib import PurePosixPath

from bot.local.slack_records import Json


def file_object(file: str | Json, *, user: str, created: int) -> Json:
    """`file` is a name, or fields that take the place of the made-up ones."""
    given = {"name": file} if isinstance(file, str) else file
    name = str(given.get("name", "file"))
    kind = PurePosixPath(name).suffix.removeprefix(".") or "binary"
    made_up = {
        "id": "F0" + uuid.uuid4().hex[:8].upper(),
        "created": created,
        "timestamp": created,
        "title": name,
        "mimetype": mimetypes.guess_type(name)[0] or "application/octet-stream",
        "filetype": kind,
        "pretty_type": kind.upper(),
        "user": user,
        "size": 48_213,
        "mode": "hosted",
        "is_external": False,
        "is_public": True,
        "file_access": "visible",
    }
    return {**made_up, **given}
