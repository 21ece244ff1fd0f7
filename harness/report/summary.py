"""What every format says of a report, in words that are derived once. Nothing here is escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.case import Case, Role
from harness.others import Finding
from harness.outcome import Arm, ArmStatus, Outcome, totals
from harness.record import ArmEvidence, Failure, ImageIdentity, SourceRecord, Staging
from harness.report.naming import full_name, labels_and_names
from harness.report.text import count, listed, short
from harness.verdict import NodeVerdict, Overall, Report, Row, Verdict

#: The two arms that the flip table shows.
ARMS = (Arm.UNPATCHED, Arm.PATCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows of one case, each with a label that no other row of the case has.

    ``names`` are the labels with the devices, for tables that have the room.
    ``file`` is the test file that all node IDs are of, or an empty string where they differ;
    ``found`` has each node ID's verdicts with their rows and labels, in the case's order.
    """

    case: Case
    rows: tuple[Row, ...]
    labels: tuple[str, ...]
    names: tuple[str, ...]
    file: str
    found: dict[str, list[tuple[str, Row, NodeVerdict]]]

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The node IDs that any row has a verdict for, in the case's order."""
        return tuple(self.found)

    def shorten(self, node_id: str) -> str:
        """The node ID with ``…`` for the file, where there is only one file."""
        file = node_id.partition("::")[0]
        return "…" + node_id.removeprefix(file) if self.file == file else node_id

    def of_role(self, role: Role) -> list[str]:
        """The node IDs that are a flip on any row, or those that are a control on all."""
        return [
            node_id
            for node_id, found in self.found.items()
            if any(verdict.role is Role.FLIP for _, _, verdict in found) == (role is Role.FLIP)
        ]


def groups(report: Report) -> tuple[Group, ...]:
    """The report's rows by case, in the order of their first rows."""
    by_case: dict[str, list[Row]] = {}
    for row in report.rows:
        by_case.setdefault(row.case.id, []).append(row)
    return tuple(_group(rows) for rows in by_case.values())


def platform_name(row: Row) -> str:
    """The platform with its device: ``NVIDIA H200 (sm90)``, ``CPU (Xeon …)``; and a named host."""
    return full_name(row)


def named_rows(report: Report) -> list[tuple[str, Row]]:
    """All rows with their names in full: device, platform, and what tells their labels apart."""
    return [
        named for group in groups(report) for named in zip(group.names, group.rows, strict=True)
    ]


def image(row: Row) -> ImageIdentity:
    """What the arms ran in, as the first arm that left evidence says."""
    for _, arm in arms(row):
        return arm.record.image
    note = "never started" if row.run.finished else "interrupted before its end"
    return ImageIdentity(name=row.evidence.target.image, digest="", note=note)


def image_note(row: Row) -> str:
    """The image's note, with what a reader must know of the local engine."""
    note = short(image(row).note)
    if row.evidence.target.engine == "local" and "no container" not in note:
        return f"{note}, no container" if note else "no container"
    return note


def arm_totals(row: Row, arm: Arm) -> str:
    """An arm's outcomes as pytest words them, and how it came about where that is unusual."""
    evidence = row.evidence.unpatched if arm is Arm.UNPATCHED else row.evidence.patched
    if evidence is None:
        return "no evidence"
    if evidence.record.status is ArmStatus.INTERRUPTED:
        return "interrupted"
    words = totals(row.unpatched if arm is Arm.UNPATCHED else row.patched)
    staging = evidence.record.staging
    return f"{words} (patch reversed)" if staging and staging.action == "reversed" else words


def headline(report: Report) -> str:
    """The verdict in one sentence that claims no more than what was measured."""
    nodes = [node for row in report.rows for node in row.nodes]
    if not nodes:
        return "Inconclusive: nothing was measured."
    match report.overall:
        case Overall.CONFIRMED:
            return _confirmed(report)
        case Overall.NOT_CONFIRMED:
            what, bad = "did not stand", [node for node in nodes if not node.confirmed]
        case Overall.INCONCLUSIVE:
            what, bad = "could not be measured", [node for node in nodes if not node.confirmed]
            if not bad:
                return "Inconclusive: no test that should flip was run: nothing was shown."
    name = "Not confirmed" if report.overall is Overall.NOT_CONFIRMED else "Inconclusive"
    broke = sum(len(row.others.of(Finding.REGRESSION)) for row in report.rows if row.others)
    said = [f"{len(bad):,} of {count(len(nodes), 'claim')} {what}: {tally(bad)}"] if bad else []
    said += [f"the patch breaks {count(broke, 'undeclared test')}"] if broke else []
    return f"{name}: {'; '.join(said)}."


def tally(nodes: Iterable[NodeVerdict]) -> str:
    """How often each verdict was found: ``1 flip, 1 control, 1 skipped as declared``."""
    found = Counter((node.verdict, node.confirmed) for node in nodes)
    words = []
    for verdict in Verdict:
        for confirmed in (True, False):
            number = found[verdict, confirmed]
            if number:
                words.append(_verdict_words(verdict, number, confirmed=confirmed))
    return ", ".join(words) or "no node IDs"


def by_row(report: Report) -> list[str]:
    """Each row's tally, with its case where there are several."""
    several = len({row.case.id for row in report.rows}) > 1
    return [
        f"{f'{group.case.id}, ' if several else ''}{label}: {tally(row.nodes)}"
        for group in groups(report)
        for label, row in zip(group.labels, group.rows, strict=True)
    ]


def outcomes(verdict: NodeVerdict) -> str:
    """Both outcomes of a node, for example ``failed → passed``."""
    before = _outcome_word(verdict.unpatched, verdict.failure)
    after = _outcome_word(verdict.patched, verdict.patched_failure)
    return f"{before} → {after}"


def skipped(verdict: NodeVerdict) -> bool:
    """Whether the test skipped itself in both arms."""
    return verdict.unpatched is verdict.patched is Outcome.SKIPPED


def failure_words(failure: Failure) -> str:
    """``Type: message``, with the type's bare name."""
    name = failure.exception.removeprefix("builtins.")
    return f"{name}: {failure.message}" if failure.message else name


def staging_of(row: Row) -> Staging | None:
    """What is known of the patch: from the arm that it was applied to, or taken out of."""
    found = [arm.record.staging for _, arm in arms(row) if arm.record.staging]
    acted = [staging for staging in found if staging.action != "none"]
    return next(iter([*acted, *reversed(found)]), None)


def patch_words(row: Row) -> str:
    """How the patch fitted the image's tree, and what was done with it."""
    staging = staging_of(row)
    if staging is None:
        return "no arm got as far as the patch"
    if staging.state == "empty":
        return "the patch has no hunks: both arms are the same"
    if staging.state == "rejected":
        return f"rejected: {staging.message}"
    files = len({hunk.file for hunk in staging.hunks})
    hunks = f"{count(len(staging.hunks), 'hunk')} in {count(files, 'file')}"
    if staging.state == "already-applied":
        words = f"the image already has the fix; the unpatched arm was made by reversing {hunks}"
    elif staging.action == "none":
        words = f"{hunks} fit, but no arm left evidence of applying them"
    else:
        words = f"{hunks} applied"
    return f"{words}{_offsets(staging)} (with {staging.tool})"


def source_words(source: SourceRecord) -> str:
    """Where files were taken from, with what they were then: a commit, or an archive's digest."""
    what = {"folder": "folder", "git": "revision", "sdist": "source distribution"}
    kind = what.get(source.kind, source.kind)
    spec = source.spec.removeprefix("sdist:")
    revision = source.revision[:12] if source.kind == "git" else short(source.revision)
    return f"{kind} {spec}" + (f" ({revision})" if revision else "")


def same_tests(group: Group) -> dict[str, str]:
    """The digest of each test file where all rows agree, those with declared node IDs first."""
    first = group.rows[0].run.tests_sha256
    if any(row.run.tests_sha256 != first for row in group.rows):
        return {}  # the workflow refuses such rows: this is for rows from elsewhere
    declared = {node_id.partition("::")[0] for node_id in group.found}
    return dict(sorted(first.items(), key=lambda item: item[0] not in declared))


def arms(row: Row) -> Iterator[tuple[Arm, ArmEvidence]]:
    """The arms of a row that left evidence, the unpatched one first."""
    for arm in ARMS:
        evidence = arm_named(row, arm)
        if evidence is not None:
            yield arm, evidence


def arm_named(row: Row, arm: Arm) -> ArmEvidence | None:
    """One arm's evidence."""
    return row.evidence.unpatched if arm is Arm.UNPATCHED else row.evidence.patched


def _group(rows: list[Row]) -> Group:
    labels, names = labels_and_names(rows)
    found: dict[str, list[tuple[str, Row, NodeVerdict]]] = {n.id: [] for n in rows[0].case.nodes}
    for label, row in zip(labels, rows, strict=True):
        for verdict in row.nodes:
            found.setdefault(verdict.node_id, []).append((label, row, verdict))
    files = {node.file for node in rows[0].case.nodes}
    return Group(
        case=rows[0].case,
        rows=tuple(rows),
        labels=labels,
        names=names,
        file=files.pop() if len(files) == 1 else "",
        found={node_id: verdicts for node_id, verdicts in found.items() if verdicts},
    )


def _confirmed(report: Report) -> str:
    several = len({row.case.id for row in report.rows}) > 1
    where, tests = [], 0
    for group in groups(report):
        for label, row in zip(group.labels, group.rows, strict=True):
            own = sum(verdict.verdict is Verdict.FLIP_CONFIRMED for verdict in row.nodes)
            tests += own
            if own:
                suffix = f" ({row.case.id})" if several else ""
                where.append(f"{count(own, 'test')} on {label}{suffix}")
    if not tests:
        controls = sum(v.verdict is Verdict.CONTROL_HELD for row in report.rows for v in row.nodes)
        return f"Confirmed, but no test was claimed to flip: {count(controls, 'control')} held."
    verbs = ("fails", "passes") if tests == 1 else ("fail", "pass")
    what = f"{verbs[0]} unpatched as declared and {verbs[1]} with the patch"
    return f"Confirmed: {listed(where)} {what}."


def _outcome_word(outcome: Outcome, failure: Failure | None) -> str:
    """The outcome, or that the test file could not be loaded."""
    if outcome is Outcome.MISSING and failure is not None:
        return "cannot be loaded"
    return outcome.value


def _verdict_words(verdict: Verdict, number: int, *, confirmed: bool) -> str:
    match verdict, confirmed:
        case Verdict.FLIP_CONFIRMED, True:
            return count(number, "flip")
        case Verdict.CONTROL_HELD, True:
            return count(number, "control")
        case Verdict.SKIPPED, True:
            return f"{number:,} skipped as declared"
        case Verdict.UNEXPECTED_SKIP, _:
            return count(number, "unexpected skip")
        case _:
            return f"{number:,} {verdict.value}"


def _offsets(staging: Staging) -> str:
    moved = [hunk for hunk in staging.hunks if hunk.offset]
    if not moved:
        return ", exactly where the patch says"
    named = [f"{hunk.file} hunk {hunk.number} by {hunk.offset:+d}" for hunk in moved[:20]]
    more = f" and {len(moved) - 20} more" if len(moved) > 20 else ""
    return f", {len(moved)} of them at another line: {', '.join(named)}{more}"
