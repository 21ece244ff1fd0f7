"""The folded part of the Markdown block: everything needed to check a row, or to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from harness.comparable import sentence
from harness.outcome import Arm, ArmStatus, totals
from harness.record import PAIR, ArmEvidence, ArmRecord, Failure, Probe
from harness.report.summary import ARMS, Group, arm_named, failure_words, groups, source_words
from harness.report.text import CUT, code, count, oneline, prose, table
from harness.verdict import Report, Row

_NONE = "–"
#: Lines of arms beside the first pair, at most.
_MOST = 60


def lines(report: Report, limit: int) -> list[str]:
    """The lines of the folded part, with at most ``limit`` rows and failures."""
    found = ["<details><summary>Provenance and how to do it again</summary>"]
    several = len({row.case.id for row in report.rows}) > 1
    shown = 0
    for group in groups(report):
        for label, row in zip(group.labels, group.rows, strict=True):
            if shown < limit:
                case = f"{code(group.case.id)}, " if several else ""
                found += ["", f"**{case}{prose(label)}**", "", *_row(row)]
            shown += 1
    if shown > limit:
        found += ["", f"{CUT} The provenance of {shown - limit:,} more rows is in the JSON report."]
    for group in groups(report):
        found += _failures(group, limit)
    return [*found, "", "</details>"]


def _row(row: Row) -> list[str]:
    run, target = row.run, row.evidence.target
    tests = [f"  - {code(path)}: {code(f'sha256:{d}')}" for path, d in run.tests_sha256.items()]
    more = [f"  - {CUT} {count(len(tests) - 20, 'more file')}"] if len(tests) > 20 else []
    out = [
        f"- again: {code(shlex.join(run.command), 1000)}",
        f"- run {code(run.run_id)} by harness {code(run.harness)}, started {_when(run.started)}, "
        + (f"finished {_when(run.finished)}" if run.finished else "**interrupted**"),
        f"- host {code(target.host)}, engine {code(target.engine)}: {_prose(target.engine_note)}",
        f"- case {code(run.case_id)}, {code(f'case.toml sha256:{run.case_sha256}')}",
        f"- patch {code(row.case.patch)}: {code(f'sha256:{run.patch_sha256}')}",
        f"- {count(len(tests), 'test file')}:",
        *tests[:20],
        *more,
        *_taken(row),
        *(f"- link: {code(link)}" for link in row.case.links[:10]),
        f"- evidence: {code(row.folder)}",
    ]
    return [*out, "", *_arms(row), "", *_more_arms(row), *_files(row)]


def _taken(row: Row) -> list[str]:
    """Files of the run that came from elsewhere than the case's folder."""
    run = row.run
    named = (
        ("old tests", run.base_tests),
        ("further test files", run.tests_from),
        ("compared with upstream", run.upstream),
    )
    return [
        f"- {what}: {count(len(source.files), 'file')} of {_prose(source_words(source))}"
        for what, source in named
        if source is not None
    ]


def _more_arms(row: Row) -> list[str]:
    """The arms beside the first pair, a line each: how they ended, on which tree, with what."""
    rows = []
    more = [spec for spec in row.evidence.planned if spec not in PAIR]
    for spec in more[:_MOST]:
        arm = row.evidence.arms.get(spec.name)
        if arm is None:
            rows.append((code(spec.name), "no evidence", _NONE, _NONE, _NONE, _NONE))
            continue
        staging, junit = arm.record.staging, arm.record.files.get("junit.xml", "")
        rows.append(
            (
                code(spec.name),
                arm.record.status.value + _because(arm.record.reason),
                totals(arm.results.counts(row.run.selected)),
                f"{arm.record.duration:.2f} s",
                _code(staging.tree_after) if staging else _NONE,
                _code(junit),
            )
        )
    if not rows:
        return []
    header = ("arm", "status", "declared tests", "took", "tree as tested", "junit.xml")
    cut = [f"{CUT} {count(len(more) - _MOST, 'more arm')}"] if len(more) > _MOST else []
    return [*table(header, rows), *cut, ""]


def _arms(row: Row) -> list[str]:
    """What is known of each arm, side by side; what is equal is said once."""
    before, after = (_facts(arm_named(row, arm)) for arm in ARMS)
    rows = []
    for name in dict.fromkeys((*before, *after)):
        left, right = before.get(name, "") or _NONE, after.get(name, "") or _NONE
        if left == right == _NONE:
            continue
        rows.append((name, left, "the same" if left == right != _NONE else right))
    if not rows:
        ended = "" if row.run.finished else ": the run was interrupted before its end"
        return [f"No arm left evidence{ended}."]
    return table(("", "unpatched", "patched"), rows)


def _facts(arm: ArmEvidence | None) -> dict[str, str]:
    """An arm's record as inert Markdown cells, in the order they are shown in."""
    if arm is None:
        return {}
    record, staging = arm.record, arm.record.staging
    interrupted = record.status is ArmStatus.INTERRUPTED
    facts = {
        "status": record.reason if interrupted else record.status.value + _because(record.reason),
        **_times(record),
        "command": _code(" ".join(record.command), 700),
        "exit status": "none" if record.exit_code is None else str(record.exit_code),
        "image": f"{code(record.image.name)} {_code(record.image.digest)}",
        "image note": _prose(record.image.note),
        "engine": code(record.engine),
        "device access": ", ".join(prose(word) for word in record.access[:20]),
        "events": _prose("; ".join(record.notes), 700),
        "environment variables": _code(record.environment_sha256),
        "pytest plugins": _prose("; ".join(record.plugins), 700),
        "collected": "" if interrupted else count(len(arm.results.collected), "test"),
    }
    if staging:
        facts |= {
            "patch": f"fits: {prose(staging.state)}; done here: {prose(staging.action)}; "
            f"with {prose(staging.tool)}",
            "package tree": code(staging.package_path) + (", a copy" if staging.copied else ""),
            "tree as it came": _code(staging.tree_before),
            "tree as tested": _code(staging.tree_after),
        }
    changed = record.seal.changed if record.seal else None
    facts["files after the tests"] = (
        "not looked at" if changed is None else _changed(changed) if changed else "unchanged"
    )
    return facts | _probe(record.probe)


def _times(record: ArmRecord) -> dict[str, str]:
    if record.started:
        return {"started": _when(record.started), "took": f"{record.duration:.2f} s"}
    unknown = record.status is ArmStatus.INTERRUPTED
    return {"started": _when("") if unknown else "never", "took": ""}


def _probe(probe: Probe | None) -> dict[str, str]:
    if probe is None:
        return {"environment": "not measured"}
    return {
        "platform": code(probe.platform),
        "device": _prose(probe.device),
        "device UUID": _code(probe.device_uuid),
        "devices seen": f"{probe.devices:,}; the first is described" if probe.devices > 1 else "",
        "hardware": _named(probe.hardware),
        "readings before the tests": _named(probe.readings),
        "package": code(probe.package_version) if probe.package_version else "version unknown",
        "package commit": _code(probe.package_commit),
        "versions": _named(probe.versions),
        "Python": f"{code(probe.python)} {_code(probe.executable)}",
        "system": f"{code(probe.machine)} {_code(probe.kernel)} {_code(probe.libc)}",
        "pytest": code(probe.pytest) if probe.pytest else "none there: the harness's own",
        "patch tool": code(probe.patch) if probe.patch else "none there: the harness's own",
        "distributions": f"{probe.distributions:,} {_code(probe.distributions_sha256)}",
        "notes": _prose("; ".join(probe.notes), 700),
    }


def _files(row: Row) -> list[str]:
    """The digests of the raw files that everything here was derived from."""
    found = []
    for arm in ARMS:
        evidence = arm_named(row, arm)
        if evidence is not None and evidence.record.files:
            files = [
                f"  - {code(name)}: {_code(digest)}"
                for name, digest in list(evidence.record.files.items())[:20]
            ]
            found += [f"- raw files of the {arm} arm (sha256):", *files]
    return found


def _failures(group: Group, limit: int) -> list[str]:
    """Each failure once, in full, with the rows it was seen on."""
    seen: dict[tuple[str, Arm, Failure], list[str]] = {}
    for node_id in group.node_ids:
        for label, _, verdict in group.found[node_id]:
            for arm, failure in (
                (Arm.UNPATCHED, verdict.failure),
                (Arm.PATCHED, verdict.patched_failure),
            ):
                if failure is not None:
                    seen.setdefault((node_id, arm, failure), []).append(label)
    if not seen:
        return []
    found = ["", "**Failures in full**", ""]
    for (node_id, arm, failure), on in list(seen.items())[:limit]:
        found += _failure(node_id, arm, failure, ", ".join(on))
    if len(seen) > limit:
        found += ["", f"{CUT} {len(seen) - limit:,} more failures are in the JSON report."]
    return found


def _failure(node_id: str, arm: Arm, failure: Failure, where: str) -> Iterator[str]:
    yield f"- {code(node_id)}, {arm}, on {prose(where, 1000)}:"
    yield f"  - {code(oneline(failure_words(failure), 1000), 1100)} in phase {code(failure.phase)}"
    if failure.place:
        yield f"  - raised at {code(failure.place)}"
    if failure.frames:
        cut = f" {CUT}" if len(failure.frames) > 20 else ""
        yield f"  - frames: {' '.join(code(frame) for frame in failure.frames[:20])}{cut}"


def _because(reason: str) -> str:
    return f": {prose(sentence(reason), 700)}" if reason else ""


def _changed(changed: tuple[str, ...]) -> str:
    more = f" and {len(changed) - 10} more" if len(changed) > 10 else ""
    return f"**changed**: {', '.join(code(path) for path in changed[:10])}{more}"


def _when(text: str) -> str:
    return code(text) if text else "at an unknown time"


def _named(values: dict[str, str]) -> str:
    """Names with their values, which come from inside the arm."""
    more = f" {CUT}" if len(values) > 20 else ""
    shown = [code(f"{name} {value}", 100) for name, value in list(values.items())[:20]]
    return ", ".join(shown) + more


def _code(text: str, limit: int = 300) -> str:
    return code(text, limit) if text else _NONE


def _prose(text: str, limit: int = 300) -> str:
    return prose(text, limit) if text else _NONE
