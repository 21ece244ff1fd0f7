"""Old tests and new tests on both sources: what the image's drift does, and what the patch does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from harness.flips import Flip, classify
from harness.outcome import Outcome
from harness.record import ArmResults, Failure
from harness.signature import level

_SAME = (Flip.BOTH_PASS, Flip.BOTH_FAIL, Flip.BOTH_SKIP, Flip.ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftNode:
    """One node ID, or a file that cannot be loaded, in the four arms.

    ``failure`` is why it fails with the old tests on the unpatched source, if it does.
    """

    node_id: str
    base_unpatched: Outcome
    base_patched: Outcome
    unpatched: Outcome
    patched: Outcome
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The 2 × 2 of {old, new} tests × {unpatched, patched} source.

    ``pre_existing`` counts the old tests; ``changed`` are those that the patch puts into another
    state, but for the ``flipped`` ones that are declared to change it; ``drifted`` those that fail
    alike with and without the patch, with old tests and new ones. ``new`` counts the tests that
    only the new files have. ``refused`` says why the four cannot be compared.
    """

    pre_existing: int
    new: int
    changed: tuple[DriftNode, ...]
    drifted: tuple[DriftNode, ...]
    unmeasured: int = 0
    flipped: int = 0
    refused: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no pre-existing test changes its state: measured, and for each of them."""
        return not (self.refused or self.changed or self.unmeasured) and self.pre_existing > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Four:
    """The results of the four arms."""

    base_unpatched: ArmResults
    base_patched: ArmResults
    unpatched: ArmResults
    patched: ArmResults

    @property
    def arms(self) -> tuple[ArmResults, ...]:
        """Old tests first, unpatched first."""
        return self.base_unpatched, self.base_patched, self.unpatched, self.patched

    def node(self, node_id: str) -> DriftNode:
        """What one node ID did in the four arms."""
        a, b, c, d = (outcome(arm, node_id) for arm in self.arms)
        return DriftNode(
            node_id=node_id,
            base_unpatched=a,
            base_patched=b,
            unpatched=c,
            patched=d,
            failure=failure(self.base_unpatched, node_id),
        )

    def drifts(self, node_id: str) -> bool:
        """Whether it fails for one reason in all four: the image's doing, not the patch's."""
        reasons = [failure(arm, node_id) for arm in self.arms]
        return all(same_reason(reasons[0], reason) for reason in reasons)


def compare(four: Four, flips: Collection[str]) -> Drift:
    """Derive the 2 × 2; ``flips`` are declared to change state."""
    flips = {*flips, *(flip.partition("::")[0] for flip in flips)}  # and the loading of its file
    old = {*units(four.base_unpatched), *units(four.base_patched)}
    new = {*units(four.unpatched), *units(four.patched)}
    changed, drifted, unmeasured, flipped = [], [], 0, 0
    for node_id in sorted(old):
        # A test that the new files lack is absent from both arms, which is no change.
        pairs = [(four.base_unpatched, four.base_patched), (four.unpatched, four.patched)]
        found = [classify(outcome(a, node_id), outcome(b, node_id)) for a, b in pairs]
        if four.drifts(node_id):
            drifted.append(four.node(node_id))
        elif Flip.UNMEASURED in found:
            unmeasured += 1
        elif all(flip in _SAME for flip in found):
            continue
        elif node_id in flips:
            flipped += 1
        else:
            changed.append(four.node(node_id))
    return Drift(
        pre_existing=len(old),
        new=len(new - old),
        changed=tuple(changed),
        drifted=tuple(drifted),
        unmeasured=unmeasured,
        flipped=flipped,
    )


def units(arm: ArmResults) -> set[str]:
    """Everything that has a state in an arm: node IDs, and files that cannot be loaded or skip."""
    return {*arm.nodes, *arm.load_errors, *arm.load_skips} - {""}


def outcome(arm: ArmResults, unit: str) -> Outcome:
    """The state of a node ID or a file; a test of a file that cannot be loaded is an error."""
    if unit in arm.load_errors:
        return Outcome.ERROR
    if unit in arm.load_skips:
        return Outcome.SKIPPED
    result = arm.result(unit).outcome
    if result is Outcome.MISSING and arm.load_error(unit) is not None:
        return Outcome.ERROR
    return result


def failure(arm: ArmResults, unit: str) -> Failure | None:
    """Why a node ID, or the loading of a file, failed; None where it did not."""
    node = arm.nodes.get(unit)
    if node is not None:
        return node.failure if node.outcome is not Outcome.XFAILED else None
    return arm.load_error(unit)


def same_reason(first: Failure | None, second: Failure | None) -> bool:
    """Whether two failures are of one type and say the same; lines differ between test files."""
    if first is None or second is None:
        return False
    return first.exception == second.exception and level(first.message) == level(second.message)
