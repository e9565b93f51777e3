"""The states of a session and the table of allowed moves; the diagram in the docs is this table.

stopped → starting → idle ⇄ busy
                      idle → rotating → starting           a fresh process
                      idle → hibernated → starting         resumed on demand
any process that ends by itself, or hangs → failed → starting
"""

from __future__ import annotations

from telemetry.events import SessionState as S

ALLOWED: dict[S, frozenset[S]] = {
    S.STOPPED: frozenset({S.STARTING, S.ROTATING}),
    S.STARTING: frozenset({S.IDLE, S.FAILED, S.STOPPING}),
    S.IDLE: frozenset({S.BUSY, S.ROTATING, S.HIBERNATED, S.STOPPING, S.FAILED}),
    S.BUSY: frozenset({S.IDLE, S.FAILED, S.STOPPING}),
    S.ROTATING: frozenset({S.STARTING, S.FAILED, S.STOPPING}),
    S.HIBERNATED: frozenset({S.STARTING, S.ROTATING, S.STOPPING}),
    S.STOPPING: frozenset({S.STOPPED}),
    S.FAILED: frozenset({S.STARTING, S.ROTATING, S.STOPPING}),
}


class IllegalMove(Exception):
    """The session was asked for something that its state does not allow; the state is unchanged."""

    def __init__(self, key: str, state: S, wanted: S) -> None:
        super().__init__(f"session {key} is {state.value} and cannot become {wanted.value}")


def check_move(key: str, state: S, wanted: S) -> S:
    if wanted not in ALLOWED[state]:
        raise IllegalMove(key, state, wanted)
    return wanted
