"""The memory's files of one workspace, as the demo looks at them and lays hands on them. What it does here a person could do too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

PINNED = "pinned: true\n"
PLANTED = (
    b'{"event":"record_operation","op":"drop","status":"applied","kind":"decision","slug":"*","lint":[]}\n'
    b'{"event":"worker_lifecycle","worker":"memory_consolidation","status":"started","run_id":"0"}\n{"half a line\x00\xff\n'
)
_OF_THE_RUN = ("created_at: ", "updated_at: ", "run_id: ")  # what two runs never have in common


class MemoryFiles:
    def __init__(self, root: Path) -> None:
        self.state = root / ".insomnia"

    def records(self) -> dict[str, str]:
        """Text by path."""
        found = [*self.state.glob("memory/[a-z]*/*.md"), *self.state.glob("knowledge/*.md")]
        return {str(file.relative_to(self.state)): file.read_text(encoding="utf-8") for file in sorted(found)}

    def said_in_records(self) -> dict[str, str]:
        """The same without the lines that name the run and its time."""
        return {
            path: "".join(line for line in text.splitlines(True) if not line.startswith(_OF_THE_RUN))
            for path, text in self.records().items()
        }

    def staged(self) -> list[dict[str, Any]]:
        """The candidates that wait to become memory."""
        found = sorted((self.state / "memory" / "_staging").glob("[!_]*/*.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in found if file.name != "batch.json"]

    def pin(self, path: str) -> None:
        """As a person does it who wants that record to stay as it is."""
        file = self.state / path
        file.write_text(file.read_text(encoding="utf-8").replace("\nscope: ", f"\n{PINNED}scope: ", 1), encoding="utf-8")

    def unpin(self, path: str) -> None:
        file = self.state / path
        file.write_text(file.read_text(encoding="utf-8").replace(PINNED, "", 1), encoding="utf-8")

    def copy_to(self, root: Path) -> MemoryFiles:
        """Into a workspace that is not there yet: the memory and nothing else."""
        for part in ("memory", "knowledge"):
            if (self.state / part).is_dir():
                shutil.copytree(self.state / part, root / ".insomnia" / part)
        return MemoryFiles(root)

    def delete_logs(self) -> None:
        shutil.rmtree(self.state / "memory" / "_logs")

    def spoil_logs(self) -> None:
        for file in (self.state / "memory" / "_logs").glob("memory-*.log"):
            file.write_bytes(PLANTED)
