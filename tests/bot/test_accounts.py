"""Which account is asked: the first that does not rest; who rests, why, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.account_rests import AccountRests
from bot.accounts import MOST_REST, Accounts, AllRest
from bot.config import Credential
from bot.ports import Answer
from bot.state_db import open_state
from telemetry.account_events import AccountSeen, SwitchCause
from tests.bot.fakes import EPOCH, FakeClock, failed
from tests.bot.recording import RecordingEmit

HOUR = 3_600.0
ANSWERED = Answer(text="hello")


def limited(*, resets_at: float | None = None) -> Answer:
    return Answer(text="You've hit your limit", error="rate_limit", status=429, resets_at=resets_at)


class Purse:
    def __init__(self, folder: Path) -> None:
        self.clock, self.emit, self.db = FakeClock(), RecordingEmit(), open_state(folder / "state.db")
        self.accounts = self.begin()

    def begin(self, *, second_key: str = "key-of-b") -> Accounts:
        credentials = [Credential("a", "ANTHROPIC_API_KEY", "key-of-a"), Credential("b", "ANTHROPIC_API_KEY", second_key)]
        return Accounts(credentials, clock=self.clock, emit=self.emit, rests=AccountRests(self.db))

    @property
    def chosen(self) -> str:
        return self.accounts.choose().account

    def rest_after(self, answer: Answer) -> float:
        """How long account a rests after this answer."""
        self.accounts.heard("a", answer)
        began = self.clock.elapsed
        while self.accounts.why_not("a") is not None:
            self.clock.advance(1.0)
        return self.clock.elapsed - began

    @property
    def told(self) -> list[tuple[str, str, float]]:
        return [(f.account, f.state.value, f.rest_seconds) for f in self.emit.of(AccountSeen)]


@pytest.fixture
def purse(tmp_path: Path) -> Iterator[Purse]:
    purse = Purse(tmp_path)
    yield purse
    purse.db.close()


def test_the_first_one_is_asked_as_long_as_it_may_be(purse: Purse) -> None:
    purse.accounts.heard("a", ANSWERED)

    assert purse.chosen == "a"
    assert purse.told == [("a", "available", 0.0), ("b", "available", 0.0)]


def test_a_limit_rests_the_account_until_the_time_that_was_named(purse: Purse) -> None:
    assert purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))

    assert (purse.chosen, purse.accounts.why_not("a")) == ("b", SwitchCause.LIMIT)
    assert purse.told[-1] == ("a", "limited", HOUR)
    purse.clock.advance(HOUR)
    assert (purse.chosen, purse.accounts.why_not("a")) == ("a", None)


@pytest.mark.parametrize("resets_at", [None, EPOCH - 1, EPOCH, EPOCH + MOST_REST + 1])
def test_where_a_time_is_not_told_or_not_believed_the_rest_is_short(purse: Purse, resets_at: float | None) -> None:
    assert purse.rest_after(limited(resets_at=resets_at)) == 10.0


@pytest.mark.parametrize("refusal", [limited(), failed("authentication_failed", 401)], ids=["limit", "auth"])
def test_without_a_time_each_refusal_in_a_row_doubles_the_rest_and_an_answer_ends_the_row(purse: Purse, refusal: Answer) -> None:
    assert [purse.rest_after(refusal) for _ in range(7)] == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]

    purse.accounts.heard("a", ANSWERED)

    assert purse.rest_after(refusal) == 10.0


def test_a_refused_credential_is_told_as_such(purse: Purse) -> None:
    purse.accounts.heard("a", failed("authentication_failed", 401))

    assert (purse.chosen, purse.accounts.why_not("a")) == ("b", SwitchCause.AUTH)
    assert purse.told[-1] == ("a", "refused", 10.0)


def test_an_account_without_credit_rests_like_one_at_its_limit(purse: Purse) -> None:
    purse.accounts.heard("a", failed("billing_error", 400))

    assert (purse.chosen, purse.accounts.why_not("a")) == ("b", SwitchCause.LIMIT)


def test_of_several_sessions_that_are_refused_at_once_one_counts(purse: Purse) -> None:
    for _ in range(5):
        purse.accounts.heard("a", limited())

    assert purse.rest_after(limited()) == 10.0


def test_the_answer_to_a_turn_that_was_under_way_does_not_end_a_rest(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))

    purse.accounts.heard("a", ANSWERED)

    assert purse.chosen == "b"


@pytest.mark.parametrize("error", ["overloaded", "prompt_too_long", "server_error", "interrupted"])
def test_what_is_no_fault_of_the_account_rests_nobody(purse: Purse, error: str) -> None:
    assert not purse.accounts.heard("a", failed(error, 500))

    assert purse.chosen == "a"


def test_c054_a_warning_rests_nobody_and_is_told_once_until_it_is_over(purse: Purse) -> None:
    before = len(purse.told)
    for near in (False, True, True, False):
        purse.accounts.warned("a", near=near)
        assert purse.chosen == "a"

    assert purse.told[before:] == [("a", "warned", 0.0), ("a", "available", 0.0)]


def test_a_warning_does_not_end_a_rest(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))

    purse.accounts.warned("a", near=False)

    assert purse.chosen == "b"


def test_where_all_rest_it_is_told_until_when_and_why_the_first_of_them_does(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))
    purse.accounts.heard("b", limited(resets_at=EPOCH + HOUR / 2))

    with pytest.raises(AllRest) as all_rest:
        purse.accounts.choose()

    assert (all_rest.value.until, all_rest.value.cause) == (EPOCH + HOUR / 2, SwitchCause.LIMIT)
    assert purse.accounts.for_start().account == "b"


def test_a_rest_whose_end_nobody_named_turns_nobody_away(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))
    purse.accounts.heard("b", failed("authentication_failed", 401))

    assert purse.chosen == "b"
    with pytest.raises(AllRest) as all_rest:
        purse.accounts.choose(guesses=False)
    assert (all_rest.value.until, all_rest.value.cause) == (None, SwitchCause.AUTH)


def test_of_two_such_rests_the_account_that_is_in_use_is_asked_and_else_the_one_that_may_be_over_first(purse: Purse) -> None:
    for name in ("a", "b"):
        purse.accounts.heard(name, limited())
        purse.clock.advance(1.0)

    assert [purse.accounts.choose(now_under=name).account for name in ("a", "b", "")] == ["a", "b", "a"]


def test_a_guess_does_not_shorten_a_rest_whose_end_was_named(purse: Purse) -> None:
    for refusal in (limited(resets_at=EPOCH + HOUR), limited()):
        purse.accounts.heard("a", refusal)
        purse.accounts.heard("b", refusal)

    with pytest.raises(AllRest) as all_rest:
        purse.accounts.choose()
    assert all_rest.value.until == EPOCH + HOUR


def test_the_first_answer_after_a_rest_makes_it_available(purse: Purse) -> None:
    purse.rest_after(limited())

    purse.accounts.heard("a", ANSWERED)

    assert purse.told[-1] == ("a", "available", 0.0)


# -- over a restart ----------------------------------------------------------------------------------------------------
def test_a_bot_that_is_started_again_remembers_a_limit(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))

    again = purse.begin()

    assert again.choose().account == "b"
    assert purse.told[-2:] == [("a", "limited", HOUR), ("b", "available", 0.0)]
    purse.clock.advance(HOUR)
    assert purse.begin().choose().account == "a"


def test_another_key_in_the_same_variable_begins_anew(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))
    purse.accounts.heard("b", limited(resets_at=EPOCH + HOUR))

    assert purse.begin(second_key="another-key").choose().account == "b"


@pytest.mark.parametrize("refusal", [failed("authentication_failed", 401), limited()], ids=["auth", "limit"])
def test_a_guess_is_forgotten_with_its_process(purse: Purse, refusal: Answer) -> None:
    purse.accounts.heard("a", refusal)

    assert purse.begin().choose().account == "a"


def test_no_key_stands_in_the_file(purse: Purse) -> None:
    purse.accounts.heard("a", limited(resets_at=EPOCH + HOUR))

    rows = [tuple(row) for row in purse.db.execute("SELECT * FROM accounts")]
    assert [row[0] for row in rows] == ["a"] and "key-of-a" not in str(rows)
