"""Where tests that make thousands of files make them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def ram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where the system has one: what others do on the disk costs these tests nothing."""
    if not os.access(_IN_MEMORY, os.W_OK):
        yield tmp_path_factory.mktemp("ram")
        return
    with tempfile.TemporaryDirectory(prefix="insomnia-tests-", dir=_IN_MEMORY) as folder:
        yield Path(folder)
