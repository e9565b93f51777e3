"""The zone in which people are shown times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import pytest

from bot import clock
from bot.clock import SystemClock, system_zone

SUMMER, WINTER = datetime(2025, 7, 1), datetime(2025, 12, 1)
TOKYO = timedelta(hours=9)


@pytest.fixture
def set_tz(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], None]]:
    def set(value: str | None) -> None:
        monkeypatch.delenv("TZ", raising=False)
        if value is not None:
            monkeypatch.setenv("TZ", value)
        time.tzset()

    yield set
    monkeypatch.undo()
    time.tzset()


def zone_file(name: str) -> Path:
    return next(path for root in TZPATH if (path := Path(root) / name).is_file())


@pytest.mark.parametrize("tz", ["Europe/Berlin", ":Europe/Berlin"])
def test_a_zone_is_taken_with_its_changes_of_offset(set_tz: Callable[[str | None], None], tz: str) -> None:
    set_tz(tz)

    zone = system_zone()

    assert (zone.utcoffset(SUMMER), zone.utcoffset(WINTER)) == (timedelta(hours=2), timedelta(hours=1))


def test_a_zone_may_be_given_as_a_file(set_tz: Callable[[str | None], None]) -> None:
    set_tz(f":{zone_file('Asia/Tokyo')}")

    assert system_zone().utcoffset(SUMMER) == TOKYO


@pytest.mark.parametrize("tz", ["JST-9", "<+09>-9"])
def test_an_offset_without_a_zone_is_taken_as_the_system_takes_it(set_tz: Callable[[str | None], None], tz: str) -> None:
    set_tz(tz)

    assert system_zone().utcoffset(SUMMER) == TOKYO


@pytest.mark.parametrize("tz", ["", ":", "Nowhere/Such", "Asia", "../../etc/passwd", "/none", "/etc", "/etc/passwd"])
def test_what_means_nothing_to_the_system_is_utc(set_tz: Callable[[str | None], None], tz: str) -> None:
    set_tz(tz)

    assert system_zone().utcoffset(SUMMER) == timedelta(0)


def test_without_the_variable_the_machines_zone_counts(
    set_tz: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_tz(None)
    (tmp_path / "localtime").symlink_to(zone_file("Asia/Tokyo"))
    monkeypatch.setattr(clock, "LOCALTIME", tmp_path / "localtime")

    assert isinstance(system_zone(), ZoneInfo)
    assert system_zone().utcoffset(SUMMER) == TOKYO


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"TZif2", b"TZif2" + b"\0" * 39])
def test_a_machine_without_a_zone_that_can_be_read_is_at_utc(
    set_tz: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    set_tz(None)
    if content is not None:
        (tmp_path / "localtime").write_bytes(content)
    monkeypatch.setattr(clock, "LOCALTIME", tmp_path / "localtime")

    assert system_zone() is UTC


async def test_the_systems_clock_goes_forward() -> None:
    real = SystemClock()
    now, monotonic = real.now(), real.monotonic()

    await real.sleep(0)

    assert real.now() >= now > 1_700_000_000
    assert real.monotonic() >= monotonic
