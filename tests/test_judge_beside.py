"""What is judged beside the pair: old tests, hunk by hunk, and tests that nobody declared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.manyarms import AS_CLAIMED, NEW, OLD_TESTS, OTHER_RED, Arms, P, of, verdicts
from support.reports import MARLIN, PROBE, RED, TRITON

from harness.others import Finding
from harness.outcome import ArmStatus, Outcome
from harness.record import Failure
from harness.verdict import Overall, Verdict, overall

BASE = {"base": OLD_TESTS}


def test_a_test_that_fails_alike_in_all_four_arms_drifted() -> None:
    row = Arms(**BASE).does(TRITON, OTHER_RED).row()
    assert verdicts(row) == {**AS_CLAIMED, TRITON: Verdict.DRIFT}
    control = of(row, TRITON)
    assert not control.confirmed
    assert control.reason.startswith("fails alike with the old tests and without the patch: ")
    assert "KeyError" in control.reason
    assert row.drift and [found.node_id for found in row.drift.drifted] == [TRITON]
    assert overall([row]) is Overall.INCONCLUSIVE  # the image's fault, not the patch's


@pytest.mark.parametrize("claimed", [RED, OTHER_RED])
def test_a_flip_that_drifted_is_neither_not_fixed_nor_a_wrong_red(claimed: Failure) -> None:
    row = Arms(**BASE).does(MARLIN, claimed).row()
    assert verdicts(row) == {**AS_CLAIMED, MARLIN: Verdict.DRIFT}
    without = Arms().does(MARLIN, claimed).row()
    expected = Verdict.NOT_FIXED if claimed is RED else Verdict.WRONG_RED
    assert verdicts(without)[MARLIN] is expected


@pytest.mark.parametrize("differs", ["base-unpatched", "base-patched", "unpatched", "patched"])
@pytest.mark.parametrize("other", [P, RED])
def test_what_does_not_fail_alike_in_all_four_has_not_drifted(
    differs: str, other: Outcome | Failure
) -> None:
    row = Arms(**BASE).does(TRITON, OTHER_RED).does(TRITON, other, differs).row()
    assert verdicts(row)[TRITON] is not Verdict.DRIFT
    assert verdicts(row)[MARLIN] is Verdict.FLIP_CONFIRMED


def test_an_unstable_test_is_not_called_drift() -> None:
    row = Arms(**BASE, repeat=2).does(TRITON, OTHER_RED).does(TRITON, P, "patched-2").row()
    assert verdicts(row) == {**AS_CLAIMED, TRITON: Verdict.UNSTABLE}


def test_old_tests_that_cannot_be_compared_explain_nothing() -> None:
    arms = Arms(**BASE).where("base-patched", probe=replace(PROBE, kernel="6.2"))
    row = arms.does(TRITON, OTHER_RED).row()
    assert not row.refused
    assert row.drift and not row.drift.holds
    assert row.drift.refused == ("base-patched arm: kernel differs: 6.1.0-test and 6.2",)
    assert verdicts(row) == {**AS_CLAIMED, TRITON: Verdict.DOES_NOT_REPRODUCE}


def test_old_tests_must_run_on_what_the_new_ones_ran_on() -> None:
    other = replace(PROBE, kernel="6.2")
    row = Arms(**BASE).where("base-unpatched", "base-patched", probe=other).row()
    assert row.drift and row.drift.refused == ("both arms: kernel differs: 6.1.0-test and 6.2",)


def test_the_two_arms_with_old_tests_have_the_same_ones() -> None:
    row = Arms(**BASE).where("base-patched", tests_sha256="0d" * 32).row()
    assert row.drift and row.drift.refused == (
        f"base-patched arm: test files differs:  and {'0d' * 32}",
    )


def test_old_tests_that_were_not_run_are_said() -> None:
    arms = Arms(**BASE)
    del arms.arms["base-patched"]
    row = arms.row()
    assert row.drift and row.drift.refused == (
        "base-patched arm: no evidence: the run did not get that far",
    )
    assert verdicts(row) == AS_CLAIMED


def test_old_tests_differ_from_the_new_and_that_is_no_reason() -> None:
    arms = Arms(**BASE).where("base-unpatched", "base-patched", tests_sha256="0d" * 32)
    row = arms.row()
    assert row.drift and (row.drift.refused, row.drift.holds) == ((), True)
    assert (row.drift.pre_existing, row.drift.new, row.drift.flipped) == (3, 0, 1)


def test_which_hunks_the_flip_needs() -> None:
    row = Arms(ablate=True).row()
    assert row.ablation
    (flip,) = row.ablation.nodes
    assert (flip.node_id, flip.needed, flip.alone, flip.minimal) == (MARLIN, (1,), (1,), ((1,),))
    assert [hunk.number for hunk in row.ablation.unneeded] == [2, 3]
    assert row.ablation.broken == () and row.ablation.complete
    assert [(s.hunks, s.arm) for s in row.ablation.subsets] == [
        ((1,), "hunks-1"),
        ((2,), "hunks-2"),
        ((3,), "hunks-3"),
        ((1, 2), "hunks-1+2"),
        ((1, 3), "hunks-1+3"),
        ((2, 3), "hunks-2+3"),
    ]
    assert row.ablation.subsets[1].failures == {MARLIN: RED}
    assert row.ablation.subsets[0].failures == {}


def test_only_a_confirmed_flip_is_asked_for_its_hunks_and_only_a_control_that_held() -> None:
    arms = Arms(ablate=True).does(MARLIN, RED, "patched").does(TRITON, RED, "unpatched", "hunks-2")
    row = arms.row()
    assert row.ablation
    assert (row.ablation.nodes, row.ablation.broken, row.ablation.unneeded) == ((), (), ())


def test_half_a_patch_that_breaks_a_control() -> None:
    row = Arms(ablate=True).does(TRITON, OTHER_RED, "hunks-2", "hunks-2+3").row()
    assert row.ablation
    assert row.ablation.broken == ((TRITON, (2,)), (TRITON, (2, 3)))
    assert verdicts(row) == AS_CLAIMED


def test_hunks_that_cannot_be_applied_apart_are_said_so() -> None:
    arms = Arms(ablate=True).where(
        "hunks-2", status=ArmStatus.PATCH_REJECTED, reason="hunk 1 FAILED.\n  Look."
    )
    row = arms.row()
    assert row.ablation and not row.refused
    subset = row.ablation.subsets[1]
    assert (subset.hunks, subset.apart, subset.outcomes) == ((2,), False, {})
    assert subset.problem == "cannot be applied apart: hunk 1 FAILED. Look"
    assert [s.apart for s in row.ablation.subsets].count(False) == 1
    (flip,) = row.ablation.nodes
    assert (flip.needed, flip.minimal, flip.unknown) == ((1,), ((1,),), ())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": ArmStatus.KILLED, "reason": "out of memory"}, "killed: out of memory"),
        ({"status": ArmStatus.INTERRUPTED, "reason": "cut short"}, "cut short"),
        ({"probe": replace(PROBE, kernel="6.2")}, "kernel differs: 6.1.0-test and 6.2"),
        ({"seal": None}, "its files could not be checked after the tests"),
        ({"hunks": (1, 2)}, "its record is of the hunks-2+3 arm"),
    ],
)
def test_an_unusable_arm_leaves_its_hunks_unknown_and_the_row_as_it_was(
    changes: dict[str, object], problem: str
) -> None:
    row = Arms(ablate=True).where("hunks-2+3", **changes).row()
    assert verdicts(row) == AS_CLAIMED and not row.refused
    assert row.ablation
    subset = row.ablation.subsets[-1]
    assert (subset.problem, subset.apart) == (f"hunks-2+3 arm: {problem}", True)
    assert (subset.outcomes, subset.failures) == ({}, {})
    (flip,) = row.ablation.nodes
    assert (flip.needed, flip.unknown) == ((), (1,))
    assert [hunk.number for hunk in row.ablation.unneeded] == [2, 3]


def test_an_arm_with_some_hunks_that_was_not_run_is_unknown() -> None:
    arms = Arms(ablate=True)
    del arms.arms["hunks-1+3"]
    row = arms.row()
    assert row.ablation
    assert row.ablation.subsets[4].problem == (
        "hunks-1+3 arm: no evidence: the run did not get that far"
    )
    assert row.ablation.nodes[0].unknown == (2,)


def test_an_undeclared_regression_is_no_confirmation() -> None:
    row = Arms(whole_files=True).does(NEW, OTHER_RED, "patched").row()
    assert verdicts(row) == AS_CLAIMED
    assert row.others and [n.finding for n in row.others.nodes] == [Finding.REGRESSION]
    assert overall([row]) is Overall.NOT_CONFIRMED


@pytest.mark.parametrize(
    ("arms", "finding"),
    [
        (Arms(**BASE).does(NEW, OTHER_RED), Finding.DRIFT),
        (Arms(whole_files=True, repeat=2).does(NEW, OTHER_RED, "patched-2"), Finding.UNSTABLE),
        (Arms(whole_files=True, repeat=2).does(NEW, OTHER_RED, "patched"), Finding.UNSTABLE),
        (Arms(whole_files=True).does(NEW, OTHER_RED), Finding.FAILS),
        (Arms(whole_files=True).does(NEW, OTHER_RED, "unpatched"), Finding.FLIP),
    ],
)
def test_other_findings_in_undeclared_tests_change_nothing(arms: Arms, finding: Finding) -> None:
    row = arms.row()
    assert verdicts(row) == AS_CLAIMED
    assert row.others
    assert [(n.node_id, n.finding) for n in row.others.nodes] == [(NEW, finding)]
    assert overall([row]) is Overall.CONFIRMED


def test_a_declared_test_that_drifts_or_is_unstable_is_not_among_the_others() -> None:
    row = Arms(**BASE).does(TRITON, OTHER_RED).row()
    assert row.others and (row.others.total, row.others.nodes) == (1, ())


def test_undeclared_tests_are_not_looked_at_where_files_were_not_run_whole() -> None:
    row = Arms().does(NEW, OTHER_RED, "patched").row()
    assert row.others is None
    assert overall([row]) is Overall.CONFIRMED
