"""From two arms to verdicts: does what was measured confirm what the case claims?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from harness.case import Case, Node, Role
from harness.comparable import refusal
from harness.flips import Flip, classify
from harness.outcome import ArmStatus, Outcome
from harness.patch import Patch
from harness.record import ArmEvidence, Failure, NodeResult, RunRecord, TargetEvidence
from harness.signature import level, mismatch, same_failure
from harness.verdict import NodeVerdict, Row, Verdict


def judge_row(
    case: Case, patch: Patch, run: RunRecord, evidence: TargetEvidence, *, folder: str
) -> Row:
    """Judge every selected node of one row; a row whose arms differ in more than the patch is
    refused as a whole."""
    before, after = evidence.unpatched, evidence.patched
    probes = [arm.record.probe for arm in (before, after) if arm and arm.record.probe]
    probe = probes[0] if probes else None
    platform = probe.platform if probe else "unknown"
    rejected, refused = refusal(before, after)
    verdict = Verdict.INCONCLUSIVE if rejected else Verdict.INFRA
    chosen = [node for node in case.nodes if node.id in run.selected]
    nodes = []
    for node in chosen:
        if before is None or after is None or refused:
            nodes.append(_refused(node, platform, before, after, verdict, refused))
        else:
            nodes.append(_Judge(case, patch, node, platform, before, after).verdict())
    return Row(
        case=case,
        run=run,
        folder=folder,
        platform=platform,
        device=probe.device if probe else "",
        evidence=evidence,
        nodes=tuple(nodes),
        unpatched=before.results.counts(run.selected) if before else {},
        patched=after.results.counts(run.selected) if after else {},
        refused=refused,
    )


_WITHOUT_OUTCOMES = (ArmStatus.PATCH_REJECTED, ArmStatus.ENGINE_FAILED, ArmStatus.INTERRUPTED)


def _refused(
    node: Node,
    platform: str,
    before: ArmEvidence | None,
    after: ArmEvidence | None,
    verdict: Verdict,
    reasons: Sequence[str],
) -> NodeVerdict:
    outcomes = [_outcome_in(arm, node.id) for arm in (before, after)]
    return NodeVerdict(
        node_id=node.id,
        role=node.role_at(platform),
        unpatched=outcomes[0],
        patched=outcomes[1],
        verdict=verdict,
        confirmed=False,
        reason="; ".join(reasons),
    )


def _outcome_in(arm: ArmEvidence | None, node_id: str) -> Outcome:
    if arm is None or arm.record.status in _WITHOUT_OUTCOMES:
        return Outcome.NOT_RUN
    return arm.results.result(node_id).outcome


class _Judge:
    """One node on one row whose arms are comparable."""

    def __init__(
        self,
        case: Case,
        patch: Patch,
        node: Node,
        platform: str,
        before: ArmEvidence,
        after: ArmEvidence,
    ) -> None:
        self.case, self.patch, self.node, self.platform = case, patch, node, platform
        self.role = node.role_at(platform)
        self.a, self.b = before.results.result(node.id), after.results.result(node.id)
        self.load_a, self.load_b = (
            before.results.load_error(node.id),
            after.results.load_error(node.id),
        )
        self.failure = self.load_a if self.a.outcome is Outcome.MISSING else self.a.failure
        self.patched_failure = self.load_b if self.b.outcome is Outcome.MISSING else self.b.failure
        self.offsets: dict[str, set[int]] = {}
        for hunk in before.record.staging.hunks if before.record.staging else ():
            self.offsets.setdefault(hunk.file, set()).add(hunk.offset)

    def verdict(self) -> NodeVerdict:
        verdict, confirmed, reason = self._decide()
        return NodeVerdict(
            node_id=self.node.id,
            role=self.role,
            unpatched=self.a.outcome,
            patched=self.b.outcome,
            verdict=verdict,
            confirmed=confirmed,
            reason=reason,
            failure=self.failure,
            patched_failure=self.patched_failure,
            skip_reason=self.a.skip_reason or self.b.skip_reason,
        )

    def _decide(self) -> tuple[Verdict, bool, str]:
        lacking = self._lacking_module()
        if lacking:
            return Verdict.INFRA, False, lacking
        if self.load_a or self.load_b:
            return self._load_error()
        flip = classify(self.a.outcome, self.b.outcome)
        match flip:
            case Flip.FIXED:
                return self._fixed()
            case Flip.BROKE:
                return Verdict.REGRESSION, False, f"passes unpatched, then {_why(self.b)}"
            case Flip.BOTH_PASS:
                return self._both_pass()
            case Flip.BOTH_FAIL:
                return self._both_fail()
            case Flip.BOTH_SKIP:
                return self._both_skip()
            case Flip.SKIP_CHANGED:
                arm = "unpatched" if self.a.outcome is Outcome.SKIPPED else "patched"
                said = self.a.skip_reason or self.b.skip_reason or _NO_REASON
                return Verdict.UNEXPECTED_SKIP, False, f"skipped in the {arm} arm only: {said}"
            case Flip.ABSENT | Flip.APPEARED | Flip.VANISHED:
                return Verdict.MISSING, False, self._missing()
            case Flip.UNMEASURED:
                reason = f"no result: {self.a.outcome} unpatched, {self.b.outcome} patched"
                return Verdict.INCONCLUSIVE, False, reason
            case _:
                assert_never(flip)

    def _lacking_module(self) -> str:
        """Both arms fail for the same absent module that is not part of what is under test."""
        if not (self.failure and self.patched_failure):
            return ""
        module = self.failure.module
        kind = self.failure.exception == "ModuleNotFoundError"
        foreign = module.partition(".")[0] not in ("", self.case.package)
        if kind and foreign and module == self.patched_failure.module:
            return f"module {module!r} is missing in both arms: the environment is incomplete"
        return ""

    def _load_error(self) -> tuple[Verdict, bool, str]:
        signature = self.case.signature_of(self.node)
        declared = self.role is Role.FLIP and signature is not None and signature.while_loading
        if declared and signature and self.load_a and not self.load_b:
            differs = mismatch(signature, self.load_a, self.patch, self.offsets)
            if differs:
                return (
                    Verdict.WRONG_RED,
                    False,
                    f"the test file cannot be loaded unpatched, but {differs}",
                )
            return self._loads_patched(self.load_a)
        if self.load_a and self.load_b:
            where, failure = "either arm", self.load_a
        elif self.load_a:
            where, failure = "the unpatched arm", self.load_a
        else:
            assert self.load_b is not None
            where, failure = "the patched arm", self.load_b
        return Verdict.LOAD_ERROR, False, f"cannot be loaded in {where}: {_brief(failure)}"

    def _loads_patched(self, load_error: Failure) -> tuple[Verdict, bool, str]:
        """The declared load error is the red; what is the patched arm?"""
        match classify(Outcome.FAILED, self.b.outcome):
            case Flip.FIXED:
                reason = "cannot be loaded unpatched, as declared"
                return Verdict.FLIP_CONFIRMED, True, f"{reason}: {_brief(load_error)}"
            case Flip.BOTH_FAIL:
                return Verdict.NOT_FIXED, False, f"loads patched, but {_why(self.b)}"
            case Flip.VANISHED:
                return Verdict.MISSING, False, self._missing()
            case Flip.SKIP_CHANGED:
                said = self.b.skip_reason or _NO_REASON
                return Verdict.UNEXPECTED_SKIP, False, f"skipped in the patched arm only: {said}"
            case _:
                return Verdict.INCONCLUSIVE, False, f"loads patched, but is {self.b.outcome} there"

    def _fixed(self) -> tuple[Verdict, bool, str]:
        if self.role is Role.CONTROL:
            return Verdict.UNEXPECTED_FLIP, False, f"a control, but unpatched it {_why(self.a)}"
        signature = self.case.signature_of(self.node)
        if signature is None or self.failure is None:
            return Verdict.WRONG_RED, False, "the evidence has no failure to compare with"
        differs = mismatch(signature, self.failure, self.patch, self.offsets)
        if differs:
            return Verdict.WRONG_RED, False, differs
        return Verdict.FLIP_CONFIRMED, True, f"unpatched it {_why(self.a)}"

    def _both_pass(self) -> tuple[Verdict, bool, str]:
        if self.role is Role.CONTROL:
            return Verdict.CONTROL_HELD, True, "passes in both arms"
        return Verdict.DOES_NOT_REPRODUCE, False, "passes unpatched: the failure does not show here"

    def _both_fail(self) -> tuple[Verdict, bool, str]:
        if self.role is Role.CONTROL:
            reason = f"declared to pass in both arms, but it {_why(self.a)}"
            return Verdict.DOES_NOT_REPRODUCE, False, reason
        signature = self.case.signature_of(self.node)
        if signature is not None and self.failure is not None:
            differs = mismatch(signature, self.failure, self.patch, self.offsets)
            if differs:
                return Verdict.WRONG_RED, False, f"{differs}; and it fails patched too"
        if (
            self.failure
            and self.patched_failure
            and same_failure(self.failure, self.patched_failure, self.patch)
        ):
            return Verdict.NOT_FIXED, False, f"fails alike in both arms: {_brief(self.failure)}"
        return Verdict.NOT_FIXED, False, f"patched it still {_why(self.b)}"

    def _both_skip(self) -> tuple[Verdict, bool, str]:
        declared = self.node.expected_skip(self.platform)
        reasons = tuple(dict.fromkeys((self.a.skip_reason, self.b.skip_reason)))
        said = " unpatched, patched ".join(repr(reason or _NO_REASON) for reason in reasons)
        if declared is None:
            reason = f"skipped, which the case does not expect on {self.platform}: {said}"
            return Verdict.UNEXPECTED_SKIP, False, reason
        if any(level(declared) not in level(reason) for reason in reasons):
            reason = f"skipped for another reason than declared ({declared!r}): {said}"
            return Verdict.UNEXPECTED_SKIP, False, reason
        return Verdict.SKIPPED, True, self.a.skip_reason

    def _missing(self) -> str:
        if self.a.outcome is self.b.outcome:
            return "no such test in either arm; is the node ID right?"
        arm = "unpatched" if self.a.outcome is Outcome.MISSING else "patched"
        return f"no such test in the {arm} arm"


_NO_REASON = "no reason given"


def _why(result: NodeResult) -> str:
    """For example ``failed with TypeError: … at file.py:3``."""
    with_failure = f" with {_brief(result.failure)}" if result.failure else ""
    return f"{result.outcome}{with_failure}"


def _brief(failure: Failure) -> str:
    first = failure.message.strip().splitlines()[0] if failure.message.strip() else ""
    text = f"{failure.exception}: {first}" if first else failure.exception
    return f"{text} at {failure.place}" if failure.place else text
