"""Skips are part of the claim. (What else is judged, the contract suite shows on real arms.)"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import reports
from support.reports import CASE, CUDA, FILE, PREP, PROBE, RUN, SKIP, evidence, verdict

from harness import gaps
from harness.judge import judge_row
from harness.outcome import Arm, Outcome
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
            unpatched=arm(Arm.UNPATCHED, *before, probe),
            patched=arm(Arm.PATCHED, *after, probe),
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
