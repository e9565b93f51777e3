"""The Claude accounts: in which order they are tried, which of them rest, and until when.

What must stay true: an account rests only once its limit was reached or its credential refused, and a warning rests
nobody. It rests until the time that the provider named; where none was named, for a while that doubles with each refusal
in a row, which an answer ends. Such a guess puts others before it, and turns nobody away: where there is no other, it is
asked all the same. Which session runs under which account is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.account_rests import AccountRests, Rest
from bot.config import Credential
from bot.ports import Answer, Clock
from telemetry.account_events import AccountSeen, AccountState, SwitchCause
from telemetry.emit import Emit

SHORTEST_REST, LONGEST_REST = 10.0, 300.0  # where no time was named: a guess keeps nobody for long from what may be over
MOST_REST = 8 * 86_400.0  # the longest window that the provider knows is a week; what names a later time is not believed
REFUSALS = {
    "rate_limit": AccountState.LIMITED,
    "billing_error": AccountState.LIMITED,
    "authentication_failed": AccountState.REFUSED,
}
CAUSES = {AccountState.LIMITED: SwitchCause.LIMIT, AccountState.REFUSED: SwitchCause.AUTH}


class AllRest(Exception):
    """No account may be asked. `until`: when the first of them may be again, epoch seconds, where it was named; `cause`: why it rests."""

    def __init__(self, until: float | None, cause: SwitchCause) -> None:
        super().__init__(cause.value)
        self.until, self.cause = until, cause


@dataclass(slots=True)
class _Account:
    credential: Credential
    state: AccountState = AccountState.AVAILABLE
    until: float = 0.0
    named: bool = False  # by the provider; else the end of its rest is a guess
    refusals: int = 0

    @property
    def name(self) -> str:
        return self.credential.account

    def rests(self, now: float) -> bool:
        return now < self.until


class Accounts:
    """`credentials`: at least one, in the order in which they are tried."""

    def __init__(self, credentials: Sequence[Credential], *, clock: Clock, emit: Emit, rests: AccountRests | None = None) -> None:
        self._clock, self._emit, self._rests = clock, emit, rests
        self._accounts = {c.account: _Account(c) for c in credentials}
        for account in self._accounts.values():
            self._recall(account)
            self._tell(account)

    def _recall(self, account: _Account) -> None:
        rest = self._rests.get(account.name, secret=account.credential.value) if self._rests else None
        if rest is not None and self._clock.now() < rest.until <= self._clock.now() + MOST_REST:
            account.state, account.until, account.named = AccountState(rest.state), rest.until, True

    # -- which one -----------------------------------------------------------------------------------------------------
    def choose(self, *, now_under: str = "", guesses: bool = True) -> Credential:
        """The first one that does not rest; with `guesses`, also one of which nobody knows how long, the one it is under first.

        Raises AllRest.
        """
        first = self._first()
        if not first.rests(self._clock.now()):
            return first.credential
        unsure = [account for account in self._accounts.values() if guesses and not account.named]
        if unsure:
            return min(unsure, key=lambda account: (account.name != now_under, account.until)).credential
        raise AllRest(first.until if first.named else None, CAUSES[first.state])

    def for_start(self) -> Credential:
        """For a process that is not asked at once: where all rest, the one that may be asked first."""
        return self._first().credential

    def _first(self) -> _Account:
        now = self._clock.now()
        return min(self._accounts.values(), key=lambda account: account.until if account.rests(now) else 0.0)

    def why_not(self, name: str) -> SwitchCause | None:
        """None: it may be asked."""
        account = self._accounts[name]
        return CAUSES[account.state] if account.rests(self._clock.now()) else None

    # -- what came of it -----------------------------------------------------------------------------------------------
    def heard(self, name: str, answer: Answer) -> bool:
        """Of each answer that was given under it. True: it rests from now on."""
        account = self._accounts[name]
        if answer.error is None:
            self._good(account)
        elif answer.error in REFUSALS:
            self._rest(account, REFUSALS[answer.error], answer.resets_at)
            return True
        return False

    def warned(self, name: str, *, near: bool) -> None:
        """The provider said how near its limit the account is."""
        account = self._accounts[name]
        state = AccountState.WARNED if near else AccountState.AVAILABLE
        if not account.rests(self._clock.now()) and account.state is not state:
            account.state = state
            self._tell(account)

    def _good(self, account: _Account) -> None:
        """Of a turn that was under way when another one was refused, it says nothing."""
        if account.rests(self._clock.now()):
            return
        account.refusals = 0
        if account.until:
            account.state, account.until = AccountState.AVAILABLE, 0.0
            if self._rests:
                self._rests.drop(account.name)
            self._tell(account)

    def _rest(self, account: _Account, state: AccountState, until: float | None) -> None:
        now = self._clock.now()
        account.refusals += not account.rests(now)  # of several sessions that are refused at once, one counts
        named = until is not None and now < until <= now + MOST_REST
        if until is None or not named:
            until = now + min(LONGEST_REST, SHORTEST_REST * 2 ** (min(account.refusals, 20) - 1))
        account.named = named or (account.named and account.rests(now))
        account.state, account.until = state, max(until, account.until)
        if self._rests and account.named:
            self._rests.put(account.name, Rest(state.value, account.until), secret=account.credential.value)
        self._tell(account)

    def _tell(self, account: _Account) -> None:
        rest = max(0.0, account.until - self._clock.now())
        self._emit(AccountSeen(account=account.name, state=account.state, rest_seconds=rest))
