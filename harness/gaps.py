"""What was not measured, said by the tool without being asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness import transfer
from harness.case import Case, Role, Signature, family
from harness.outcome import Arm, ArmStatus, Outcome
from harness.record import ArmEvidence
from harness.repeats import LEVEL
from harness.stats import best, upper
from harness.verdict import Row

_FAMILY_NAMES = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "rocm": "ROCm"}
_NAMED = 5
_BEGINNING = 100
_ON_ITS_OWN = ", each left out on its own"
_NOT_RUN = {Outcome.SKIPPED, Outcome.MISSING, Outcome.NOT_RUN, Outcome.TIMEOUT}


def find(rows: Sequence[Row]) -> tuple[str, ...]:
    """List what the rows do not show, case by case, each item once.

    Items name the case only where the rows are of several. Texts of tests and engines
    stand in them as they are: whoever prints an item escapes it.
    """
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row.case.id, []).append(row)
    found = []
    for case_id, own in by_case.items():
        prefix = f"{case_id}: " if len(by_case) > 1 else ""
        found += [prefix + item for item in _of_case(own)]
    return tuple(dict.fromkeys(found))


def _of_case(rows: list[Row]) -> Iterator[str]:
    case = rows[0].case
    yield from _platforms(case, rows)
    for row in rows:
        yield from _unmeasured(row)
        yield from _claimed(row)
        yield from _moved(row)
        yield from transfer.gaps(row.transfer) if row.transfer else ()
    yield from _skipped_everywhere(case, rows)
    yield from _not_skipped(case, rows)
    yield from _deselected(rows)
    yield from _other_tests(case, rows)
    yield from _loose_signatures(case)
    yield from _patch(rows)
    yield from _engines(rows)
    yield from _repeats(rows)
    yield from _unneeded_hunks(rows)
    for row in rows:
        yield from _not_compared(row)
    yield from case.owed


def _platforms(case: Case, rows: list[Row]) -> Iterator[str]:
    keys = {row.platform for row in rows if not row.refused}
    measured = keys | {family(key) for key in keys}
    lacking = [_platform_name(name) for name in case.platforms if name not in measured]
    if lacking:
        yield f"no {', '.join(dict.fromkeys(lacking))} row"


def _platform_name(platform: str) -> str:
    """``CUDA`` of a family, ``sm90`` of ``cuda-sm90``."""
    name, _, detail = platform.partition("-")
    return detail or _FAMILY_NAMES[name]


def _unmeasured(row: Row) -> Iterator[str]:
    target = row.evidence.target
    host = f" on {target.host_name}" if target.host_name else ""
    where = f"{target.image} with engine {target.engine}{host} ({row.platform})"
    if row.refused:
        yield f"row refused: {where}: {_beginning('; '.join(row.refused))}"
    for name, arm in row.evidence.arms.items():
        if arm.record.status is ArmStatus.TIMED_OUT:
            yield f"{name} arm timed out: {where}: {arm.record.reason}"
    if not row.run.finished:
        yield f"the run {row.run.run_id} was interrupted: its evidence ends early"


def _beginning(reasons: str) -> str:
    """Reports have the whole of it where they say that the row is refused."""
    if len(reasons) <= _BEGINNING:
        return reasons
    return f"{reasons[:_BEGINNING].rstrip()}… (the rest stands where the row is refused)"


def _claimed(row: Row) -> Iterator[str]:
    """A label is never believed: where the measured platform is another one, it is said."""
    target = row.evidence.target
    same = target.claimed in (row.platform, family(row.platform))
    if target.claimed and not same and not row.refused:
        where = f"{target.image} on {target.host_name or target.host}"
        yield f"{where} was said to be {target.claimed}; {row.platform} was measured"


def _moved(row: Row) -> Iterator[str]:
    """A tag that no longer names the pinned image, and was run all the same."""
    images = {arm.record.image for _, arm in _arms(row)}
    for image in sorted(images, key=lambda image: image.digest):
        if image.pinned and image.registry_digest != image.pinned:
            yield (
                f"the tag of {image.name} has moved: pinned {image.pinned}, "
                f"run as {image.registry_digest}"
            )


def _not_skipped(case: Case, rows: list[Row]) -> Iterator[str]:
    """A declared skip that did not happen: the verdict is right, the claim is out of date."""
    for node in case.nodes:
        ran = [
            row.platform
            for row in rows
            for verdict in row.nodes
            if verdict.node_id == node.id
            and not row.refused
            and node.expected_skip(row.platform) is not None
            and not {verdict.unpatched, verdict.patched} & _NOT_RUN
        ]
        if ran:
            yield f"declared to be skipped on {', '.join(dict.fromkeys(ran))}, but ran: {node.id}"


def _skipped_everywhere(case: Case, rows: list[Row]) -> Iterator[str]:
    for node in case.nodes:
        measured = [
            verdict
            for row in rows
            if not row.refused
            for verdict in row.nodes
            if verdict.node_id == node.id
        ]
        both = all(v.unpatched is v.patched is Outcome.SKIPPED for v in measured)
        if measured and both:
            reasons = dict.fromkeys(v.skip_reason or "no reason given" for v in measured)
            yield f"skipped on every row: {node.id} ({'; '.join(reasons)})"


def _deselected(rows: list[Row]) -> Iterator[str]:
    ids = tuple(dict.fromkeys(node_id for row in rows for node_id in row.run.deselected))
    if ids:
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        yield f"{_count(len(ids), 'node ID')} deselected with -k: {', '.join(ids[:_NAMED])}{more}"


def _repeats(rows: list[Row]) -> Iterator[str]:
    """What the number of runs leaves open."""
    for repeats in sorted({row.repeats for row in rows if not row.refused}):
        if repeats == 1:
            yield "one run an arm: says nothing about flakiness"
            continue
        own = [row for row in rows if row.repeats == repeats and not row.refused]
        tests = max(sum(n.runs is not None and n.runs.p is not None for n in r.nodes) for r in own)
        p = min(1.0, max(tests, 1) * best(repeats))
        if p > LEVEL:
            yield (
                f"{repeats} runs an arm are too few to prove anything: all against none is "
                f"p = {p:.2g} over {_count(tests, 'node ID')}, above {LEVEL}"
            )
        yield (
            f"{repeats} runs an arm: a test that fails in up to {100 * upper(0, repeats):.0f}% of "
            "runs may still have passed in all of them (95% confidence)"
        )


def _unneeded_hunks(rows: list[Row]) -> Iterator[str]:
    """Hunks that no flip needs, wherever that was tried."""
    tried = [row.ablation for row in rows if row.ablation is not None and row.ablation.nodes]
    if not tried:
        return
    unneeded = [h for h in tried[0].unneeded if all(h in other.unneeded for other in tried)]
    if unneeded:
        numbers = " and ".join(str(hunk.number) for hunk in unneeded)
        places = ", ".join(f"{hunk.file}:{hunk.line}" for hunk in unneeded)
        word = "hunk" if len(unneeded) == 1 else "hunks"
        each = "" if all(other.complete for other in tried) or len(unneeded) < 2 else _ON_ITS_OWN
        yield f"no flip that was measured needs {word} {numbers} of the patch{each} ({places})"


def _not_compared(row: Row) -> Iterator[str]:
    """What was asked for beside the two arms, and not had."""
    if row.refused:
        return
    where = f"on {row.platform}"
    if row.ablation is not None:
        lost = [s for s in row.ablation.subsets if s.problem and s.apart]
        apart = [s for s in row.ablation.subsets if s.problem and not s.apart]
        for subsets, what in ((apart, "cannot be applied apart"), (lost, "gave no result")):
            if subsets:
                names = ", ".join("+".join(map(str, s.hunks)) for s in subsets[:_NAMED])
                more = f" and {len(subsets) - _NAMED} more" if len(subsets) > _NAMED else ""
                yield f"sets of hunks that {what} {where}: {names}{more}"
        if not row.ablation.nodes:
            yield f"which hunks are needed {where}: no flip was confirmed to tell"
    if row.drift is not None and row.drift.refused:
        yield f"old tests not compared {where}: {_beginning('; '.join(row.drift.refused))}"
    if row.agreement is not None and row.agreement.refused:
        yield f"no A/A comparison {where}: {_beginning('; '.join(row.agreement.refused))}"


def _other_tests(case: Case, rows: list[Row]) -> Iterator[str]:
    arms = [arm for row in rows if not row.run.whole_files for _, arm in _arms(row)]
    collected = {node_id for arm in arms for node_id in arm.results.collected}
    others = len(collected - {node.id for node in case.nodes})
    if others:
        verb = "was" if others == 1 else "were"
        yield f"{_count(others, 'other test')} of the case's files {verb} not run"


def _loose_signatures(case: Case) -> Iterator[str]:
    """A declared failure that lacks a part also fits failures that nobody meant."""
    used = {n.signature for n in case.nodes if Role.FLIP in (n.role, *n.role_on.values())}
    for name, signature in case.signatures.items():
        lacking = _lacking(signature)
        if name in used and lacking:
            parts = " and no ".join(lacking)
            yield f"the declared failure {name} states no {parts}: other failures may fit it"


def _lacking(signature: Signature) -> list[str]:
    return [
        part
        for part, there in (
            ("place", signature.at),
            ("message", _says_something(signature)),
        )
        if not there
    ]


def _says_something(signature: Signature) -> bool:
    """Whether the declared message could fail to match anything at all."""
    if signature.message_regex:
        return re.search(signature.message_regex, "") is None
    return any(character.isalpha() for character in signature.message)


def _patch(rows: list[Row]) -> Iterator[str]:
    stagings = [arm.record.staging for row in rows for _, arm in _arms(row) if arm.record.staging]
    if any(staging.state == "empty" for staging in stagings):
        yield "the patch has no hunks"
    fixed = [row.evidence.target.image for row in rows if _fixed_already(row)]
    if fixed:
        images = ", ".join(dict.fromkeys(fixed))
        yield f"{images} already has the fix; the unpatched arm was made by reversing it"


def _engines(rows: list[Row]) -> Iterator[str]:
    for row in rows:
        target = row.evidence.target
        if target.engine == "local":
            note = target.engine_note.removeprefix("no isolation: ")
            yield "the local engine isolates nothing" + (f": {note}" if note else "")


def _fixed_already(row: Row) -> bool:
    """Whether the image came with the fix, so that the unpatched arm was made by reversing it."""
    return any(
        arm.record.staging is not None and arm.record.staging.state == "already-applied"
        for _, arm in _arms(row)
    )


def _arms(row: Row) -> Iterator[tuple[Arm, ArmEvidence]]:
    """The arms of a row that left evidence, the unpatched one first."""
    for name, arm in (
        (Arm.UNPATCHED, row.evidence.unpatched),
        (Arm.PATCHED, row.evidence.patched),
    ):
        if arm is not None:
            yield name, arm


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
