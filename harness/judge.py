"""From the arms of a row to verdicts, and to what else was asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness import ablation, drift, others, repeats
from harness.case import Case, Node, Role
from harness.comparable import refusal, sentence
from harness.drift import Four
from harness.judge_node import NodeJudge
from harness.outcome import Arm, ArmStatus, Outcome, Series
from harness.patch import Patch
from harness.record import PAIR, ArmEvidence, ArmResults, ArmSpec, RunRecord, TargetEvidence
from harness.verdict import NodeVerdict, Row, Verdict

_WITHOUT_OUTCOMES = (ArmStatus.PATCH_REJECTED, ArmStatus.ENGINE_FAILED, ArmStatus.INTERRUPTED)
#: Verdicts of a test that fails with and without the patch, which drift would explain.
_FAILS_IN_BOTH = (Verdict.DOES_NOT_REPRODUCE, Verdict.NOT_FIXED, Verdict.WRONG_RED)


def judge_row(
    case: Case, patch: Patch, run: RunRecord, evidence: TargetEvidence, *, folder: str
) -> Row:
    """Judge every selected node of one row; a row whose arms differ in more than the patch is
    refused as a whole."""
    before, after = evidence.unpatched, evidence.patched
    probes = [arm.record.probe for arm in evidence.arms.values() if arm.record.probe]
    planned = evidence.of(Series.PAIR)
    # What ends the first pair is the reason; its repeats were then not started.
    rejected, refused = refusal([arm for arm in planned if arm[0] in PAIR])
    if not refused:
        rejected, refused = refusal(planned)
    row = _Row(
        case=case,
        patch=patch,
        evidence=evidence,
        platform=probes[0].platform if probes else "unknown",
        chosen=tuple(node for node in case.nodes if node.id in run.selected),
    )
    pairs = () if refused else tuple((a, b) for a, b in evidence.pairs() if a and b)
    four, not_four = row.four(pairs)
    verdict = Verdict.INCONCLUSIVE if rejected else Verdict.INFRA
    nodes = row.verdicts(pairs, four) if pairs else row.refused(verdict, refused)
    return Row(
        case=case,
        run=run,
        folder=folder,
        platform=row.platform,
        device=probes[0].device if probes else "",
        evidence=evidence,
        nodes=nodes,
        unpatched=before.results.counts(run.selected) if before else {},
        patched=after.results.counts(run.selected) if after else {},
        refused=refused,
        ablation=row.ablated(nodes) if pairs else None,
        drift=row.drifted(nodes, four, not_four) if pairs else None,
        agreement=row.agreed() if pairs else None,
        others=row.undeclared(pairs, four) if pairs and run.whole_files else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What is judged of one row, part by part."""

    case: Case
    patch: Patch
    evidence: TargetEvidence
    platform: str
    chosen: tuple[Node, ...]

    def refused(self, verdict: Verdict, reasons: Sequence[str]) -> tuple[NodeVerdict, ...]:
        """Every node with what it did, which says nothing."""
        arms = (self.evidence.unpatched, self.evidence.patched)
        found = []
        for node in self.chosen:
            outcomes = [_outcome_in(arm, node.id) for arm in arms]
            found.append(
                NodeVerdict(
                    node_id=node.id,
                    role=node.role_at(self.platform),
                    unpatched=outcomes[0],
                    patched=outcomes[1],
                    verdict=verdict,
                    confirmed=False,
                    reason="; ".join(reasons),
                )
            )
        return tuple(found)

    def verdicts(
        self, pairs: Sequence[tuple[ArmEvidence, ArmEvidence]], four: Four | None
    ) -> tuple[NodeVerdict, ...]:
        """Every node's verdict, from all pairs together."""
        again = self._again()
        nodes = [self._verdict(node, pairs, four, again) for node in self.chosen]
        p_values = repeats.corrected([node.runs.p if node.runs else None for node in nodes])
        return tuple(
            replace(node, runs=replace(node.runs, p_holm=p)) if node.runs else node
            for node, p in zip(nodes, p_values, strict=True)
        )

    def _again(self) -> tuple[ArmResults, ...]:
        """The A/A arms; none of them where one is refused: it is no repeat of the unpatched arm."""
        twins = self.evidence.of(Series.AA)
        if not twins or refusal(twins, like=self.evidence.unpatched)[1]:
            return ()
        return tuple(arm.results for _, arm in twins if arm is not None)

    def _verdict(
        self,
        node: Node,
        pairs: Sequence[tuple[ArmEvidence, ArmEvidence]],
        four: Four | None,
        twins: Sequence[ArmResults],
    ) -> NodeVerdict:
        judges = [NodeJudge(self.case, self.patch, node, self.platform, a, b) for a, b in pairs]
        found = [judge.verdict() for judge in judges]
        first = found[0]
        if len(found) > 1:
            first = replace(first, runs=_runs(judges, found))
        differs = _disagreement(found, [twin.result(node.id).outcome for twin in twins])
        if differs:
            return replace(first, verdict=Verdict.UNSTABLE, confirmed=False, reason=differs)
        for number, again in enumerate(found[1:], 2):
            if first.verdict is not again.verdict is Verdict.INCONCLUSIVE:
                reason = f"in repeat {number}: {again.reason}"
                return replace(first, verdict=again.verdict, confirmed=False, reason=reason)
        if four and first.verdict in _FAILS_IN_BOTH and four.drifts(node.id):
            reason = f"fails alike with the old tests and without the patch: {first.reason}"
            return replace(first, verdict=Verdict.DRIFT, confirmed=False, reason=reason)
        return first

    def four(
        self, pairs: Sequence[tuple[ArmEvidence, ArmEvidence]]
    ) -> tuple[Four | None, tuple[str, ...]]:
        """The four arms of old and new tests, or why they can't be compared."""
        base = self.evidence.of(Series.BASE)
        if not base or not pairs:
            return None, ()
        old = self.evidence.pairs(Series.BASE)[0]
        reasons = refusal(base)[1] or refusal(base, like=pairs[0][0], same_tests=False)[1]
        if reasons or old[0] is None or old[1] is None:
            return None, reasons
        arms = (*old, *pairs[0])
        results = [arm.results for arm in arms if arm is not None]
        return Four(
            base_unpatched=results[0],
            base_patched=results[1],
            unpatched=results[2],
            patched=results[3],
        ), ()

    def drifted(
        self, nodes: Sequence[NodeVerdict], four: Four | None, refused: tuple[str, ...]
    ) -> drift.Drift | None:
        """The 2 × 2, where it was asked for."""
        if refused:
            return drift.Drift(pre_existing=0, new=0, changed=(), drifted=(), refused=refused)
        flips = {node.node_id for node in nodes if node.role is Role.FLIP}
        return drift.compare(four, flips) if four else None

    def undeclared(
        self, pairs: Sequence[tuple[ArmEvidence, ArmEvidence]], four: Four | None
    ) -> others.Others:
        """The undeclared tests of the files that were run whole."""
        results = [(a.results, b.results) for a, b in pairs]
        return others.find(results, {node.id for node in self.chosen}, four)

    def agreed(self) -> repeats.Agreement | None:
        """The unpatched arm against itself, repeat by repeat."""
        twins = self.evidence.of(Series.AA)
        if not twins:
            return None
        refused = refusal(twins, like=self.evidence.unpatched)[1]
        planned = self.evidence.of(Series.PAIR)
        firsts = {spec.repeat: arm for spec, arm in planned if spec.arm is Arm.UNPATCHED}
        found: list[str] = []
        compared = 0
        for spec, twin in twins:
            first = firsts.get(spec.repeat)
            if refused or twin is None or first is None:
                continue
            units = drift.units(twin.results) | drift.units(first.results)
            units |= {node.id for node in self.chosen}
            for unit in sorted(units):
                a, b = drift.outcome(first.results, unit), drift.outcome(twin.results, unit)
                if Outcome.NOT_RUN in (a, b) or a is b is Outcome.SKIPPED:
                    continue  # nothing was run that could have differed
                compared += 1
                found += [unit] if a is not b else []
        return repeats.Agreement(
            pairs=len(twins), comparisons=compared, differing=tuple(found), refused=refused
        )

    def ablated(self, nodes: Sequence[NodeVerdict]) -> ablation.Ablation | None:
        """Which hunks each confirmed flip needs, where it was asked for."""
        arms = self.evidence.of(Series.ABLATION)
        if not arms:
            return None
        flips = [node.node_id for node in nodes if node.verdict is Verdict.FLIP_CONFIRMED]
        held = [node.node_id for node in nodes if node.verdict is Verdict.CONTROL_HELD]
        subsets = [self._subset(spec, arm) for spec, arm in arms]
        return ablation.analyse(self.patch, subsets, flips, held)

    def _subset(self, spec: ArmSpec, arm: ArmEvidence | None) -> ablation.Subset:
        refused = refusal([(spec, arm)], like=self.evidence.unpatched)[1]
        if arm is not None and arm.record.status is ArmStatus.PATCH_REJECTED:
            refused = (f"cannot be applied apart: {sentence(arm.record.reason)}",)
        results = arm.results if arm is not None and not refused else None
        ids = [node.id for node in self.chosen] if results else []
        failures = {n: f for n in ids if results and (f := drift.failure(results, n))}
        return ablation.Subset(
            hunks=spec.hunks or (),
            arm=spec.name,
            outcomes={n: drift.outcome(results, n) for n in ids if results},
            failures=failures,
            problem="; ".join(refused),
            apart=arm is None or arm.record.status is not ArmStatus.PATCH_REJECTED,
        )


def _outcome_in(arm: ArmEvidence | None, node_id: str) -> Outcome:
    if arm is None or arm.record.status in _WITHOUT_OUTCOMES:
        return Outcome.NOT_RUN
    return arm.results.result(node_id).outcome


def _runs(judges: Sequence[NodeJudge], found: Sequence[NodeVerdict]) -> repeats.Runs:
    """All runs of one node, counted."""
    each = list(zip(judges, found, strict=True))
    arms = [
        [(verdict.unpatched, judge.load_errors[0]) for judge, verdict in each],
        [(verdict.patched, judge.load_errors[1]) for judge, verdict in each],
    ]
    failed = [sum(repeats.is_red(o, load_error=lost) for o, lost in arm) for arm in arms]
    counts = all(repeats.measured(o, load_error=lost) for arm in arms for o, lost in arm)
    both = (failed[0], failed[1])
    return repeats.Runs(
        unpatched=tuple(outcome for outcome, _ in arms[0]),
        patched=tuple(outcome for outcome, _ in arms[1]),
        failed=both,
        p=repeats.p_value(both, len(found)) if counts else None,
    )


def _disagreement(found: Sequence[NodeVerdict], again: Sequence[Outcome]) -> str:
    """How the runs of one arm differ, or an empty string; they are never averaged.

    A run that an arm's end left out says nothing, and so it cannot disagree.
    """
    before = [verdict.unpatched for verdict in found]
    for name, every in (
        ("unpatched", before),
        ("patched", [verdict.patched for verdict in found]),
        ("unpatched and A/A", [*before, *again]),
    ):
        outcomes = [outcome for outcome in every if outcome is not Outcome.NOT_RUN]
        if len(set(outcomes)) > 1:
            counts = ", ".join(
                f"{outcome} in {outcomes.count(outcome)} of {len(outcomes)} runs"
                for outcome in dict.fromkeys(outcomes)
            )
            return f"the {name} arms do not agree: {counts}"
    whole = [
        (number, verdict)
        for number, verdict in enumerate(found, 1)
        if Outcome.NOT_RUN not in (verdict.unpatched, verdict.patched)
    ]
    for number, verdict in whole[1:]:
        first, one = whole[0]
        if verdict.verdict is not one.verdict:
            kinds = f"{one.verdict} in repeat {first}, {verdict.verdict} in repeat {number}"
            return f"{kinds}: {verdict.reason}"
    return ""
