"""Old and new tests on both sources: what drifted, what the patch changes, what neither says."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest

from harness.drift import Four, compare, failure, outcome, same_reason, units
from harness.flips import Flip, classify
from harness.outcome import Outcome
from harness.record import ArmResults, Failure, NodeResult

FILE, OTHER = "tests/test_a.py", "tests/test_b.py"
OLD, FLIP, NEW = f"{FILE}::test_old", f"{FILE}::test_flip", f"{FILE}::test_new"
P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
GONE = Failure(exception="KeyError", message="'setting'", file=FILE, line=12)
MOVED = Failure(exception="KeyError", message="'setting'", file=FILE, line=40)
ANOTHER = Failure(exception="TypeError", message="'setting'", file=FILE, line=12)
State = Outcome | Failure | None


def arm(states: Mapping[str, State], **more: object) -> ArmResults:
    """An arm in which each node did this: a failure stands for a red one, None for its absence."""
    nodes = {
        node_id: NodeResult(
            node_id=node_id,
            outcome=F if isinstance(state, Failure) else state,
            failure=state if isinstance(state, Failure) else None,
        )
        for node_id, state in states.items()
        if state is not None
    }
    return ArmResults(nodes=nodes, collected=tuple(nodes), **more)  # type: ignore[arg-type]


def four(*states: Mapping[str, State]) -> Four:
    """Old tests unpatched and patched, new tests unpatched and patched."""
    a, b, c, d = map(arm, states)
    return Four(base_unpatched=a, base_patched=b, unpatched=c, patched=d)


def of(node_id: str, *states: State) -> Four:
    """The four arms of one node."""
    return four(*({node_id: state} for state in states))


@pytest.mark.parametrize("states", list(product((P, S, GONE), repeat=4)))
def test_the_2_by_2_of_an_old_test(states: tuple[State, ...]) -> None:
    a, b, c, d = (F if isinstance(state, Failure) else state for state in states)
    found = compare(of(OLD, *states), ())
    all_fail = states == (GONE,) * 4
    moved = (a is not b) or (c is not d)
    assert (found.pre_existing, found.new, found.unmeasured, found.flipped) == (1, 0, 0, 0)
    assert [node.node_id for node in found.drifted] == [OLD] * all_fail
    assert [node.node_id for node in found.changed] == [OLD] * moved
    assert found.holds is not moved
    for node in (*found.drifted, *found.changed):
        assert (node.base_unpatched, node.base_patched, node.unpatched, node.patched) == (
            a,
            b,
            c,
            d,
        )
        assert node.failure == (GONE if a is F else None)


@pytest.mark.parametrize("where", range(4))
def test_a_failure_for_another_reason_in_one_arm_is_no_drift(where: int) -> None:
    states: list[State] = [GONE] * 4
    states[where] = ANOTHER
    found = compare(of(OLD, *states), ())
    assert (found.drifted, found.changed, found.unmeasured) == ((), (), 0)
    assert found.holds  # it fails everywhere: the patch changes no state


def test_lines_differ_between_test_files_and_numbers_and_paths_between_runs() -> None:
    assert [n.node_id for n in compare(of(OLD, GONE, GONE, MOVED, MOVED), ()).drifted] == [OLD]
    at = [
        Failure(exception="OSError", message=f"/tmp/x{n}/f: {n} bytes at 0x{n}f") for n in range(4)
    ]
    assert compare(of(OLD, *at), ()).drifted


@pytest.mark.parametrize("lost", [Outcome.TIMEOUT, Outcome.NOT_RUN])
@pytest.mark.parametrize("where", range(4))
def test_what_did_not_run_to_its_end_is_unmeasured_and_nothing_holds(
    lost: Outcome, where: int
) -> None:
    states: list[State] = [P] * 4
    states[where] = lost
    found = compare(of(OLD, *states), ())
    assert (found.unmeasured, found.changed, found.drifted, found.holds) == (1, (), (), False)


def test_a_declared_flip_changes_and_is_counted_apart() -> None:
    arms = four({OLD: P, FLIP: GONE}, {OLD: P, FLIP: P}, {OLD: P, FLIP: GONE}, {OLD: P, FLIP: P})
    found = compare(arms, [FLIP])
    assert (found.pre_existing, found.flipped, found.changed, found.holds) == (2, 1, (), True)
    undeclared = compare(arms, [])
    assert [node.node_id for node in undeclared.changed] == [FLIP]
    assert (undeclared.flipped, undeclared.holds) == (0, False)


def test_a_flip_that_does_not_flip_is_not_counted_as_one() -> None:
    assert compare(of(FLIP, P, P, P, P), [FLIP]).flipped == 0
    drifted = compare(of(FLIP, GONE, GONE, GONE, GONE), [FLIP])
    assert (drifted.flipped, [node.node_id for node in drifted.drifted]) == (0, [FLIP])


def test_tests_of_the_new_files_alone_are_counted_and_not_compared() -> None:
    arms = four({OLD: P}, {OLD: P}, {OLD: P, NEW: GONE, FLIP: GONE}, {OLD: P, NEW: P, FLIP: P})
    found = compare(arms, [FLIP])
    assert (found.pre_existing, found.new, found.changed, found.holds) == (1, 2, (), True)


def test_a_test_that_the_new_files_dropped_is_compared_in_the_old_ones() -> None:
    found = compare(of(OLD, P, P, None, None), ())
    assert (found.pre_existing, found.changed, found.holds) == (1, (), True)
    broke = compare(of(OLD, P, GONE, None, None), ())
    assert [node.node_id for node in broke.changed] == [OLD]
    assert broke.changed[0].unpatched is Outcome.MISSING


@pytest.mark.parametrize("states", [(P, None, P, P), (None, P, P, P), (P, P, P, None)])
def test_a_test_that_only_one_source_has_is_changed(states: tuple[State, ...]) -> None:
    found = compare(of(OLD, *states), ())
    assert [node.node_id for node in found.changed] == [OLD]


def test_without_any_old_test_nothing_holds() -> None:
    found = compare(four({}, {}, {NEW: P}, {NEW: P}), ())
    assert (found.pre_existing, found.new, found.holds) == (0, 1, False)


def unloadable(*nodes: str, file: str = OTHER, why: Failure = GONE) -> ArmResults:
    """An arm with a file that cannot be loaded; these nodes of others pass."""
    return arm(dict.fromkeys(nodes, P), load_errors={file: why})


def test_a_file_that_cannot_be_loaded_in_any_arm_drifted() -> None:
    arms = [unloadable(OLD) for _ in range(4)]
    found = compare(
        Four(base_unpatched=arms[0], base_patched=arms[1], unpatched=arms[2], patched=arms[3]), ()
    )
    (node,) = found.drifted
    assert (node.node_id, node.base_unpatched, node.failure) == (OTHER, Outcome.ERROR, GONE)
    assert (found.pre_existing, found.changed, found.holds) == (2, (), True)


def test_a_file_that_the_patch_makes_unloadable_changes_and_all_its_tests() -> None:
    inside = f"{OTHER}::test_x"
    loads, breaks = arm({OLD: P, inside: P}), unloadable(OLD)
    found = compare(
        Four(base_unpatched=loads, base_patched=breaks, unpatched=loads, patched=breaks), ()
    )
    assert [node.node_id for node in found.changed] == [OTHER, inside]
    assert [node.base_patched for node in found.changed] == [Outcome.ERROR] * 2
    assert not found.holds


def test_the_file_of_a_declared_flip_may_become_loadable() -> None:
    lost, loads = unloadable(OLD, file=FILE), arm({OLD: P})
    arms = Four(base_unpatched=lost, base_patched=loads, unpatched=lost, patched=loads)
    assert [node.node_id for node in compare(arms, []).changed] == [FILE]
    declared = compare(arms, [FLIP])
    assert (declared.changed, declared.flipped, declared.holds) == ((), 1, True)


def test_an_old_test_is_unmeasured_where_the_new_tests_were_not_even_collected() -> None:
    cut = arm({}, complete=False)
    there = arm({OLD: P})
    found = compare(Four(base_unpatched=there, base_patched=there, unpatched=cut, patched=cut), ())
    assert (found.unmeasured, found.holds) == (1, False)


def test_units_are_nodes_and_files_with_a_state_and_not_the_run_as_a_whole() -> None:
    results = arm({OLD: P}, load_errors={OTHER: GONE, "": GONE}, load_skips={"c.py": "no GPU"})
    assert units(results) == {OLD, OTHER, "c.py"}


def test_the_state_of_files_and_of_tests_in_them() -> None:
    results = arm({OLD: P}, load_errors={OTHER: GONE}, load_skips={"c.py": "no GPU"})
    assert outcome(results, OTHER) is Outcome.ERROR
    assert outcome(results, f"{OTHER}::test_x") is Outcome.ERROR
    assert outcome(results, "c.py") is Outcome.SKIPPED
    assert outcome(results, "c.py::test_x") is Outcome.SKIPPED
    assert outcome(results, OLD) is P
    assert outcome(results, f"{FILE}::test_absent") is Outcome.MISSING
    assert outcome(arm({}, complete=False), OLD) is Outcome.NOT_RUN
    assert failure(results, f"{OTHER}::test_x") == failure(results, OTHER) == GONE
    assert failure(results, OLD) is None


def test_an_expected_failure_is_none_that_could_drift() -> None:
    node = NodeResult(node_id=OLD, outcome=Outcome.XFAILED, failure=GONE)
    results = ArmResults(nodes={OLD: node})
    assert failure(results, OLD) is None
    found = compare(
        Four(base_unpatched=results, base_patched=results, unpatched=results, patched=results), ()
    )
    assert (found.drifted, found.changed, found.holds) == ((), (), True)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (GONE, MOVED, True),
        (GONE, ANOTHER, False),
        (GONE, Failure(exception="KeyError", message="'other'"), False),
        (GONE, None, False),
        (None, GONE, False),
        (None, None, False),
    ],
)
def test_one_reason(first: Failure | None, second: Failure | None, same: bool) -> None:
    assert same_reason(first, second) is same


def test_the_states_here_are_those_that_a_pair_tells_apart() -> None:
    """What the test of the 2 × 2 takes for a change is one by the one table of flips."""
    for a, b in product((P, S, F), repeat=2):
        quiet = classify(a, b) in (Flip.BOTH_PASS, Flip.BOTH_FAIL, Flip.BOTH_SKIP)
        assert quiet is (a is b)
