from __future__ import annotations

from dataclasses import replace

import pytest
from support import reports
from support.reports import (
    CASE,
    MARLIN,
    PREP,
    RUN,
    STAGING,
    TRITON,
    cpu_row,
    cuda_row,
    with_arms,
)

from harness import gaps
from harness.case import Case, Signature
from harness.outcome import ArmStatus
from harness.verdict import Row


def of(**changes: object) -> tuple[str, ...]:
    return gaps.find([cpu_row(**changes)])


def with_results(row: Row, **changes: object) -> Row:
    """The row with something changed in both arms' results."""
    before, after = row.evidence.unpatched, row.evidence.patched
    assert before
    assert after
    arms = [
        replace(arm, results=replace(arm.results, **changes))  # type: ignore[arg-type]
        for arm in (before, after)
    ]
    return with_arms(row, unpatched=arms[0], patched=arms[1])


def without_signature_parts(**parts: str) -> Case:
    return replace(CASE, signatures={"unset": Signature(exception="TypeError", **parts)})


def test_reference_case() -> None:
    assert of() == (
        "no CUDA, XPU, ROCm row",
        f"skipped on every row: {PREP} (Marlin is a candidate on CUDA only)",
        "the local engine isolates nothing: the arms run as this user, with this machine's files "
        "and network",
        "one run an arm: says nothing about flakiness",
        "no model-level load",
    )


def test_a_refused_row_measures_no_platform() -> None:
    found = of(refused=("image differs: a and b",))
    assert found[0] == "no CPU, CUDA, XPU, ROCm row"
    assert found[1] == (
        "row refused: example-cpu-0.27.0 with engine local (cpu): image differs: a and b"
    )
    assert not any("flakiness" in gap or "skipped" in gap for gap in found)


def test_a_long_refusal_is_told_in_full_once_and_not_again_here() -> None:
    (found,) = [gap for gap in of(refused=("x" * 100, "y" * 50)) if "refused" in gap]
    assert "x" * 100 in found
    assert "y" not in found.partition("x" * 100)[2].partition("(")[0]
    assert found.endswith("… (the rest stands where the row is refused)")


def test_only_the_platforms_of_the_case_are_missed() -> None:
    assert of(case=replace(CASE, platforms=("cpu",)))[0].startswith("skipped on every row")
    assert of(case=replace(CASE, platforms=("rocm", "cpu")))[0] == "no ROCm row"


def test_an_exact_platform_is_missed_by_its_own_name() -> None:
    case = replace(CASE, platforms=("cpu", "cuda-sm89", "cuda-sm90", "xpu-bmg", "rocm"))
    assert of(case=case)[0] == "no sm89, sm90, bmg, ROCm row"
    assert gaps.find([cuda_row(case=case)])[0] == "no CPU, sm89, bmg, ROCm row"


def test_a_skip_is_no_gap_where_another_row_measured_it() -> None:
    assert not any("skipped" in gap for gap in gaps.find([cpu_row(), cuda_row()]))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"message": "m"}, "the declared failure unset states no place: other failures may fit it"),
        (
            {"at": "a.py:1"},
            "the declared failure unset states no message: other failures may fit it",
        ),
        ({"message_regex": "m", "at": "a.py:1"}, None),
        (
            {},
            "the declared failure unset states no place and no message: other failures may fit it",
        ),
    ],
)
def test_loose_signatures(parts: dict[str, str], expected: str | None) -> None:
    found = [gap for gap in of(case=without_signature_parts(**parts)) if "declared failure" in gap]
    assert found == ([expected] if expected else [])


def test_deselected_node_ids_are_counted_and_named() -> None:
    few = of(run=replace(RUN, deselected=(MARLIN,)))
    assert f"1 node ID deselected with -k: {MARLIN}" in few
    many = of(run=replace(RUN, deselected=tuple(f"t.py::t{n}" for n in range(7))))
    names = ", ".join(f"t.py::t{n}" for n in range(5))
    assert f"7 node IDs deselected with -k: {names} and 2 more" in many


def test_other_tests_of_the_files() -> None:
    others = ("tests/a.py::x", "tests/a.py::y")
    two = gaps.find([with_results(cpu_row(), collected=(MARLIN, PREP, TRITON, *others))])
    assert "2 other tests of the case's files were not run" in two
    one = gaps.find([with_results(cpu_row(), collected=(MARLIN, others[0]))])
    assert "1 other test of the case's files was not run" in one


def test_empty_patch() -> None:
    assert "the patch has no hunks" in of(staging=replace(STAGING, state="empty", hunks=()))


def test_an_image_with_the_fix_is_named() -> None:
    fixed = cpu_row(staging=replace(STAGING, state="already-applied", action="reversed"))
    image = fixed.evidence.target.image
    gap = f"{image} already has the fix; the unpatched arm was made by reversing it"
    assert gap in gaps.find([fixed])
    assert gap in gaps.find([fixed, cuda_row()])
    assert not any("already has the fix" in text for text in gaps.find([cuda_row()]))


def test_timed_out_arm_and_interrupted_run() -> None:
    row = cpu_row(run=replace(RUN, finished=""))
    before = row.evidence.unpatched
    assert before
    record = replace(before.record, status=ArmStatus.TIMED_OUT, reason="stopped at 900 s")
    late = with_arms(row, unpatched=replace(before, record=record))
    found = gaps.find([late])
    assert (
        "unpatched arm timed out: example-cpu-0.27.0 with engine local (cpu): stopped at 900 s"
        in found
    )
    assert f"the run {RUN.run_id} was interrupted: its evidence ends early" in found


def labelled(row: Row, **changes: object) -> Row:
    target = replace(row.evidence.target, **changes)  # type: ignore[arg-type]
    return replace(row, evidence=replace(row.evidence, target=target))


@pytest.mark.parametrize("claimed", ["", "cuda", "cuda-sm90"])
def test_a_label_that_was_measured_is_no_gap(claimed: str) -> None:
    assert not any("was said" in gap for gap in gaps.find([labelled(cuda_row(), claimed=claimed)]))


@pytest.mark.parametrize("claimed", ["cuda-sm89", "xpu", "cpu"])
def test_a_label_is_never_believed(claimed: str) -> None:
    row = labelled(cuda_row(), claimed=claimed, host_name="lab")
    image = row.evidence.target.image
    said = f"{image} on lab was said to be {claimed}; cuda-sm90 was measured"
    assert said in gaps.find([row])


def test_a_moved_tag_is_named_with_both_digests() -> None:
    row = cuda_row()
    arms = [
        replace(
            arm,
            record=replace(
                arm.record,
                image=replace(
                    arm.record.image,
                    pinned="sha256:" + "aa" * 32,
                    registry_digest="sha256:" + "bb" * 32,
                ),
            ),
        )
        for arm in (row.evidence.unpatched, row.evidence.patched)
        if arm
    ]
    moved = with_arms(row, unpatched=arms[0], patched=arms[1])
    (gap,) = [gap for gap in gaps.find([moved]) if "has moved" in gap]
    assert "aa" * 32 in gap
    assert "bb" * 32 in gap
    assert not any("has moved" in gap for gap in gaps.find([row]))


def test_arms_without_evidence() -> None:
    row = cpu_row(refused=("the unpatched arm has no evidence",))
    empty = with_arms(row, unpatched=None, patched=None)
    assert "the image already" not in " ".join(gaps.find([empty]))


def test_several_cases_are_named_and_nothing_is_said_twice() -> None:
    other = replace(CASE, id="example-2", owed=())
    found = gaps.find([cpu_row(), cpu_row(), cuda_row(case=other)])
    assert found[0] == "example-1: no CUDA, XPU, ROCm row"
    assert "example-2: no CPU, XPU, ROCm row" in found
    assert len(set(found)) == len(found)
    assert all(gap.startswith(("example-1: ", "example-2: ")) for gap in found)


def test_no_rows_no_gaps() -> None:
    assert gaps.find([]) == ()
    assert reports.report().gaps == ()
