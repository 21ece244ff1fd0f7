"""One node ID in one pair of arms: does what was measured confirm what the case claims?"""

from __future__ import annotations

from typing import assert_never

from harness.case import Case, Node, Role
from harness.flips import Flip, classify
from harness.lacking import lacking
from harness.outcome import Outcome
from harness.patch import Patch
from harness.record import ArmEvidence, Failure, NodeResult
from harness.signature import level, mismatch, same_failure
from harness.verdict import NodeVerdict, Verdict


class NodeJudge:
    """One node in one pair of arms that are comparable."""

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

    @property
    def load_errors(self) -> tuple[bool, bool]:
        """Whether the node could not be loaded, in each arm."""
        return self.load_a is not None, self.load_b is not None

    def verdict(self) -> NodeVerdict:
        """What was found; the claim stands or not."""
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
        skips = (self.a.skip_reason, self.b.skip_reason)
        if lack := lacking(self.case, self.failure, self.patched_failure, skips=skips):
            return Verdict.INFRA, False, lack
        if self.load_a or self.load_b:
            return self._load_error()
        flip = classify(self.a.outcome, self.b.outcome)
        match flip:
            case Flip.FIXED:
                return self._fixed()
            case Flip.BROKE:
                return Verdict.REGRESSION, False, f"passes unpatched, then {why(self.b)}"
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
        return Verdict.LOAD_ERROR, False, f"cannot be loaded in {where}: {brief(failure)}"

    def _loads_patched(self, load_error: Failure) -> tuple[Verdict, bool, str]:
        """The declared load error is the red; what is the patched arm?"""
        match classify(Outcome.FAILED, self.b.outcome):
            case Flip.FIXED:
                reason = "cannot be loaded unpatched, as declared"
                return Verdict.FLIP_CONFIRMED, True, f"{reason}: {brief(load_error)}"
            case Flip.BOTH_FAIL:
                return Verdict.NOT_FIXED, False, f"loads patched, but {why(self.b)}"
            case Flip.VANISHED:
                return Verdict.MISSING, False, self._missing()
            case Flip.SKIP_CHANGED:
                said = self.b.skip_reason or _NO_REASON
                return Verdict.UNEXPECTED_SKIP, False, f"skipped in the patched arm only: {said}"
            case _:
                return Verdict.INCONCLUSIVE, False, f"loads patched, but is {self.b.outcome} there"

    def _fixed(self) -> tuple[Verdict, bool, str]:
        if self.role is Role.CONTROL:
            return Verdict.UNEXPECTED_FLIP, False, f"a control, but unpatched it {why(self.a)}"
        signature = self.case.signature_of(self.node)
        if signature is None or self.failure is None:
            return Verdict.WRONG_RED, False, "the evidence has no failure to compare with"
        differs = mismatch(signature, self.failure, self.patch, self.offsets)
        if differs:
            return Verdict.WRONG_RED, False, differs
        return Verdict.FLIP_CONFIRMED, True, f"unpatched it {why(self.a)}"

    def _both_pass(self) -> tuple[Verdict, bool, str]:
        if self.role is Role.CONTROL:
            return Verdict.CONTROL_HELD, True, "passes in both arms"
        return Verdict.DOES_NOT_REPRODUCE, False, "passes unpatched: the failure does not show here"

    def _both_fail(self) -> tuple[Verdict, bool, str]:
        if self.role is Role.CONTROL:
            reason = f"declared to pass in both arms, but it {why(self.a)}"
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
            return Verdict.NOT_FIXED, False, f"fails alike in both arms: {brief(self.failure)}"
        return Verdict.NOT_FIXED, False, f"patched it still {why(self.b)}"

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


def why(result: NodeResult) -> str:
    """What a node did, for example ``failed with TypeError: … at file.py:3``."""
    with_failure = f" with {brief(result.failure)}" if result.failure else ""
    return f"{result.outcome}{with_failure}"


def brief(failure: Failure) -> str:
    """A failure in one line: type, first line of the message, place."""
    first = failure.message.strip().splitlines()[0] if failure.message.strip() else ""
    text = f"{failure.exception}: {first}" if first else failure.exception
    return f"{text} at {failure.place}" if failure.place else text
