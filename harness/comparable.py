"""Rule 1: do the arms of a row differ in nothing but the patch, and did each do its part?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.outcome import Arm, ArmStatus
from harness.record import PAIR, ArmEvidence, ArmRecord, ArmSpec, Probe


def refusal(
    arms: Sequence[tuple[ArmSpec, ArmEvidence | None]],
    *,
    like: ArmEvidence | None = None,
    same_tests: bool = True,
) -> tuple[bool, tuple[str, ...]]:
    """Why these arms cannot be compared; and whether that is only because the patch was rejected.

    Each is compared with the first, or with the arm ``like``; without ``same_tests`` the test files
    and what was collected from them may differ from it.
    """
    found = [(spec.name, *_unusable(spec, arm)) for spec, arm in arms]
    reasons = [(name, reason) for name, _, own in found for reason in own]
    rejected = list(dict.fromkeys(reason for _, own, _ in found for reason in own))
    if not reasons and not rejected:
        usable = [(spec, arm) for spec, arm in arms if arm is not None]
        first = like or usable[0][1]
        for spec, arm in usable:
            if arm is not first:
                differs = _differences(first, arm, same_tests=same_tests)
                reasons += [(spec.name, reason) for reason in differs]
        return False, tuple(_told(reasons, len(arms), beside=PAIR[1].name))
    if rejected and not reasons:
        return True, tuple(rejected)
    return False, (*_told(reasons, len(arms)), *rejected)


def _unusable(spec: ArmSpec, arm: ArmEvidence | None) -> tuple[list[str], list[str]]:
    """Why an arm says nothing, whatever it is compared with: its rejected patch, and the rest."""
    if arm is None:
        return [], ["no evidence: the run did not get that far"]
    record = arm.record
    match record.status:
        case ArmStatus.PATCH_REJECTED:
            return [f"patch rejected: {sentence(record.reason)}"], []
        case ArmStatus.INTERRUPTED:
            return [], [record.reason]
        case ArmStatus.ENGINE_FAILED | ArmStatus.KILLED:
            return [], [f"{record.status}: {sentence(record.reason)}", *arm.results.problems]
        case ArmStatus.RAN | ArmStatus.TIMED_OUT:
            return [], [*arm.results.problems, *_not_as_planned(spec, record), *_seal(record)]


def _seal(record: ArmRecord) -> list[str]:
    if record.seal is None:
        return ["its files could not be checked after the tests"]
    changed = ", ".join(record.seal.changed[:3])
    return [f"files changed while the tests ran: {changed}"] if changed else []


def sentence(reason: str) -> str:
    """An error's problem and remedy, which a record keeps on two lines, as ``Problem. Remedy``.

    There is no full stop at the end, so that it can stand among others.
    """
    problem, _, remedy = reason.rpartition("\n  ")
    parts = [" ".join(part.split()).rstrip(".") for part in (problem, remedy)]
    return ". ".join(part for part in parts if part)


def _told(reasons: Sequence[tuple[str, str]], total: int, *, beside: str = "") -> Iterator[str]:
    """Each reason once, with the arms that it is true of; ``beside`` needs no name."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        if names == [beside]:
            yield reason
        elif len(names) == 1:
            yield f"{names[0]} arm: {reason}"
        elif len(names) == total:
            yield f"{'both' if total == 2 else f'all {total}'} arms: {reason}"
        else:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"arms {', '.join(names[:3])}{more}: {reason}"


#: What is done to the tree, by how the patch fits: in the arm without it, with it, with some of it.
_ACTIONS = {
    "empty": ("none", "none", "none"),
    "clean": ("none", "applied", "applied"),
    "offset": ("none", "applied", "applied"),
    "already-applied": ("reversed", "none", "reversed"),
}
_NO_ACTIONS = ("", "", "")


def _not_as_planned(spec: ArmSpec, record: ArmRecord) -> list[str]:
    """Where the record does not show that this arm was what its plan says."""
    staging = record.staging
    if record.probe is None or staging is None:
        return ["it was not probed, or its package was not staged"]
    same = (record.arm, record.name, record.hunks) == (spec.arm, spec.name, spec.hunks)
    found = [] if same else [f"its record is of the {record.name or record.arm} arm"]
    planned = _ACTIONS.get(staging.state, _NO_ACTIONS)[list(Arm).index(spec.arm)]
    if staging.action != planned:
        found.append(f"the patch was {staging.action}, which does not fit {staging.state}")
    elif (staging.tree_after != staging.tree_before) is (planned == "none"):
        found.append(f"the package's files do not show that the patch was {planned}")
    return found


#: What the probe must find alike in both arms, by field; readings and notes may differ.
_MEASURED = (
    "platform",
    "device",
    "device_uuid",
    "devices",
    "machine",
    "kernel",
    "libc",
    "python",
    "package_version",
    "package_commit",
    "distributions_sha256",
)


def _measured(a: Probe, b: Probe) -> Iterator[tuple[str, object, object]]:
    """Each thing that was measured, with both arms' values. Old evidence has fewer: alike then."""
    for name in _MEASURED:
        yield name, getattr(a, name), getattr(b, name)
    for kind, left, right in (
        ("hardware", a.hardware, b.hardware),
        ("version of", a.versions, b.versions),
        ("environment variable", a.environment, b.environment),
    ):
        for key in sorted({*left, *right}):
            yield f"{kind} {key}", left.get(key, ""), right.get(key, "")


def _differences(before: ArmEvidence, after: ArmEvidence, *, same_tests: bool) -> list[str]:
    """What differs between the arms beside the patch."""
    a, b = before.record, after.record
    pairs: list[tuple[str, object, object]] = [
        ("image", a.image.digest, b.image.digest),
        ("registry digest", a.image.registry_digest, b.image.registry_digest),
        ("engine", a.engine, b.engine),
        ("device access", "; ".join(a.access), "; ".join(b.access)),
        ("environment variables", a.environment_sha256, b.environment_sha256),
        ("pytest plugins", "; ".join(a.plugins), "; ".join(b.plugins)),
    ]
    if a.probe and b.probe:
        pairs += _measured(a.probe, b.probe)
    if a.staging and b.staging:
        pairs.append(("package tree", a.staging.tree_before, b.staging.tree_before))
        pairs.append(("fit of the patch", a.staging.state, b.staging.state))
    if same_tests:
        pairs.append(("test files", a.tests_sha256, b.tests_sha256))
    found = [f"{name} differs: {x} and {y}" for name, x, y in pairs if x != y]
    return found + (_collected_differently(before, after) if same_tests else [])


def _collected_differently(before: ArmEvidence, after: ArmEvidence) -> list[str]:
    """Tests that only one arm collected, or another order.

    Where an arm could not load a file, and for the selected node IDs, verdicts say so instead.
    """
    arms = (before.results, after.results)
    if not all(arm.complete for arm in arms):
        return []
    declared = {*before.results.nodes, *after.results.nodes}
    both = set(before.results.collected) & set(after.results.collected)
    only = [
        node
        for arm, other in (arms, arms[::-1])
        for node in arm.collected
        if node not in both and node not in declared and other.load_error(node) is None
    ]
    if only:
        more = f" and {len(only) - 1} more" if len(only) > 1 else ""
        return [f"collected in one arm only: {only[0]}{more}"]
    orders = [[n for n in arm.collected if n in both] for arm in arms]
    return [] if orders[0] == orders[1] else ["the tests were collected in another order"]
