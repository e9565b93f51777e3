"""The table of a session's states."""

from __future__ import annotations

import itertools

import pytest

from bot.session_states import ALLOWED, IllegalMove, check_move
from telemetry.events import SessionState as S


def reachable(start: S) -> set[S]:
    found, waiting = {start}, [start]
    while waiting:
        new = ALLOWED[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_every_state_has_its_moves() -> None:
    assert set(ALLOWED) == set(S)
    assert all(moves for moves in ALLOWED.values())


@pytest.mark.parametrize("state", S)
def test_from_every_state_a_session_can_work_again_and_can_be_stopped(state: S) -> None:
    assert reachable(state) == set(S)


@pytest.mark.parametrize(("state", "wanted"), list(itertools.product(S, S)))
def test_a_move_that_is_not_in_the_table_is_refused_by_name(state: S, wanted: S) -> None:
    if wanted in ALLOWED[state]:
        assert check_move("main", state, wanted) is wanted
    else:
        with pytest.raises(IllegalMove, match=f"session main is {state.value} and cannot become {wanted.value}"):
            check_move("main", state, wanted)


def test_what_must_never_happen_is_not_in_the_table() -> None:
    assert {s for s in S if S.BUSY in ALLOWED[s]} == {S.IDLE}  # one turn at a time, and only in a living process
    assert {s for s in S if S.IDLE in ALLOWED[s]} == {S.STARTING, S.BUSY}
    assert {s for s in S if S.STOPPED in ALLOWED[s]} == {S.STOPPING}
    assert {s for s in S if S.HIBERNATED in ALLOWED[s]} == {S.IDLE}
    assert not any(s in ALLOWED[s] for s in S)
