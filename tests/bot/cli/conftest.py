"""A workspace in which the memory worked, on a terminal of 100 columns in UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bot.cli.remembering import Remembering


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Remembering]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield Remembering(tmp_path)
    time.tzset()
