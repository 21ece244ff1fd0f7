"""Rule 1: do the arms of a row differ in nothing but the patch, and did each do its part?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.outcome import ArmStatus
from harness.record import ArmEvidence, ArmRecord, Probe


def refusal(before: ArmEvidence | None, after: ArmEvidence | None) -> tuple[bool, tuple[str, ...]]:
    """Why the arms cannot be compared; and whether that is only because the patch was rejected."""
    reasons, rejected = [], []
    for name, arm in (("unpatched", before), ("patched", after)):
        if arm is None:
            reasons.append(f"the {name} arm has no evidence: the run did not get that far")
        elif arm.record.status is ArmStatus.PATCH_REJECTED:
            rejected.append(f"patch rejected: {sentence(arm.record.reason)}")
        elif arm.record.status is ArmStatus.INTERRUPTED:
            reasons.append(f"{name} arm: {arm.record.reason}")
        elif arm.record.status in (ArmStatus.ENGINE_FAILED, ArmStatus.KILLED):
            reasons.append(f"{name} arm {arm.record.status}: {sentence(arm.record.reason)}")
            reasons += [f"{name} arm: {problem}" for problem in arm.results.problems]
        else:
            reasons += [f"{name} arm: {problem}" for problem in arm.results.problems]
            reasons += [f"{name} arm: {problem}" for problem in _not_as_planned(name, arm.record)]
            if arm.record.seal is None:
                reasons.append(f"{name} arm: its files could not be checked after the tests")
            elif arm.record.seal.changed:
                changed = ", ".join(arm.record.seal.changed[:3])
                reasons.append(f"{name} arm: files changed while the tests ran: {changed}")
    if before is not None and after is not None and not reasons and not rejected:
        reasons += _differences(before, after)
    if rejected and not reasons:
        return True, tuple(dict.fromkeys(rejected))
    return False, tuple(dict.fromkeys([*_once(reasons), *rejected]))


def sentence(reason: str) -> str:
    """An error's problem and remedy, which a record keeps on two lines, as ``Problem. Remedy``.

    There is no full stop at the end, so that it can stand among others.
    """
    problem, _, remedy = reason.rpartition("\n  ")
    parts = [" ".join(part.split()).rstrip(".") for part in (problem, remedy)]
    return ". ".join(part for part in parts if part)


def _once(reasons: Sequence[str]) -> Iterator[str]:
    """What is true of both arms is said once."""
    for reason in reasons:
        patched = reason.removeprefix("un")
        twins = patched in reasons and f"un{patched}" in reasons
        yield f"both arms{patched.removeprefix('patched arm')}" if twins else reason


#: What is done to the tree, by how the patch fits: in the unpatched arm, and in the patched one.
_ACTIONS = {
    "empty": ("none", "none"),
    "clean": ("none", "applied"),
    "offset": ("none", "applied"),
    "already-applied": ("reversed", "none"),
}


def _not_as_planned(name: str, record: ArmRecord) -> list[str]:
    """Where the record does not show that this arm was what its name says."""
    staging = record.staging
    if record.probe is None or staging is None:
        return ["it was not probed, or its package was not staged"]
    found = [] if record.arm == name else [f"its record is of the {record.arm} arm"]
    planned = _ACTIONS.get(staging.state, ("", ""))[name == "patched"]
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


def _differences(before: ArmEvidence, after: ArmEvidence) -> list[str]:
    """What differs between the arms beside the patch."""
    a, b = before.record, after.record
    pairs: list[tuple[str, object, object]] = [
        ("image", a.image.digest, b.image.digest),
        ("registry digest", a.image.registry_digest, b.image.registry_digest),
        ("engine", a.engine, b.engine),
        ("device access", "; ".join(a.access), "; ".join(b.access)),
        ("test files", a.tests_sha256, b.tests_sha256),
        ("environment variables", a.environment_sha256, b.environment_sha256),
    ]
    if a.probe and b.probe:
        pairs += _measured(a.probe, b.probe)
    if a.staging and b.staging:
        pairs.append(("package tree", a.staging.tree_before, b.staging.tree_before))
        pairs.append(("fit of the patch", a.staging.state, b.staging.state))
    found = [f"{name} differs: {x} and {y}" for name, x, y in pairs if x != y]
    return found + _collected_differently(before, after)


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
        return [f"{len(only)} tests were collected in one arm only, such as {only[0]}"]
    orders = [[n for n in arm.collected if n in both] for arm in arms]
    return [] if orders[0] == orders[1] else ["the tests were collected in another order"]
