"""The tests that the case does not declare, where whole files were run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.drift import Four, failure, outcome, units
from harness.flips import Flip, classify, is_regression
from harness.outcome import Outcome
from harness.record import ArmResults, Failure


class Finding(StrEnum):
    """Why an undeclared test is worth a line."""

    REGRESSION = "regression"
    FLIP = "unexpected-flip"
    CHANGED = "changed"
    UNSTABLE = "unstable"
    DRIFT = "drift"
    FAILS = "fails-in-both"
    UNMEASURED = "unmeasured"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNode:
    """One undeclared node ID, or a file that cannot be loaded, in the first pair of arms."""

    node_id: str
    finding: Finding
    unpatched: Outcome
    patched: Outcome
    failure: Failure | None = None
    patched_failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """All undeclared tests: how many, and those that are worth a line."""

    total: int
    counts: dict[Flip, int]
    nodes: tuple[OtherNode, ...]

    def of(self, finding: Finding) -> tuple[OtherNode, ...]:
        """Those of one finding."""
        return tuple(node for node in self.nodes if node.finding is finding)


def find(
    pairs: Sequence[tuple[ArmResults, ArmResults]], declared: Collection[str], four: Four | None
) -> Others:
    """Derive them from every pair of arms; ``four`` are the arms with the old tests too."""
    before, after = pairs[0]
    everything = units(before) | units(after)
    for pair in pairs[1:]:
        everything |= units(pair[0]) | units(pair[1])
    counts: Counter[Flip] = Counter()
    nodes = []
    files = {node_id.partition("::")[0] for node_id in declared}  # verdicts tell their load errors
    ids = sorted(everything - set(declared) - files)
    for node_id in ids:
        a, b = outcome(before, node_id), outcome(after, node_id)
        counts[classify(a, b)] += 1
        found = _finding(node_id, pairs, four)
        if found is not None:
            nodes.append(
                OtherNode(
                    node_id=node_id,
                    finding=found,
                    unpatched=a,
                    patched=b,
                    failure=failure(before, node_id),
                    patched_failure=failure(after, node_id),
                )
            )
    return Others(total=len(ids), counts=dict(counts), nodes=tuple(nodes))


def _finding(
    node_id: str, pairs: Sequence[tuple[ArmResults, ArmResults]], four: Four | None
) -> Finding | None:
    runs = [[outcome(arm, node_id) for arm in arms] for arms in zip(*pairs, strict=True)]
    # What an arm's end left out says nothing: it neither agrees with other runs nor differs.
    known = [list(dict.fromkeys(o for o in arm if o is not Outcome.NOT_RUN)) for arm in runs]
    if any(len(arm) > 1 for arm in known):
        return Finding.UNSTABLE
    a, b = (arm[0] if arm else Outcome.NOT_RUN for arm in known)
    if is_regression(a, b):
        return Finding.REGRESSION
    match classify(a, b):
        case Flip.BOTH_PASS | Flip.BOTH_SKIP | Flip.ABSENT:
            lost = any(Outcome.NOT_RUN in arm for arm in runs)
            return Finding.UNMEASURED if lost else None
        case Flip.FIXED:
            return Finding.FLIP
        case Flip.BOTH_FAIL:
            return Finding.DRIFT if four is not None and four.drifts(node_id) else Finding.FAILS
        case Flip.UNMEASURED:
            return Finding.UNMEASURED
        case Flip.SKIP_CHANGED | Flip.APPEARED | Flip.VANISHED | Flip.BROKE:
            return Finding.CHANGED
