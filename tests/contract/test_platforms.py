"""What a row is called, on every engine: what the probe measured, beside a stand-in for torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support import golden, standins
from support.golden import Spec, by_id, write_case
from support.standins import H200

from harness.settings import Host
from harness.verdict import Overall, Report, Verdict

Environments = golden.LocalEnvironments | golden.DockerEnvironments


def run(environments: Environments, tmp: Path, torch: str, *, claimed: str = "") -> Report:
    """Run the golden case where torch.py is the given text, on a host that claims a platform."""
    write_case(tmp / "case")
    target = environments.target(Spec(files=(*golden.PACKAGE.items(), ("torch.py", torch))))
    target = replace(target, wanted=replace(target.wanted, host=Host(platform=claimed)))
    return golden.run_case(tmp / "case", target, tmp / "out", tmp / "locks")


def test_a_row_for_sm89_on_an_sm90_device_is_a_row_of_sm90(
    environments: Environments, tmp_path: Path
) -> None:
    report = run(environments, tmp_path, standins.torch(H200, cuda="13.0"), claimed="cuda-sm89")
    (row,) = report.rows
    assert (row.platform, row.device) == ("cuda-sm90", "NVIDIA H200")
    assert row.evidence.target.claimed == "cuda-sm89"
    assert report.overall is Overall.CONFIRMED
    assert any("said to be cuda-sm89; cuda-sm90 was measured" in gap for gap in report.gaps)


def test_arms_on_different_devices_are_refused(environments: Environments, tmp_path: Path) -> None:
    another = "devices[0]['uuid'] = __import__('uuid').uuid4()"
    report = run(environments, tmp_path, standins.torch(H200, cuda="13.0", more=another))
    (row,) = report.rows
    (reason,) = row.refused
    assert reason.startswith("device_uuid differs: ")
    assert {node.verdict for node in by_id(report).values()} == {Verdict.INFRA}
    assert report.overall is Overall.INCONCLUSIVE


def test_a_device_that_cannot_be_read_is_no_row_of_a_cpu(
    environments: Environments, tmp_path: Path
) -> None:
    torch = standins.torch(H200, cuda="13.0", properties="raise RuntimeError('lost')")
    (row,) = run(environments, tmp_path, torch).rows
    assert row.platform == "cuda"
    assert row.evidence.patched is not None and row.evidence.patched.record.probe is not None
    assert row.evidence.patched.record.probe.notes == (
        "the device cannot be read: RuntimeError: lost",
    )
