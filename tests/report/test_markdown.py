from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import reports
from support.pages import check_inert, pages
from support.reports import (
    CASE,
    CPU_NODES,
    MARLIN,
    PROBE,
    RED,
    SKIP,
    STAGING,
    cpu_row,
    cuda_row,
    with_arms,
)

from harness import gaps
from harness.case import Node, Role
from harness.outcome import ArmStatus, Outcome
from harness.record import TargetEvidence
from harness.report import markdown, text
from harness.report.text import GITHUB_LIMIT, size
from harness.verdict import Overall, Report, Row, Verdict, overall

HOSTILE = st.one_of(
    st.text(min_size=1),
    st.text(alphabet="`|\\<>@#[]()!*_~&:/ \na1-.", min_size=1),
    st.sampled_from(
        [
            "</details>",
            "<!--",
            "a|b|c",
            "`" * 90,
            "x\n\n# y",
            "[a](b)",
            "@octocat",
            "fixes #1",
            "https://evil.example",
            "**",
        ]
    ),
)


def hostile(bad: str) -> Report:
    """A report in which an arm controls all that an arm can control, and the case a little."""
    failure = replace(
        RED, exception=bad, message=bad, file=bad, phase=bad, frames=(bad,), module=bad
    )
    node_id = f"tests/a.py::{bad}"
    changes = {"failure": failure, "patched_failure": failure, "reason": bad, "skip_reason": bad}
    nodes = (
        reports.verdict(node_id, Verdict.FLIP_CONFIRMED, **changes),
        reports.verdict(node_id + "w", Verdict.WRONG_RED, confirmed=False, **changes),
        reports.verdict(node_id + "s", Verdict.SKIPPED, **(changes | {"failure": None})),
        reports.verdict(node_id + "c", Verdict.CONTROL_HELD, **(changes | {"failure": None})),
    )
    case = replace(
        CASE,
        title=bad,
        links=(bad,),
        owed=(bad,),
        nodes=tuple(Node(id=node.node_id, role=node.role, signature="unset") for node in nodes),
    )
    names = ("device", "python", "executable", "machine", "kernel", "libc", "package_version")
    probe = replace(
        PROBE,
        **dict.fromkeys((*names, "pytest", "patch", "device_uuid", "package_commit"), bad),
        devices=2,
        **{key: {bad: bad} for key in ("versions", "hardware", "readings")},
        notes=(bad,),
    )
    staging = replace(
        STAGING, tool=bad, package_path=bad, message=bad, tree_before=bad, tree_after=bad
    )
    row = cpu_row(nodes, case=case, probe=probe, staging=staging)
    refused = cuda_row(nodes, case=case, probe=probe, staging=staging, refused=(bad, bad))
    rows = (row, replace(refused, platform=f"cuda-{bad}"))
    return Report(overall=overall(rows), rows=rows, gaps=gaps.find(rows))


@cache
def _harmless() -> str:
    return markdown.render(hostile("x"))


@settings(max_examples=40, deadline=None)
@given(HOSTILE)
def test_hostile_text_changes_no_structure(bad: str) -> None:
    harmless = pages(_harmless())
    for page, other in zip(pages(markdown.render(hostile(bad))), harmless, strict=True):
        assert [tag for tag in page.tags if tag != "code"] == [
            tag for tag in other.tags if tag != "code"
        ]
        check_inert(page)


def test_hostile_length_is_cut_and_said() -> None:
    found = markdown.render(hostile("long " * 100_000))
    assert size(found) <= GITHUB_LIMIT
    assert "[cut]" in found
    assert found.count("<details>") == found.count("</details>") == 1


def many(number: int, *, confirmed: bool) -> Report:
    ids = [f"tests/test_many.py::test_something_rather_long[parameter-{n}]" for n in range(number)]
    found = Verdict.FLIP_CONFIRMED if confirmed else Verdict.NOT_FIXED
    nodes = tuple(reports.verdict(node_id, found) for node_id in ids)
    case = replace(
        CASE, nodes=tuple(Node(id=node_id, role=Role.FLIP, signature="unset") for node_id in ids)
    )
    return reports.report(cpu_row(nodes, case=case))


@pytest.mark.parametrize("confirmed", [True, False])
def test_thousands_of_node_ids_fit_and_what_was_cut_is_counted(confirmed: bool) -> None:
    found = markdown.render(many(5000, confirmed=confirmed))
    assert size(found) <= GITHUB_LIMIT
    shown = int(re.findall(r"\[cut\] ([\d,]+) more of 5,000", found)[0].replace(",", ""))
    assert 4000 <= shown < 5000
    assert "**Gaps**" in found
    assert "</details>" in found


def test_many_rows_fit() -> None:
    rows = tuple(replace(cpu_row(), folder=f"reports/{n}") for n in range(400))
    found = markdown.render(reports.report(*rows))
    assert size(found) <= GITHUB_LIMIT
    assert "[cut]" in found


def test_a_block_that_cannot_fit_is_cut_at_a_line_and_says_so() -> None:
    found = text.clipped("line of text é\n" * 20_000)
    assert size(found) <= GITHUB_LIMIT
    assert found.endswith("the JSON report and the evidence have them all.\n")
    assert set(found.splitlines()[:-2]) == {"line of text é"}


def headline(report: Report) -> str:
    return markdown.render(report).splitlines()[0]


def test_headline_of_each_verdict() -> None:
    assert headline(reports.confirmed()) == (
        "**Confirmed: 1 test on CPU and 2 tests on sm90 fail unpatched as declared "
        "and pass with the patch.**"
    )
    assert headline(reports.report(cpu_row())) == (
        "**Confirmed: 1 test on CPU fails unpatched as declared and passes with the patch.**"
    )
    assert headline(reports.not_confirmed()) == (
        "**Not confirmed: 3 of 3 claims did not stand: 1 wrong-red, 1 regression, "
        "1 unexpected skip.**"
    )
    assert headline(reports.refused()) == (
        "**Inconclusive: 3 of 6 claims could not be measured: 3 infra.**"
    )
    assert headline(reports.report()) == "**Inconclusive: nothing was measured.**"


def test_headline_claims_no_flip_where_there_is_none() -> None:
    row = cpu_row(CPU_NODES[2:])
    case = replace(row.case, nodes=tuple(n for n in row.case.nodes if n.role is Role.CONTROL))
    controls = reports.report(replace(row, case=case))
    assert controls.overall is Overall.CONFIRMED
    assert headline(controls) == "**Confirmed, but no test was claimed to flip: 1 control held.**"
    skips = reports.report(cpu_row(CPU_NODES[1:2]))
    assert headline(skips) == (
        "**Inconclusive: no test that should flip was run: nothing was shown.**"
    )


def test_refused_row_shows_no_bare_totals() -> None:
    found = markdown.render(reports.refused())
    assert "| **refused** (2 failed, 1 passed) | **refused** (3 passed) |" in found
    assert "- sm90: image differs: `sha256:aa` and `sha256:bb`" in found
    assert "| failed → passed (flip-confirmed) | refused |" in found


def test_a_row_without_any_evidence() -> None:
    row = cpu_row(refused=("the unpatched arm has no evidence: the run did not get that far",))
    nothing = TargetEvidence(target=row.evidence.target, arms={})
    nodes = tuple(
        replace(node, verdict=Verdict.INFRA, confirmed=False, unpatched=Outcome.NOT_RUN,
                patched=Outcome.NOT_RUN, failure=None, skip_reason="")
        for node in CPU_NODES
    )  # fmt: skip
    found = markdown.render(
        reports.report(
            replace(row, evidence=nothing, nodes=nodes, platform="unknown", device="", unpatched={},
                    patched={})
        )
    )  # fmt: skip
    assert "| unknown platform | `example-cpu-0.27.0` (never started, no container) |" in found
    assert "| **refused** (no evidence) | **refused** (no evidence) |" in found
    assert "No arm left evidence." in found
    assert "no row can be compared" in found


def test_offsets_are_named_and_reversals_said() -> None:
    assert "1 of them at another line: example/moe.py hunk 1 by `+4`" in markdown.render(
        reports.confirmed()
    )
    fixed = cpu_row(staging=replace(STAGING, state="already-applied", action="reversed"))
    before = fixed.evidence.unpatched
    after = fixed.evidence.patched
    assert before
    assert after
    assert after.record.staging
    kept = replace(after.record, staging=replace(after.record.staging, action="none"))
    reversed_row = with_arms(fixed, patched=replace(after, record=kept))
    found = markdown.render(reports.report(reversed_row))
    assert "| 1 failed, 1 passed, 1 skipped (patch reversed) | 2 passed, 1 skipped |" in found
    assert "the unpatched arm was made by reversing 3 hunks in 2 files" in found


@pytest.mark.parametrize(
    ("state", "words"),
    [("empty", "the patch has no hunks: both arms are the same"), ("rejected", "rejected: Hunk 1")],
)
def test_patches_that_did_nothing(state: str, words: str) -> None:
    staging = replace(STAGING, state=state, message="Hunk 1 FAILED", hunks=())
    assert words in markdown.render(reports.report(cpu_row(staging=staging)))


def test_a_file_that_cannot_be_loaded_is_not_called_missing() -> None:
    gone = replace(RED, exception="ImportError", message="cannot import name", phase="collect")
    node = reports.verdict(
        MARLIN,
        Verdict.FLIP_CONFIRMED,
        unpatched=Outcome.MISSING,
        failure=gone,
        reason="as declared",
    )
    found = markdown.render(reports.report(cpu_row((node,))))
    assert "cannot be loaded → passed (flip-confirmed)" in found
    assert "`ImportError: cannot import name`" in found


def test_rows_of_one_platform_are_told_apart() -> None:
    other = cpu_row(engine="docker")
    found = markdown.render(reports.report(cpu_row(), other))
    assert "| node ID | CPU local | CPU docker |" in found
    same = markdown.render(reports.report(cpu_row(), cpu_row()))
    assert "CPU local (row 1)" in same
    assert "CPU local (row 2)" in same
    images = reports.report(other, with_image(other, "other:1"))
    assert "`other:1`" in markdown.render(images)


def with_image(row: Row, name: str) -> Row:
    target = replace(row.evidence.target, image=name)
    return replace(row, evidence=replace(row.evidence, target=target))


def test_failures_that_differ_are_said_by_row() -> None:
    other = replace(RED, message="something else", line=9)
    nodes = (reports.verdict(MARLIN, Verdict.FLIP_CONFIRMED, failure=other),)
    found = markdown.render(reports.report(cpu_row(), cuda_row(nodes)))
    assert "CPU: `TypeError: '<=' not" in found
    assert "; sm90: `TypeError: something else` at `marlin_utils.py:9` |" in found


def test_cases_have_sections_of_their_own() -> None:
    other = replace(CASE, id="example-2", title="Another *one*")
    found = markdown.render(reports.report(cpu_row(), cuda_row(case=other)))
    assert "### `example-1`: An unset `group_size` reaches `<=` in the oracle" in found
    assert "### `example-2`: Another `*one*`" in found
    assert "| case | platform | image | unpatched | patched |" in found
    assert "- `example-2`: no CPU, XPU, ROCm row" in found


def test_status_and_changed_files_are_shown() -> None:
    row = cpu_row()
    before = row.evidence.unpatched
    assert before
    assert before.record.seal
    record = replace(
        before.record,
        status=ArmStatus.TIMED_OUT,
        reason="stopped at 900 s",
        exit_code=None,
        seal=replace(before.record.seal, changed=("example/x.py",)),
        probe=None,
    )
    late = with_arms(row, unpatched=replace(before, record=record))
    found = markdown.render(reports.report(late))
    assert "| status | timed-out: stopped at 900 s | ran |" in found
    assert "| exit status | none | 0 |" in found
    assert "| files after the tests | **changed**: `example/x.py` | unchanged |" in found
    assert "| environment | not measured | – |" in found


def test_device_access_and_events_are_shown_where_there_are_any() -> None:
    row = cuda_row()
    before = row.evidence.unpatched
    assert before
    record = replace(
        before.record,
        access=("one NVIDIA device", "no network"),
        notes=("the connection was lost once",),
    )
    told = with_arms(row, unpatched=replace(before, record=record))
    found = markdown.render(reports.report(told))
    assert "| device access | one NVIDIA device, no network | – |" in found
    assert "| events | the connection was lost once | – |" in found
    assert "| device access" not in markdown.render(reports.report(row))


def test_what_was_measured_of_a_device_is_shown_and_what_was_not_takes_no_line() -> None:
    found = markdown.render(reports.report(cuda_row()))
    assert "| hardware | `driver 580.00.00`, `VBIOS 00.11.22.33.44`, `ECC on` | the same |" in found
    assert "| device UUID | `GPU-00112233-4455-6677-8899-aabbccddeeff` | the same |" in found
    bare = markdown.render(reports.report(cpu_row()))
    assert not any(f"| {name} |" in bare for name in ("hardware", "device UUID", "package commit"))


def test_an_undeclared_skip_is_not_passed_over() -> None:
    found = markdown.render(reports.not_confirmed())
    assert "skipped: no GPU (**not as declared**)" in found
    assert f"skipped: {SKIP} |" in markdown.render(reports.confirmed())


def test_columns_are_cut_as_rows_are() -> None:
    rows = [
        on_host(cuda_row(run=replace(reports.RUN, run_id=f"run-{n}")), f"host{n}")
        for n in range(29)
    ]
    found = markdown.render(reports.report(*rows))
    assert reports.CASE.id in found
    (header,) = [line for line in found.splitlines() if line.startswith("| node ID | sm90 on")]
    columns = header.count("sm90 on host")
    assert 0 < columns < 29
    assert found.count("| NVIDIA H200 (sm90) on host") == columns
    left = f"[cut] {29 - columns} more of 29"
    assert f"{left} rows are not shown here" in found
    assert f"{left} columns of rows are not shown here" in found


def on_host(row: Row, name: str) -> Row:
    target = replace(row.evidence.target, host_name=name)
    return replace(row, evidence=replace(row.evidence, target=target))
