"""Skips are part of the claim; and what more arms than two say of it.

What else is judged, the contract suite shows on real arms.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import reports
from support.manyarms import AS_CLAIMED, OLD_TESTS, OTHER_RED, Arms, of, verdicts
from support.reports import (
    CASE,
    CUDA,
    FILE,
    MARLIN,
    PREP,
    PROBE,
    RED,
    RUN,
    SKIP,
    TRITON,
    evidence,
    verdict,
)

from harness import gaps
from harness.judge import judge_row
from harness.outcome import Arm, ArmStatus, Outcome
from harness.patch import parse_patch
from harness.record import ArmEvidence, NodeResult, Probe, TargetEvidence
from harness.verdict import NodeVerdict, Overall, Verdict, overall

PATCH = parse_patch(b"--- a/example/moe.py\n+++ b/example/moe.py\n@@ -1 +1 @@\n-a\n+b\n", where="p")


def arm(which: Arm, outcome: Outcome, reason: str, probe: Probe) -> ArmEvidence:
    node = verdict(PREP, Verdict.SKIPPED)
    made = evidence(which, (node,), probe=probe, tests_sha256="7e" * 32)
    failure = reports.RED if outcome is Outcome.FAILED else None
    result = NodeResult(node_id=PREP, outcome=outcome, skip_reason=reason, failure=failure)
    return replace(made, results=replace(made.results, nodes={PREP: result}))


def judged(
    before: tuple[Outcome, str], after: tuple[Outcome, str], probe: Probe = PROBE
) -> tuple[NodeVerdict, Overall]:
    row = judge_row(
        CASE,
        PATCH,
        replace(RUN, selected=(PREP,)),
        TargetEvidence(
            target=reports.LOCAL,
            arms={
                "unpatched": arm(Arm.UNPATCHED, *before, probe),
                "patched": arm(Arm.PATCHED, *after, probe),
            },
        ),
        folder="x",
    )
    assert not row.refused
    (node,) = row.nodes
    return node, overall([row])


S, F, P = Outcome.SKIPPED, Outcome.FAILED, Outcome.PASSED


def test_a_declared_skip_for_the_declared_reason() -> None:
    node, _ = judged((S, f"{SKIP}: here is none"), (S, f"{SKIP}: here is none"))
    assert (node.verdict, node.confirmed) == (Verdict.SKIPPED, True)


@pytest.mark.parametrize(
    ("before", "after", "probe", "said"),
    [
        ((S, "no GPU"), (S, "no GPU"), PROBE, "another reason than declared"),
        ((S, SKIP), (S, "no GPU"), PROBE, "'no GPU'"),
        ((S, ""), (S, ""), PROBE, "no reason given"),
        ((S, SKIP), (S, SKIP), CUDA, "which the case does not expect on cuda-sm90"),
        ((S, SKIP), (P, ""), PROBE, f"skipped in the unpatched arm only: {SKIP}"),
        ((F, ""), (S, "later"), PROBE, "skipped in the patched arm only: later"),
        ((P, ""), (S, ""), PROBE, "skipped in the patched arm only: no reason given"),
    ],
)
def test_any_other_skip_is_a_verdict_of_its_own(
    before: tuple[Outcome, str], after: tuple[Outcome, str], probe: Probe, said: str
) -> None:
    node, found = judged(before, after, probe)
    assert (node.verdict, node.confirmed) == (Verdict.UNEXPECTED_SKIP, False)
    assert said in node.reason
    assert found is Overall.NOT_CONFIRMED


@pytest.mark.parametrize("outcome", [Outcome.MISSING, Outcome.NOT_RUN, Outcome.TIMEOUT])
def test_what_did_not_run_is_not_called_a_skip_that_ran(outcome: Outcome) -> None:
    node = replace(verdict(PREP, Verdict.MISSING), unpatched=outcome, patched=outcome)
    assert not any("but ran" in gap for gap in gaps.find([reports.cpu_row((node,))]))


def test_a_declared_skip_that_runs_is_judged_and_listed() -> None:
    node, _ = judged((F, ""), (P, ""))
    assert node.verdict is Verdict.FLIP_CONFIRMED
    row = reports.cpu_row((node,))
    assert f"declared to be skipped on cpu, but ran: {FILE}::test_prep" in gaps.find([row])


def test_one_pair_has_no_runs_to_count() -> None:
    row = Arms().row()
    assert verdicts(row) == AS_CLAIMED
    assert [node.runs for node in row.nodes] == [None, None]
    assert (row.repeats, row.agreement, row.ablation, row.drift, row.others) == (1, *[None] * 4)


def test_repeats_that_agree_are_counted_and_tested() -> None:
    row = Arms(repeat=3).row()
    assert verdicts(row) == AS_CLAIMED
    flip, control = of(row, MARLIN).runs, of(row, TRITON).runs
    assert flip and control
    assert (flip.unpatched, flip.patched, flip.failed) == ((F, F, F), (P, P, P), (3, 0))
    assert flip.p == pytest.approx(0.1)
    assert flip.p_holm == pytest.approx(0.2)
    assert (control.failed, control.p, control.p_holm) == ((0, 0), 1.0, 1.0)
    assert row.repeats == 3
    assert overall([row]) is Overall.CONFIRMED


@pytest.mark.parametrize("arm", ["patched", "patched-2", "patched-3"])
def test_one_run_that_differs_makes_a_test_unstable_and_nothing_else(arm: str) -> None:
    row = Arms(repeat=3).does(MARLIN, RED, arm).row()
    assert verdicts(row) == {**AS_CLAIMED, MARLIN: Verdict.UNSTABLE}
    flaky = of(row, MARLIN)
    assert not flaky.confirmed
    assert flaky.runs and flaky.runs.failed == (3, 1)
    assert flaky.reason.startswith("the patched arms do not agree: ")
    assert "failed in 1 of 3 runs" in flaky.reason and "passed in 2 of 3 runs" in flaky.reason
    assert of(row, TRITON) == of(Arms(repeat=3).row(), TRITON)
    assert overall([row]) is Overall.NOT_CONFIRMED


def test_a_control_that_fails_in_one_unpatched_arm_is_unstable() -> None:
    row = Arms(repeat=2).does(TRITON, RED, "unpatched-2").row()
    assert verdicts(row) == {**AS_CLAIMED, TRITON: Verdict.UNSTABLE}
    assert of(row, TRITON).reason == (
        "the unpatched arms do not agree: passed in 1 of 2 runs, failed in 1 of 2 runs"
    )


def test_one_outcome_for_two_reasons_is_unstable() -> None:
    row = Arms(repeat=2).does(MARLIN, OTHER_RED, "unpatched-2").row()
    flip = of(row, MARLIN)
    assert flip.verdict is Verdict.UNSTABLE
    assert flip.reason.startswith("flip-confirmed in repeat 1, wrong-red in repeat 2: ")
    assert "raised KeyError, declared TypeError" in flip.reason


def test_a_run_that_an_arm_did_not_come_to_makes_inconclusive_and_not_unstable() -> None:
    row = Arms(repeat=3).does(MARLIN, Outcome.NOT_RUN, "unpatched-2").row()
    flip = of(row, MARLIN)
    assert (flip.verdict, flip.confirmed) == (Verdict.INCONCLUSIVE, False)
    assert flip.reason == "in repeat 2: no result: not-run unpatched, passed patched"
    assert flip.runs and (flip.runs.p, flip.runs.p_holm) == (None, None)
    assert of(row, TRITON).verdict is Verdict.CONTROL_HELD
    control = of(row, TRITON).runs
    assert control and control.p_holm == 1.0  # the only p-value: nothing to correct for
    assert overall([row]) is Overall.INCONCLUSIVE


def test_what_did_run_still_disagrees_where_a_run_is_lost() -> None:
    arms = Arms(repeat=3).does(MARLIN, Outcome.NOT_RUN, "unpatched").does(MARLIN, P, "unpatched-3")
    flip = of(arms.row(), MARLIN)
    assert flip.verdict is Verdict.UNSTABLE
    assert flip.reason == (
        "the unpatched arms do not agree: failed in 1 of 2 runs, passed in 1 of 2 runs"
    )


def test_the_unpatched_arm_that_differs_from_itself_makes_a_test_unstable() -> None:
    row = Arms(aa=True).does(TRITON, RED, "aa").row()
    assert verdicts(row) == {**AS_CLAIMED, TRITON: Verdict.UNSTABLE}
    assert of(row, TRITON).reason == (
        "the unpatched and A/A arms do not agree: passed in 1 of 2 runs, failed in 1 of 2 runs"
    )
    assert row.agreement
    assert (row.agreement.pairs, row.agreement.comparisons) == (1, 3)
    assert row.agreement.differing == (TRITON,)
    assert overall([row]) is Overall.NOT_CONFIRMED


def test_each_repeat_is_compared_with_its_own_twin() -> None:
    row = Arms(aa=True, repeat=2).does(TRITON, RED, "unpatched-2", "aa-2").row()
    assert row.agreement
    assert (row.agreement.pairs, row.agreement.comparisons) == (2, 6)
    assert row.agreement.differing == ()
    assert verdicts(row)[TRITON] is Verdict.UNSTABLE


def test_what_an_a_a_arm_did_not_run_is_no_difference() -> None:
    row = Arms(aa=True).does(TRITON, Outcome.NOT_RUN, "aa").row()
    assert verdicts(row) == AS_CLAIMED
    assert row.agreement
    assert (row.agreement.comparisons, row.agreement.differing) == (2, ())


def test_an_a_a_arm_that_cannot_be_compared_says_nothing() -> None:
    arms = Arms(aa=True).where("aa", probe=replace(PROBE, kernel="6.2")).does(TRITON, RED, "aa")
    row = arms.row()
    assert verdicts(row) == AS_CLAIMED
    assert row.agreement
    assert row.agreement.refused == ("aa arm: kernel differs: 6.1.0-test and 6.2",)
    assert (row.agreement.comparisons, row.agreement.differing) == (0, ())
    assert not row.refused


@pytest.mark.parametrize("name", ["unpatched", "patched", "unpatched-2", "patched-2"])
def test_a_row_is_refused_where_one_arm_of_a_repeat_differs(name: str) -> None:
    arms = Arms(repeat=2, aa=True, ablate=True, base=OLD_TESTS)
    row = arms.where(name, image=replace(reports.IMAGES["local"], digest="sha256:bb")).row()
    assert "image differs: " in " ".join(row.refused)
    assert set(verdicts(row).values()) == {Verdict.INFRA}
    assert not any(node.confirmed or node.runs for node in row.nodes)
    assert (row.agreement, row.ablation, row.drift, row.others) == (None, None, None, None)
    assert overall([row]) is Overall.INCONCLUSIVE


def test_a_row_is_refused_where_a_repeat_is_lacking() -> None:
    arms = Arms(repeat=2)
    del arms.arms["patched-2"]
    row = arms.row()
    assert row.refused == ("patched-2 arm: no evidence: the run did not get that far",)
    assert set(verdicts(row).values()) == {Verdict.INFRA}


def test_what_ends_the_first_pair_is_the_reason_and_not_its_repeats() -> None:
    arms = Arms(repeat=2)
    arms.where("patched", status=ArmStatus.PATCH_REJECTED, reason="hunk 1 fails")
    arms.where("patched-2", "unpatched-2", status=ArmStatus.ENGINE_FAILED, reason="not started")
    row = arms.row()
    assert row.refused == ("patch rejected: hunk 1 fails",)
    assert set(verdicts(row).values()) == {Verdict.INCONCLUSIVE}
