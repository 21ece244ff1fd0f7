"""Rule 1: a row whose arms differ in more than the patch is refused, and says in what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import reports
from support.reports import CUDA, CUDA_NODES

from harness.comparable import refusal, sentence
from harness.outcome import Arm, ArmStatus, Series
from harness.record import PAIR, ArmEvidence, ArmSpec, Probe, Seal

UNPATCHED, PATCHED = PAIR
AGAIN = ArmSpec(name="unpatched-2", arm=Arm.UNPATCHED, repeat=2)
PATCHED_AGAIN = ArmSpec(name="patched-2", arm=Arm.PATCHED, repeat=2)
SOME = ArmSpec(name="hunks-1", arm=Arm.PARTLY, series=Series.ABLATION, hunks=(1,))
Told = tuple[ArmSpec, ArmEvidence]
PROBE_OTHER = replace(CUDA, kernel="6.2")


def told(spec: ArmSpec, probe: Probe = CUDA, **changes: object) -> Told:
    """An arm and what it left, which is as planned unless told otherwise."""
    own: dict[str, object] = {"name": spec.name, "hunks": spec.hunks}
    made = reports.evidence(spec.arm, CUDA_NODES, engine="docker", probe=probe, **(own | changes))  # type: ignore[arg-type]
    return spec, made


def arms(before: Probe, after: Probe) -> tuple[Told, Told]:
    return told(UNPATCHED, before), told(PATCHED, after)


def reasons(**changes: object) -> tuple[str, ...]:
    """Why a row is refused whose patched arm measured something else."""
    rejected, found = refusal(arms(CUDA, replace(CUDA, **changes)))  # type: ignore[arg-type]
    assert not rejected
    return found


def test_arms_that_measured_the_same_are_compared() -> None:
    assert reasons() == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"platform": "cuda-sm89"}, "platform differs: cuda-sm90 and cuda-sm89"),
        ({"device": "NVIDIA L40S"}, "device differs: NVIDIA H200 and NVIDIA L40S"),
        ({"device_uuid": "GPU-1"}, f"device_uuid differs: {CUDA.device_uuid} and GPU-1"),
        ({"devices": 1}, "devices differs: 2 and 1"),
        ({"machine": "aarch64"}, "machine differs: x86_64 and aarch64"),
        ({"kernel": "6.2"}, "kernel differs: 6.1.0-test and 6.2"),
        ({"libc": "musl"}, "libc differs: glibc 2.36 and musl"),
        ({"python": "3.12.1"}, "python differs: 3.11.2 and 3.12.1"),
        (
            {"package_version": "example 1"},
            "package_version differs: example-cpu 0.27.0 and example 1",
        ),
        ({"package_commit": "fff"}, "package_commit differs: 0123abc456 and fff"),
        ({"distributions_sha256": "x"}, f"distributions_sha256 differs: {'d1' * 32} and x"),
        ({"environment": {"A": "1"}}, "environment variable A differs:  and 1"),
    ],
)
def test_a_difference_refuses_the_row(changes: dict[str, object], reason: str) -> None:
    assert reasons(**changes) == (reason,)


def test_hardware_and_versions_are_named_one_by_one() -> None:
    hardware = {"driver": "580.00.01", "VBIOS": "00.11.22.33.44"}
    assert reasons(hardware=hardware, versions={**CUDA.versions, "triton": "3.6"}) == (
        "hardware ECC differs: on and ",
        "hardware driver differs: 580.00.00 and 580.00.01",
        "version of triton differs: 3.7.1 and 3.6",
    )


def test_readings_and_notes_may_differ() -> None:
    assert reasons(readings={"SM clock": "1980 MHz"}, notes=("a note",)) == ()


def test_evidence_from_before_a_measurement_was_made_is_compared_as_it_was() -> None:
    old = replace(
        CUDA, device_uuid="", devices=0, hardware={}, readings={}, package_commit="", notes=()
    )
    assert refusal(arms(old, old)) == (False, ())


def lost(spec: ArmSpec, reason: str = "no such host") -> Told:
    return told(spec, status=ArmStatus.ENGINE_FAILED, reason=reason)


def test_what_is_true_of_both_arms_is_said_once() -> None:
    both = [lost(UNPATCHED), lost(PATCHED)]
    assert refusal(both) == (False, ("both arms: engine-failed: no such host",))
    assert refusal([lost(UNPATCHED), lost(PATCHED, "gone")]) == (
        False,
        ("unpatched arm: engine-failed: no such host", "patched arm: engine-failed: gone"),
    )


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ("1111", "all 4 arms: engine-failed: no such host"),
        ("0001", "patched-2 arm: engine-failed: no such host"),
        ("0101", "arms patched, patched-2: engine-failed: no such host"),
        ("1101", "arms unpatched, patched, patched-2: engine-failed: no such host"),
    ],
)
def test_which_arms_of_many_a_reason_is_true_of(failed: str, reason: str) -> None:
    specs = (UNPATCHED, PATCHED, AGAIN, PATCHED_AGAIN)
    made = [lost(s) if bad == "1" else told(s) for s, bad in zip(specs, failed, strict=True)]
    assert refusal(made) == (False, (reason,))


def test_of_many_arms_three_are_named() -> None:
    specs = [replace(AGAIN, name=f"unpatched-{n}", repeat=n) for n in range(2, 8)]
    made = [told(UNPATCHED), *(lost(spec) for spec in specs)]
    assert refusal(made) == (
        False,
        ("arms unpatched-2, unpatched-3, unpatched-4 and 3 more: engine-failed: no such host",),
    )


def test_a_repeat_that_measured_something_else_is_named() -> None:
    made = [told(UNPATCHED), told(PATCHED), told(AGAIN), told(PATCHED_AGAIN, PROBE_OTHER)]
    assert refusal(made) == (False, ("patched-2 arm: kernel differs: 6.1.0-test and 6.2",))


def test_each_arm_is_compared_with_the_first_or_with_the_given_one() -> None:
    first, odd = told(UNPATCHED), told(AGAIN, PROBE_OTHER)
    assert refusal([odd]) == (False, ())
    assert refusal([odd], like=first[1]) == (
        False,
        ("unpatched-2 arm: kernel differs: 6.1.0-test and 6.2",),
    )
    assert refusal([told(AGAIN)], like=first[1]) == (False, ())


def collected(spec: ArmSpec, *ids: str) -> Told:
    """An arm that collected just these, and of which no result is known."""
    _, arm = told(spec)
    return spec, replace(arm, results=replace(arm.results, nodes={}, collected=ids))


def test_other_test_files_are_allowed_where_that_is_asked_for() -> None:
    _, first = collected(UNPATCHED, "a", "b")
    _, fewer = collected(AGAIN, "b")
    old = replace(fewer, record=replace(fewer.record, tests_sha256="0d" * 32))
    assert refusal([(AGAIN, old)], like=first, same_tests=False) == (False, ())
    assert refusal([(AGAIN, old)], like=first)[1] == (
        f"unpatched-2 arm: test files differs:  and {'0d' * 32}",
        "unpatched-2 arm: collected in one arm only: a",
    )


def test_undeclared_tests_of_one_arm_only_and_another_order_refuse_the_row() -> None:
    assert refusal([collected(UNPATCHED, "a", "b"), collected(PATCHED, "a", "b")]) == (False, ())
    assert refusal([collected(UNPATCHED, "a", "b"), collected(PATCHED, "b")]) == (
        False,
        ("collected in one arm only: a",),
    )
    assert refusal([collected(UNPATCHED, "a", "b"), collected(PATCHED, "b", "a")]) == (
        False,
        ("the tests were collected in another order",),
    )


@pytest.mark.parametrize(
    ("spec", "state", "action", "changed", "reason"),
    [
        (UNPATCHED, "clean", "none", False, None),
        (UNPATCHED, "already-applied", "reversed", True, None),
        (PATCHED, "clean", "applied", True, None),
        (PATCHED, "offset", "applied", True, None),
        (PATCHED, "already-applied", "none", False, None),
        (PATCHED, "empty", "none", False, None),
        (SOME, "clean", "applied", True, None),
        (SOME, "offset", "applied", True, None),
        (SOME, "already-applied", "reversed", True, None),
        (UNPATCHED, "clean", "applied", True, "the patch was applied, which does not fit clean"),
        (SOME, "clean", "none", False, "the patch was none, which does not fit clean"),
        (
            SOME,
            "already-applied",
            "none",
            False,
            "the patch was none, which does not fit already-applied",
        ),
        (PATCHED, "strange", "applied", True, "the patch was applied, which does not fit strange"),
        (SOME, "clean", "applied", False, "the package's files do not show that the patch was "),
        (UNPATCHED, "clean", "none", True, "the package's files do not show that the patch was "),
    ],
)
def test_an_arm_must_show_that_it_did_its_part(
    spec: ArmSpec, state: str, action: str, changed: bool, reason: str | None
) -> None:
    staging = replace(
        reports.STAGING, state=state, action=action, tree_after=("8f" if changed else "7e") * 32
    )
    _, made = told(spec)
    made = replace(made, record=replace(made.record, staging=staging))
    rejected, found = refusal([(spec, made)])
    assert not rejected
    assert len(found) == (reason is not None)
    assert not reason or reason in found[0]


def test_a_record_of_another_arm_is_not_taken_for_this_one() -> None:
    _, other = told(replace(SOME, name="hunks-2", hunks=(2,)))
    assert refusal([(SOME, other)]) == (
        False,
        ("hunks-1 arm: its record is of the hunks-2 arm",),
    )
    _, same_name = told(SOME, hunks=(1, 2))
    assert refusal([(SOME, same_name)])[1] == ("hunks-1 arm: its record is of the hunks-1 arm",)


def test_a_rejected_patch_is_told_apart_from_everything_else() -> None:
    def rejected(spec: ArmSpec) -> Told:
        return told(spec, status=ArmStatus.PATCH_REJECTED, reason="hunk 1 fails.\n  Look.")

    said = "patch rejected: hunk 1 fails. Look"
    assert refusal([rejected(UNPATCHED), rejected(PATCHED)]) == (True, (said,))
    assert refusal([told(UNPATCHED), rejected(PATCHED)]) == (True, (said,))
    assert refusal([lost(UNPATCHED), rejected(PATCHED)]) == (
        False,
        ("unpatched arm: engine-failed: no such host", said),
    )


def test_an_unsealed_arm_and_one_that_changed_files_say_nothing() -> None:
    assert refusal([told(UNPATCHED, seal=None), told(PATCHED, seal=Seal(changed=("a: changed",)))])[
        1
    ] == (
        "unpatched arm: its files could not be checked after the tests",
        "patched arm: files changed while the tests ran: a: changed",
    )


def test_an_interrupted_arm_is_not_compared() -> None:
    cut = told(UNPATCHED, status=ArmStatus.INTERRUPTED, reason="interrupted before its end")
    assert refusal([cut, (PATCHED, None)]) == (
        False,
        (
            "unpatched arm: interrupted before its end",
            "patched arm: no evidence: the run did not get that far",
        ),
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("refused)\n  Check the host.", "refused). Check the host"),
        ("It is gone.\n  Wait 2 minutes.", "It is gone. Wait 2 minutes"),
        ("two\nlines\n  A remedy", "two lines. A remedy"),
        ("alone", "alone"),
        ("", ""),
    ],
)
def test_a_problem_and_its_remedy_are_two_sentences(reason: str, expected: str) -> None:
    assert sentence(reason) == expected
