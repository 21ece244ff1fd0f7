"""Counts over the runs of one arm, and what they can prove."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from support.manyarms import Arms, F, P, of
from support.reports import FILE, MARLIN, RED, TRITON

from harness.flips import Flip, classify
from harness.outcome import Outcome
from harness.record import ArmResults, NodeResult
from harness.repeats import Agreement, Runs, corrected, is_red, measured, p_value


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_counts_as_it_does_in_a_pair(outcome: Outcome) -> None:
    """But for a timeout, which a pair cannot tell from a slow machine: a run that hangs failed."""
    kinds = {
        Flip.FIXED: (True, True),
        Flip.BOTH_PASS: (False, True),
        Flip.SKIP_CHANGED: (False, False),
        Flip.APPEARED: (False, False),
        Flip.UNMEASURED: (outcome is Outcome.TIMEOUT,) * 2,
    }
    assert (is_red(outcome), measured(outcome)) == kinds[classify(outcome, P)]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_test_that_is_missing_since_its_file_cannot_be_loaded_failed(outcome: Outcome) -> None:
    missing = outcome is Outcome.MISSING
    assert is_red(outcome, load_error=True) is (missing or is_red(outcome))
    assert measured(outcome, load_error=True) is (missing or measured(outcome))


def test_words_are_failed_by_runs() -> None:
    runs = Runs(unpatched=(F, F, P), patched=(P, P, P), failed=(2, 0))
    assert runs.words == ("2:3", "0:3")


@given(runs=st.integers(1, 30), data=st.data())
def test_p_value_is_fishers_of_failed_and_passed_runs(runs: int, data: st.DataObject) -> None:
    failed = data.draw(st.tuples(st.integers(0, runs), st.integers(0, runs)))
    table = [[failed[0], runs - failed[0]], [failed[1], runs - failed[1]]]
    theirs = scipy_stats.fisher_exact(table).pvalue
    assert p_value(failed, runs) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("order", list(permutations((0.01, None, 0.04, 0.03))))
def test_holm_corrects_those_that_are_there_and_keeps_their_order(
    order: tuple[float | None, ...],
) -> None:
    # Three values: 3 * 0.01; 2 * 0.03; and 0.04, which may not be below the one before it.
    expected = {0.01: 0.03, 0.03: 0.06, 0.04: 0.06, None: None}
    found = corrected(order)
    assert [value is None for value in found] == [value is None for value in order]
    assert [v for v in found if v is not None] == [
        pytest.approx(expected[value]) for value in order if value is not None
    ]


def test_nothing_to_correct() -> None:
    assert corrected([]) == []
    assert corrected([None, None]) == [None, None]
    assert corrected([0.2, None]) == [0.2, None]


def test_the_unpatched_arm_against_itself() -> None:
    found = Agreement(pairs=5, comparisons=59, differing=())
    assert found.rate == 0
    assert found.upper == pytest.approx(0.0495, abs=0.0001)  # below 5 %, from 59 on
    three = Agreement(pairs=2, comparisons=30, differing=("a", "b", "a"))
    assert three.rate == pytest.approx(0.1)
    assert three.upper == pytest.approx(scipy_stats.beta.ppf(0.95, 4, 27))


def test_where_nothing_was_compared_nothing_is_known() -> None:
    found = Agreement(pairs=1, comparisons=0, differing=(), refused=("the kernel differs",))
    assert (found.rate, found.upper) == (0.0, 1.0)


def runs_of(arms: Arms, node_id: str) -> Runs:
    """The runs of one node, as judged."""
    runs = of(arms.row(), node_id).runs
    assert runs
    return runs


def unloadable(arms: Arms, *names: str) -> Arms:
    """Let the test file fail to load in these arms."""
    for name in names:
        arm = arms.arms[name]
        lost = ArmResults(nodes={}, load_errors={FILE: RED})
        arms.arms[name] = type(arm)(record=arm.record, results=lost)
    return arms


def test_runs_that_could_not_be_loaded_are_counted_as_failed() -> None:
    arms = unloadable(Arms(repeat=5), *(f"unpatched{n}" for n in ("", "-2", "-3", "-4", "-5")))
    runs = runs_of(arms, MARLIN)
    assert runs.unpatched == (Outcome.MISSING,) * 5
    assert (runs.failed, runs.words) == ((5, 0), ("5:5", "0:5"))
    assert runs.p == pytest.approx(2 / 252)
    assert runs.p_holm == pytest.approx(4 / 252)
    control = runs_of(arms, TRITON)
    assert control.failed == (5, 0)
    assert control.p_holm == pytest.approx(4 / 252)


def test_a_test_that_is_just_missing_is_not_counted_as_failed() -> None:
    arms = Arms(repeat=2)
    for name in arms.arms:
        arm = arms.arms[name]
        nodes = {TRITON: NodeResult(node_id=TRITON, outcome=P)}
        arms.arms[name] = type(arm)(record=arm.record, results=ArmResults(nodes=nodes))
    runs = runs_of(arms, MARLIN)
    assert (runs.failed, runs.p, runs.p_holm) == ((0, 0), None, None)


@pytest.mark.parametrize("lost", [Outcome.SKIPPED, Outcome.NOT_RUN])
def test_one_run_without_a_result_leaves_no_p_value(lost: Outcome) -> None:
    runs = runs_of(Arms(repeat=3).does(MARLIN, lost, "patched-2"), MARLIN)
    assert runs.patched == (P, lost, P)
    assert (runs.failed, runs.p, runs.p_holm) == ((3, 0), None, None)


def test_a_fix_of_a_test_that_is_marked_as_failing_is_counted_as_one() -> None:
    arms = Arms(repeat=2).does(MARLIN, Outcome.XPASSED, "patched", "patched-2")
    arms = arms.does(MARLIN, Outcome.XFAILED, "unpatched", "unpatched-2")
    runs = runs_of(arms, MARLIN)
    assert runs.failed == (2, 0)
    assert runs.p == pytest.approx(1 / 3)
