"""Undeclared tests of files that were run whole: what is worth a line, and which."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.drift import Four
from harness.flips import Flip
from harness.others import Finding, find
from harness.outcome import Outcome
from harness.record import ArmResults, Failure, NodeResult

FILE = "tests/test_a.py"
NODE, DECLARED = f"{FILE}::test_x", f"{FILE}::test_declared"
WHY = Failure(exception="KeyError", message="'setting'")
ANOTHER = Failure(exception="TypeError", message="'setting'")
P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
MISSING, NOT_RUN, TIMEOUT = Outcome.MISSING, Outcome.NOT_RUN, Outcome.TIMEOUT
Pair = tuple[ArmResults, ArmResults]


def arm(state: Outcome, why: Failure = WHY, *, node_id: str = NODE) -> ArmResults:
    """An arm of one undeclared test, beside a declared one that passes."""
    red = state in (F, Outcome.ERROR, Outcome.CRASHED)
    nodes = {DECLARED: NodeResult(node_id=DECLARED, outcome=P)}
    if state is not MISSING:
        nodes[node_id] = NodeResult(node_id=node_id, outcome=state, failure=why if red else None)
    return ArmResults(nodes=nodes, collected=tuple(nodes))


def finding(*pairs: tuple[Outcome, Outcome], four: Four | None = None) -> Finding | None:
    """What is found of the undeclared test, whose outcomes these are in each repeat."""
    found = find([(arm(a), arm(b)) for a, b in pairs], [DECLARED], four)
    assert found.total == (1 if any(pair != (MISSING, MISSING) for pair in pairs) else 0)
    if not found.nodes:
        return None
    (node,) = found.nodes
    assert (node.node_id, (node.unpatched, node.patched)) == (NODE, pairs[0])
    assert found.of(node.finding) == (node,)
    return node.finding


@pytest.mark.parametrize(
    ("unpatched", "patched", "expected"),
    [
        (P, P, None),
        (S, S, None),
        (Outcome.XPASSED, P, None),
        (F, P, Finding.FLIP),
        (Outcome.ERROR, P, Finding.FLIP),
        (Outcome.XFAILED, Outcome.XPASSED, Finding.FLIP),
        (P, F, Finding.REGRESSION),
        (P, Outcome.ERROR, Finding.REGRESSION),
        (P, Outcome.CRASHED, Finding.REGRESSION),
        (Outcome.XPASSED, Outcome.XFAILED, Finding.REGRESSION),
        (P, MISSING, Finding.REGRESSION),
        (F, MISSING, Finding.CHANGED),
        (S, MISSING, Finding.CHANGED),
        (MISSING, P, Finding.CHANGED),
        (MISSING, F, Finding.CHANGED),
        (P, S, Finding.CHANGED),
        (S, P, Finding.CHANGED),
        (F, S, Finding.CHANGED),
        (F, F, Finding.FAILS),
        (F, Outcome.ERROR, Finding.FAILS),
        (P, NOT_RUN, Finding.UNMEASURED),
        (NOT_RUN, NOT_RUN, Finding.UNMEASURED),
        (TIMEOUT, P, Finding.UNMEASURED),
        (P, TIMEOUT, Finding.UNMEASURED),
    ],
)
def test_each_finding_of_one_pair(
    unpatched: Outcome, patched: Outcome, expected: Finding | None
) -> None:
    assert finding((unpatched, patched)) is expected
    # Repeats that say the same change nothing.
    assert finding(*[(unpatched, patched)] * 3) is expected


@pytest.mark.parametrize(
    "pairs",
    [
        [(P, P), (P, F)],
        [(P, F), (P, P)],
        [(P, P), (P, P), (F, P)],
        [(F, F), (F, P)],
        [(F, P), (P, P)],
        [(P, P), (P, S)],
        [(F, F), (Outcome.ERROR, F)],
        [(P, P), (P, TIMEOUT)],  # it hung there
        [(P, F), (P, MISSING)],
    ],
)
def test_runs_that_differ_are_unstable_and_never_a_regression(
    pairs: list[tuple[Outcome, Outcome]],
) -> None:
    assert finding(*pairs) is Finding.UNSTABLE


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(P, P), (NOT_RUN, P)], Finding.UNMEASURED),
        ([(P, P), (P, NOT_RUN)], Finding.UNMEASURED),
        ([(NOT_RUN, NOT_RUN), (P, P)], Finding.UNMEASURED),
        ([(P, F), (P, NOT_RUN)], Finding.REGRESSION),
        ([(NOT_RUN, F), (P, F)], Finding.REGRESSION),
        ([(F, P), (NOT_RUN, P)], Finding.FLIP),
        ([(F, F), (NOT_RUN, NOT_RUN)], Finding.FAILS),
        ([(NOT_RUN, P), (F, P), (P, P)], Finding.UNSTABLE),
    ],
)
def test_a_run_that_an_arm_did_not_come_to_says_nothing(
    pairs: list[tuple[Outcome, Outcome]], expected: Finding
) -> None:
    assert finding(*pairs) is expected


def four(*arms: ArmResults) -> Four:
    a, b, c, d = arms
    return Four(base_unpatched=a, base_patched=b, unpatched=c, patched=d)


def test_what_fails_alike_with_the_old_tests_too_drifted() -> None:
    red = arm(F)
    assert finding((F, F), four=four(red, red, red, red)) is Finding.DRIFT
    assert finding((F, F), four=four(arm(F, ANOTHER), red, red, red)) is Finding.FAILS
    assert finding((F, F), four=four(arm(P), arm(P), red, red)) is Finding.FAILS
    assert finding((F, F), four=four(arm(MISSING), arm(MISSING), red, red)) is Finding.FAILS
    assert finding((F, F), (F, P), four=four(red, red, red, red)) is Finding.UNSTABLE


def test_a_regression_is_none_the_less_one_where_the_old_tests_show_it_too() -> None:
    assert finding((P, F), four=four(arm(P), arm(F), arm(P), arm(F))) is Finding.REGRESSION


def test_declared_tests_are_left_out_and_all_others_counted() -> None:
    before, after = (
        ArmResults(
            nodes={
                name: NodeResult(node_id=name, outcome=state)
                for name, state in (
                    (DECLARED, P if after else F),
                    ("b.py::test_2", P),
                    ("b.py::test_1", F if after else P),
                    ("c.py::test_3", P),
                )
            }
        )
        for after in (False, True)
    )
    found = find([(before, after)], [DECLARED], None)
    assert found.total == 3
    assert found.counts == {Flip.BOTH_PASS: 2, Flip.BROKE: 1}
    assert [(node.node_id, node.finding) for node in found.nodes] == [
        ("b.py::test_1", Finding.REGRESSION)
    ]
    assert found.of(Finding.UNSTABLE) == ()


def test_a_test_that_only_a_later_repeat_had_is_not_overlooked() -> None:
    absent, there = arm(MISSING), arm(P)
    found = find([(absent, absent), (there, there)], [DECLARED], None)
    assert [(node.node_id, node.finding) for node in found.nodes] == [(NODE, Finding.UNSTABLE)]


def unloadable(file: str) -> ArmResults:
    nodes = {DECLARED: NodeResult(node_id=DECLARED, outcome=P)}
    return ArmResults(nodes=nodes, load_errors={file: WHY})


def pairs_of(before: ArmResults, after: ArmResults) -> Sequence[Pair]:
    return [(before, after)]


def test_a_file_that_only_the_patch_makes_unloadable_breaks_its_tests() -> None:
    inside = "tests/test_b.py::test_y"
    before = arm(P, node_id=inside)
    found = find(pairs_of(before, unloadable("tests/test_b.py")), [DECLARED], None)
    assert {node.node_id: node.finding for node in found.nodes} == {
        "tests/test_b.py": Finding.CHANGED,
        inside: Finding.REGRESSION,
    }
    (test,) = found.of(Finding.REGRESSION)
    assert (test.patched, test.failure, test.patched_failure) == (Outcome.ERROR, None, WHY)


def test_a_file_that_cannot_be_loaded_in_either_arm_fails_in_both() -> None:
    lost = unloadable("tests/test_b.py")
    (node,) = find(pairs_of(lost, lost), [DECLARED], None).nodes
    assert (node.node_id, node.finding, node.failure) == ("tests/test_b.py", Finding.FAILS, WHY)
    (node,) = find(pairs_of(lost, lost), [DECLARED], four(lost, lost, lost, lost)).nodes
    assert node.finding is Finding.DRIFT


def test_the_file_of_a_declared_test_has_its_load_error_in_the_verdicts() -> None:
    found = find(pairs_of(arm(P), unloadable(FILE)), [DECLARED], None)
    assert [node.node_id for node in found.nodes] == [NODE]
