"""Rule 1: a row whose arms differ in more than the patch is refused, and says in what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import reports
from support.reports import CUDA, CUDA_NODES

from harness.comparable import refusal, sentence
from harness.outcome import Arm, ArmStatus
from harness.record import ArmEvidence, Probe


def arms(before: Probe, after: Probe) -> tuple[ArmEvidence, ArmEvidence]:
    return (
        reports.evidence(Arm.UNPATCHED, CUDA_NODES, engine="docker", probe=before),
        reports.evidence(Arm.PATCHED, CUDA_NODES, engine="docker", probe=after),
    )


def reasons(**changes: object) -> tuple[str, ...]:
    """Why a row is refused whose patched arm measured something else."""
    rejected, found = refusal(*arms(CUDA, replace(CUDA, **changes)))  # type: ignore[arg-type]
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
    assert refusal(*arms(old, old)) == (False, ())


def test_what_is_true_of_both_arms_is_said_once() -> None:
    lost = [
        reports.evidence(
            arm, CUDA_NODES, engine="docker", status=ArmStatus.ENGINE_FAILED, reason="no such host"
        )
        for arm in Arm
    ]
    assert refusal(*lost) == (False, ("both arms engine-failed: no such host",))
    other = replace(lost[1], record=replace(lost[1].record, reason="gone"))
    assert refusal(lost[0], other) == (
        False,
        ("unpatched arm engine-failed: no such host", "patched arm engine-failed: gone"),
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


def test_an_interrupted_arm_is_not_compared() -> None:
    lost = reports.evidence(
        Arm.UNPATCHED, CUDA_NODES, status=ArmStatus.INTERRUPTED, reason="interrupted before its end"
    )
    assert refusal(lost, None) == (
        False,
        (
            "unpatched arm: interrupted before its end",
            "the patched arm has no evidence: the run did not get that far",
        ),
    )
