"""The facts about Claude accounts: which of them may be asked, and which session left which."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AccountState(StrEnum):
    """What a Claude account is good for. Whoever is LIMITED or REFUSED rests, and the next one is asked."""

    AVAILABLE = "available"
    WARNED = "warned"  # near its limit; it goes on
    LIMITED = "limited"
    REFUSED = "refused"


class SwitchCause(StrEnum):
    """Why a session left its account for another."""

    LIMIT = "limit"
    AUTH = "auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSeen:
    """The state of one account; told at the start and at each change. `rest_seconds`: how long it will rest, 0 where it does not."""

    account: str
    state: AccountState
    rest_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSwitched:
    """A session goes on under another account. `account`: the one that it left."""

    route: str
    key: str
    session_id: str
    account: str
    to: str
    cause: SwitchCause


AccountFact = AccountSeen | AccountSwitched
