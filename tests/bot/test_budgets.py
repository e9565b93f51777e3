"""What may be spent a day: by route and over all, counted through restarts, anew at midnight where the bot lives."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bot.budgets import KEPT_DAYS, Budgets
from bot.ports import Answer
from telemetry.events import BudgetSpent, FailReason, MoneySpent, ReplyEnded
from tests.bot.bench import Bench, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, DIRECT, EPOCH, FakeClock, called

TOKYO = ZoneInfo("Asia/Tokyo")
DAY = 86_400.0


def costs(bench: Bench, usd: float) -> None:
    bench.claude.turn(called(), Answer(text="an answer", cost_usd=usd, cost_by_model={"model-1": usd}))


def told(bench: Bench) -> list[tuple[str, float, float]]:
    return [(f.route, f.usd, f.limit_usd) for f in bench.emit.of(BudgetSpent)]


def budgets(folder: Path, clock: FakeClock, **more: Any) -> Budgets:
    return Budgets(folder / "spent.json", **{"clock": clock, "tz": UTC, "limits": {"main": 1.0}, **more})


def spend(of: Budgets, usd: float, route: str = "main") -> None:
    of.hear(MoneySpent(route=route, model="model-1", usd=usd))


# -- what a person sees ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("language", "words"), [("en", "today's budget (1.00 USD) is spent"), ("ja", "本日の予算（1.00 USD）を使い切った")]
)
async def test_once_it_is_spent_questions_are_answered_with_a_sentence_and_no_model(make_bench: Make, language: str, words: str) -> None:
    bench = make_bench(settings=routes(budget_usd_day=1.0), language=language)
    costs(bench, 0.6)
    costs(bench, 0.6)
    one, two = await bench.ask("One"), await bench.ask("Two")

    statuses = bench.slack.count("set_status")

    three = await bench.ask("Three")

    assert (one.text, two.text) == ("an answer", "an answer")
    assert words in three.text and three.outcome == "failed" and three.prompts == ()
    assert told(bench) == [("main", 1.2, 1.0)]
    assert [f.reason for f in bench.emit.of(ReplyEnded)] == [None, None, FailReason.BUDGET]
    assert bench.slack.count("set_status") == statuses, "nobody is thinking"


async def test_it_says_when_there_is_money_again(make_bench: Make) -> None:
    bench = make_bench(settings=routes(budget_usd_day=0.5), tz=TOKYO)
    costs(bench, 0.5)
    await bench.ask("One")

    assert "after 00:00 JST" in (await bench.ask("Two")).text


async def test_other_routes_go_on(make_bench: Make) -> None:
    bench = make_bench(settings=routes(budget_usd_day=0.5))
    costs(bench, 0.5)
    await bench.ask("One")

    assert (await bench.ask("Two", channel=CODE)).outcome == "answered"


async def test_the_budget_of_everything_ends_all_routes(make_bench: Make) -> None:
    bench = make_bench(budget=1.0)
    costs(bench, 0.5)
    costs(bench, 0.5)
    await bench.ask("One")
    await bench.ask("Two", channel=CODE)

    assert (await bench.ask("Three", channel=DIRECT)).outcome == "failed"
    assert told(bench) == [("", 1.0, 1.0)]


async def test_what_a_failed_turn_cost_counts_too(make_bench: Make) -> None:
    bench = make_bench(settings=routes(budget_usd_day=0.5))
    bench.claude.turn(Answer(text="", error="overloaded_error", cost_usd=0.5, cost_by_model={"model-1": 0.5}))
    await bench.ask("One")

    assert "budget" in (await bench.ask("Two")).text


async def test_at_midnight_of_its_zone_it_begins_anew(make_bench: Make) -> None:
    bench = make_bench(settings=routes(budget_usd_day=0.5), tz=TOKYO)
    costs(bench, 0.5)
    await bench.ask("One")
    local = datetime.fromtimestamp(bench.clock.now(), TOKYO)
    left = DAY - local.hour * 3_600 - local.minute * 60 - local.second
    bench.clock.advance(left - 60)
    assert (await bench.ask("Two")).outcome == "failed"

    bench.clock.advance(120)

    assert (await bench.ask("Three")).outcome == "answered"


async def test_a_restart_forgets_nothing(make_bench: Make) -> None:
    first = make_bench(settings=routes(budget_usd_day=0.5))
    costs(first, 0.5)
    await first.ask("One")
    await first.sessions.close_all()

    second = make_bench(settings=routes(budget_usd_day=0.5), before=first)

    assert (await second.ask("Two")).outcome == "failed" and told(second) == []


async def test_without_a_budget_nothing_is_refused(bench: Bench) -> None:
    costs(bench, 1_000.0)
    await bench.ask("One")

    assert (await bench.ask("Two")).outcome == "answered" and told(bench) == []


# -- counting ----------------------------------------------------------------------------------------------------------
def test_memory_workers_count_for_everything(tmp_path: Path) -> None:
    of = budgets(tmp_path, FakeClock(), limits={}, overall=1.0)
    spend(of, 1.0, "memory_extract")

    assert of.spent_up("main") is not None and of.today("memory_extract") == 1.0


def test_cents_add_up_as_people_count_them(tmp_path: Path) -> None:
    of = budgets(tmp_path, FakeClock())
    for _ in range(10):
        spend(of, 0.1)

    assert of.today("main") == 1.0 and of.spent_up("main") is not None


def test_the_limit_is_told_once_a_day(tmp_path: Path) -> None:
    clock, facts = FakeClock(), list[BudgetSpent]()
    of = budgets(tmp_path, clock)
    of.told = facts.append
    for _ in range(3):
        spend(of, 0.7)
    clock.advance(DAY)
    for _ in range(3):
        spend(of, 0.7)

    assert [(f.route, f.usd) for f in facts] == [("main", 1.4), ("main", 1.4)]


@pytest.mark.parametrize("hours", [-30, -5, 5, 30])
def test_a_clock_that_was_set_wrong_for_a_while_finds_the_right_day_again(tmp_path: Path, hours: int) -> None:
    clock = FakeClock()
    of = budgets(tmp_path, clock)
    spend(of, 1.0)
    clock.elapsed += hours * 3_600
    spend(of, 0.3)
    clock.elapsed -= hours * 3_600

    assert of.spent_up("main") is not None and of.today("main") >= 1.0
    assert budgets(tmp_path, clock).spent_up("main") is not None


def test_a_clock_that_was_years_ahead_takes_no_day_away(tmp_path: Path) -> None:
    clock = FakeClock()
    of = budgets(tmp_path, clock)
    spend(of, 1.0)
    clock.elapsed += 3_000 * DAY
    spend(of, 0.1)
    clock.elapsed -= 3_000 * DAY

    assert of.today("main") == 1.0


def test_days_do_not_pile_up(tmp_path: Path) -> None:
    clock = FakeClock()
    of = budgets(tmp_path, clock)
    for _ in range(KEPT_DAYS + 5):
        clock.advance(DAY)
        spend(of, 0.1)

    assert len(json.loads((tmp_path / "spent.json").read_text())["days"]) == KEPT_DAYS


def test_a_day_with_a_change_of_the_clocks_ends_at_its_midnight(tmp_path: Path) -> None:
    clock, berlin = FakeClock(), ZoneInfo("Europe/Berlin")
    clock.elapsed = datetime(2026, 10, 25, 12, tzinfo=berlin).timestamp() - EPOCH  # 25 hours long
    of = budgets(tmp_path, clock, tz=berlin)
    spend(of, 1.0)

    spent = of.spent_up("main")

    assert spent is not None and datetime.fromtimestamp(spent.until, berlin).isoformat() == "2026-10-26T00:00:00+01:00"


def test_any_order_of_days_and_routes_gives_the_same_sums(tmp_path: Path) -> None:
    chance, clock = random.Random(7), FakeClock()
    of = budgets(tmp_path, clock, limits={})
    expected: dict[tuple[int, str], int] = {}
    for _ in range(300):
        day, route, cents = chance.randrange(5), chance.choice(["main", "dm"]), chance.randrange(1, 50)
        clock.elapsed = day * DAY
        spend(of, cents / 100, route)
        expected[day, route] = expected.get((day, route), 0) + cents
        if chance.random() < 0.1:
            of = budgets(tmp_path, clock, limits={})

    for (day, route), cents in expected.items():
        clock.elapsed = day * DAY
        assert of.today(route) == pytest.approx(cents / 100)


# -- the file ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["", "[]", '{"v": 2, "days": {}}', '{"v": 1}', '{"v": 1, "days": {"x": 3}}', "\x00"])
def test_a_file_that_cannot_be_read_is_told_and_counting_begins_anew(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spent.json").write_text(text)

    of = budgets(tmp_path, FakeClock())
    spend(of, 0.5)

    assert "spent.json cannot be read" in capsys.readouterr().err
    assert budgets(tmp_path, FakeClock()).today("main") == 0.5


def test_while_the_disk_refuses_it_is_counted_in_memory_and_written_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "gone"
    of = budgets(folder, FakeClock())
    spend(of, 0.5)
    spend(of, 0.5)
    assert of.spent_up("main") is not None
    assert capsys.readouterr().err.count("cannot be written") == 1, "said once"

    folder.mkdir()
    spend(of, 0.1)

    assert budgets(folder, FakeClock()).today("main") == 1.1


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    spend(budgets(tmp_path, FakeClock()), 0.5)

    assert [(p.name, p.stat().st_mode & 0o777) for p in tmp_path.iterdir()] == [("spent.json", 0o600)]
