"""What was asked for beside the two arms, as sections that every format prints in its own way.

Texts in them are of tests and of cases and stand as they are: whoever prints one escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.drift import Drift, DriftNode
from harness.flips import Flip
from harness.others import Finding, OtherNode, Others
from harness.outcome import Outcome
from harness.record import Failure
from harness.repeats import Agreement
from harness.report.hunks import hunks
from harness.report.section import NONE, Section
from harness.report.summary import Group, failure_words, source_words
from harness.report.text import count
from harness.stats import best
from harness.verdict import NodeVerdict, Row


def of_group(group: Group) -> Iterator[tuple[str, Section]]:
    """Every section of a case's rows, with the row's label."""
    for label, row in zip(group.labels, group.rows, strict=True):
        for section in of_row(group, row):
            yield label, section


def of_row(group: Group, row: Row) -> Iterator[Section]:
    """The sections of one row; a row that is refused has none."""
    if row.refused:
        return
    if row.repeats > 1:
        yield _repeats(group, row)
    if row.agreement is not None:
        yield _agreement(row.agreement)
    if row.ablation is not None:
        yield hunks(group, row.ablation)
    if row.drift is not None:
        yield _drift(group, row, row.drift)
    if row.others is not None:
        yield _others(group, row.others, told=row.drift is not None)
    if row.transfer is not None and row.transfer.sentence:
        yield Section(title="Upstream", sentence=row.transfer.sentence)


def number(p: float | None) -> str:
    """A probability with two significant digits."""
    return NONE if p is None else f"{p:.2g}"


def _repeats(group: Group, row: Row) -> Section:
    compared = sum(node.runs is not None and node.runs.p is not None for node in row.nodes)
    proves = f"{row.repeats} runs of each arm give p = {number(best(row.repeats))} at best"
    if compared > 1:
        corrected = min(1.0, compared * best(row.repeats))
        proves += f", {number(corrected)} after the correction over {compared} node IDs"
    return Section(
        title="Repeats",
        sentence=(
            f"{row.repeats} unpatched and {row.repeats} patched runs in turn, a number fixed "
            "beforehand; all are counted, as failed:runs. p is of the two-sided Fisher exact test, "
            f"then with Holm's correction. {proves}."
        ),
        header=("node ID", "unpatched", "patched", "p", "p (Holm)", "verdict"),
        rows=tuple(_repeated(group, node) for node in row.nodes if node.runs),
    )


def _repeated(group: Group, node: NodeVerdict) -> tuple[str, ...]:
    assert node.runs is not None
    runs = node.runs
    skips = {*runs.unpatched, *runs.patched} == {Outcome.SKIPPED}
    words = (f"{len(runs.unpatched)} skipped", f"{len(runs.patched)} skipped")
    return (
        group.shorten(node.node_id),
        *(words if skips else runs.words),
        number(runs.p),
        number(runs.p_holm),
        node.verdict.value,
    )


def _agreement(found: Agreement) -> Section:
    if found.refused:
        return Section(
            title="A/A", sentence=f"The arms cannot be compared: {'; '.join(found.refused)}."
        )
    differing = len(found.differing)
    return Section(
        title="A/A",
        sentence=(
            f"The unpatched arm against itself, {count(found.pairs, 'pair')} of arms: "
            f"{differing:,} of {count(found.comparisons, 'comparison')} differ, "
            f"a false-flip rate of {_percent(found.rate)}, below {_percent(found.upper)} with 95% "
            "confidence."
        ),
        items=tuple(dict.fromkeys(found.differing)),
    )


def _percent(rate: float) -> str:
    return f"{100 * rate:.2g}%"


def _drift(group: Group, row: Row, found: Drift) -> Section:
    source = source_words(row.run.base_tests) if row.run.base_tests else "an unknown place"
    if found.refused:
        return Section(
            title="Old tests",
            sentence=f"From {source}. They cannot be compared: {'; '.join(found.refused)}.",
        )
    state = f"{count(found.pre_existing, 'old test')} checked, {found.new:,} new"
    if found.flipped:
        state += f"; {found.flipped:,} declared to flip and did"
    if found.unmeasured:
        state += f"; {found.unmeasured:,} gave no result"
    if found.changed:
        told = f"{count(len(found.changed), 'pre-existing test')} changed state"
    elif found.holds:
        told = "no pre-existing test changes state"
    else:
        told = "nothing can be said of pre-existing tests"
    drifted = f" {len(found.drifted):,} drifted: they fail alike in all four arms."
    return Section(
        title="Old tests",
        sentence=f"From {source}, in both arms too: {told} ({state})."
        + (drifted if found.drifted else ""),
        header=("node ID", "old tests", "new tests", "what", "why"),
        rows=tuple(
            _four(group, node, what)
            for what, nodes in (("changed", found.changed), ("drift", found.drifted))
            for node in nodes
        ),
    )


def _four(group: Group, node: DriftNode, what: str) -> tuple[str, ...]:
    return (
        group.shorten(node.node_id),
        f"{node.base_unpatched} → {node.base_patched}",
        f"{node.unpatched} → {node.patched}",
        what,
        _why(node.failure),
    )


#: What became of undeclared tests, in words; the order is theirs in a sentence.
_STATES = {
    Flip.BOTH_PASS: "pass in both arms",
    Flip.BOTH_SKIP: "are skipped in both",
    Flip.BOTH_FAIL: "fail in both",
    Flip.FIXED: "pass only with the patch",
    Flip.BROKE: "fail only with the patch",
    Flip.SKIP_CHANGED: "are skipped in one",
    Flip.APPEARED: "are only in the patched",
    Flip.VANISHED: "are only in the unpatched",
    Flip.ABSENT: "are in neither",
    Flip.UNMEASURED: "gave no result",
}
_FINDINGS = (
    Finding.REGRESSION,
    Finding.FLIP,
    Finding.CHANGED,
    Finding.UNSTABLE,
    Finding.UNMEASURED,
    Finding.DRIFT,
    Finding.FAILS,
)


def _others(group: Group, found: Others, *, told: bool) -> Section:
    """Undeclared tests; those that drift are in the section of old tests, if these are ``told``."""
    findings = [finding for finding in _FINDINGS if not (told and finding is Finding.DRIFT)]
    states = [f"{found.counts[f]:,} {words}" for f, words in _STATES.items() if found.counts.get(f)]
    words = f": {', '.join(states)}" if states else ""
    return Section(
        title="Undeclared tests",
        sentence=f"{count(found.total, 'test')} of the same files that the case does not name"
        f"{words}.",
        header=("node ID", "unpatched → patched", "what", "why"),
        rows=tuple(_other(group, node) for finding in findings for node in found.of(finding)),
    )


def _other(group: Group, node: OtherNode) -> tuple[str, ...]:
    return (
        group.shorten(node.node_id),
        f"{node.unpatched} → {node.patched}",
        node.finding.value,
        _why(node.patched_failure or node.failure),
    )


def _why(failure: Failure | None) -> str:
    if failure is None:
        return NONE
    place = failure.place.rpartition("/")[2]
    return failure_words(failure) + (f" at {place}" if place else "")
