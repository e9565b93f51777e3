"""The gate, whole: its table is compared with the policy in other words, and broken on purpose in every way that came to mind."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot import gate
from bot.gate import Verdict, View, decide
from bot.known_threads import KnownThreads
from telemetry.events import REASON_AFTER, Decision, Reason, ResetCause, Thread
from telemetry.names import DECISION_REASONS

LOST = (None, *dict.fromkeys(REASON_AFTER.values()))
HELD_OFF = (None, *DECISION_REASONS[Decision.REFETCH_FAILED])
YES_NO = (False, True)


def views() -> Iterator[View]:
    for opens, known, waiting, gap, carried, had in itertools.product(YES_NO, YES_NO, (0, 1, 7), YES_NO, YES_NO, YES_NO):
        for lost, held_off in itertools.product(LOST, HELD_OFF):
            yield View(
                opens_thread=opens, known=known, waiting=waiting, gap=gap, lost=lost, carried=carried, had_session=had, held_off=held_off
            )


def policy(view: View) -> Verdict:
    """What design/gate.md says, as a list of cases in order."""
    cases: list[tuple[bool, Decision, Reason | None, bool]] = [
        (view.known and not view.gap and view.waiting == 0, Decision.KNOWN, Reason.HELD, False),
        (view.known and not view.gap, Decision.KNOWN, Reason.HELD_DELTA, False),
        (view.opens_thread, Decision.NEW, Reason.FIRST_MESSAGE, False),
        (view.held_off is not None, Decision.REFETCH_FAILED, view.held_off, False),
        (view.known and view.gap, Decision.REFETCHED, Reason.DELIVERY_GAP, True),
        (view.lost is not None, Decision.REFETCHED, view.lost, True),
        (view.carried, Decision.REFETCHED, Reason.AFTER_RESTART, True),
        (not view.had_session, Decision.REFETCHED, Reason.NO_SESSION, True),
        (True, Decision.REFETCHED, Reason.NOT_KNOWN, True),
    ]
    decision, reason, reads = next((d, r, reads) for holds, d, r, reads in cases if holds)
    assert reason is not None
    return Verdict(decision, reason, reads)


def agrees(decide: Callable[[View], Verdict]) -> bool:
    return all(decide(view) == policy(view) for view in views())


def test_the_gate_says_what_the_policy_says_in_every_case() -> None:
    assert agrees(decide)


def test_every_word_that_the_gate_can_say_is_in_the_table_and_every_word_of_the_table_can_be_said() -> None:
    said = {(verdict.decision, verdict.reason) for view in views() for verdict in [decide(view)]}

    assert said == {(Decision(d), reason) for d, reasons in DECISION_REASONS.items() if d in set(Decision) for reason in reasons}


def test_slack_is_read_for_refetched_threads_and_for_no_others() -> None:
    assert all(decide(view).reads is (decide(view).decision is Decision.REFETCHED) for view in views())


def test_a_thread_that_is_not_in_the_set_is_never_known() -> None:
    assert Decision.KNOWN not in {decide(view).decision for view in views() if not view.known}


def test_every_cause_of_a_reset_has_a_reason_that_the_gate_may_give() -> None:
    assert set(REASON_AFTER) == set(ResetCause)
    assert set(REASON_AFTER.values()) <= set(DECISION_REASONS[Decision.REFETCHED])


MUTANTS = [
    ("view.known and not view.gap", "view.known"),
    ("view.known and not view.gap", "not view.gap"),
    ("view.known and not view.gap", "view.known and view.gap"),
    ("view.known and not view.gap", "view.known or not view.gap"),
    ("view.known and not view.gap", "True"),
    ("view.known and not view.gap", "False"),
    ("view.known and not view.gap", "view.known and not view.gap and not view.opens_thread"),
    ("view.known and not view.gap", "view.known and not view.gap and view.had_session"),
    ("view.known and not view.gap", "(view.known or view.carried) and not view.gap"),
    ("view.known and not view.gap", "view.known and not view.gap and view.lost is None"),
    ("view.known and not view.gap", "view.known and not view.gap and view.held_off is None"),
    ("HELD_DELTA if view.waiting else Reason.HELD", "HELD"),
    ("HELD_DELTA if view.waiting else Reason.HELD", "HELD_DELTA"),
    ("HELD_DELTA if view.waiting else Reason.HELD", "HELD if view.waiting else Reason.HELD_DELTA"),
    ("HELD_DELTA if view.waiting else Reason.HELD", "HELD_DELTA if view.waiting > 1 else Reason.HELD"),
    ("if view.opens_thread", "if not view.opens_thread"),
    ("if view.opens_thread", "if False"),
    ("if view.opens_thread", "if view.opens_thread and not view.known"),
    ("if view.opens_thread", "if view.opens_thread and view.lost is None"),
    ("if view.opens_thread", "if view.opens_thread and not view.carried"),
    ("if view.opens_thread", "if view.opens_thread and view.held_off is None"),
    ("if view.held_off is not None", "if view.held_off is None"),
    ("if view.held_off is not None", "if False"),
    ("if view.held_off is not None", "if view.held_off is not None and not view.known"),
    ("if view.held_off is not None", "if view.held_off is not None and view.lost is not Reason.MANUAL"),
    ("REFETCH_FAILED, view.held_off", "REFETCH_FAILED, Reason.SLACK_ERROR"),
    ("REFETCH_FAILED, view.held_off", "REFETCHED, view.held_off"),
    ("REFETCH_FAILED, view.held_off)", "REFETCH_FAILED, view.held_off, reads=True)"),
    (", reads=True", ""),
    ("_why_read(view), reads", "Reason.NOT_KNOWN, reads"),
    ("    if view.known:\n        return Reason.DELIVERY_GAP\n", ""),
    ("    if view.known:\n", "    if view.gap:\n"),
    ("if view.lost is not None", "if view.lost is None"),
    ("if view.lost is not None", "if view.lost is not None and not view.carried"),
    ("return view.lost", "return Reason.AFTER_RESTART"),
    ("if view.carried", "if not view.carried"),
    ("if view.carried", "if view.carried and view.had_session"),
    ("    if view.carried:\n        return Reason.AFTER_RESTART\n", ""),
    ("NOT_KNOWN if view.had_session else Reason.NO_SESSION", "NO_SESSION if view.had_session else Reason.NOT_KNOWN"),
    ("NOT_KNOWN if view.had_session else Reason.NO_SESSION", "NOT_KNOWN"),
]


@pytest.mark.parametrize(("written", "broken"), MUTANTS)
def test_a_gate_that_was_broken_does_not_pass(written: str, broken: str) -> None:
    source = inspect.getsource(gate.decide) + inspect.getsource(gate._why_read)
    assert written in source
    names: dict[str, object] = dict(vars(gate))

    exec(source.replace(written, broken), names)

    mutant = names["decide"]
    assert callable(mutant)
    assert not agrees(mutant)


def test_no_part_of_the_order_is_a_matter_of_taste() -> None:
    """Any two of its cases that change places change what it says."""
    head, *cases = inspect.getsource(gate.decide).split("    if ")
    last_case, last = cases[-1].rsplit("    return", 1)
    cases[-1] = last_case
    orders = [order for order in itertools.permutations(cases) if list(order) != cases]

    for order in orders:
        names: dict[str, object] = dict(vars(gate))
        exec(head + "".join(f"    if {case}" for case in order) + "    return" + last, names)
        mutant = names["decide"]
        assert callable(mutant)
        assert not agrees(mutant), order


# -- with the real set -------------------------------------------------------------------------------------------------
THREADS = [Thread("T0", channel, ts) for channel in ("C0", "C1") for ts in ("1.0", "2.0")]
steps = st.lists(
    st.tuples(
        st.sampled_from(["mark", "late mark", "forget", "forget one", "doubt"]), st.sampled_from(THREADS), st.sampled_from(ResetCause)
    ),
    max_size=12,
)


@given(steps)
def test_whatever_happens_only_a_thread_that_was_read_in_this_epoch_is_known(happened: list[tuple[str, Thread, ResetCause]]) -> None:
    context, truth = KnownThreads(), set[Thread]()
    for what, thread, cause in happened:
        match what:
            case "mark":
                context.mark(thread, epoch=context.epoch)
                truth.add(thread)
            case "late mark":
                context.mark(thread, epoch=context.epoch - 1)
            case "forget":
                context.forget(cause, session_id="s")
                truth.clear()
            case "forget one":
                context.forget_one(thread, session_id="s")
                truth.discard(thread)
            case "doubt":
                context.doubt_delivery()

    for thread in THREADS:
        view = View(opens_thread=False, known=thread in context, gap=context.is_gapped(thread), lost=context.lost_because(thread))
        verdict = decide(view)
        assert thread in truth or verdict.decision is not Decision.KNOWN
        assert (thread in context) is (thread in truth)
        assert verdict.reason in DECISION_REASONS[verdict.decision]
