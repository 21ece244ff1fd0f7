"""Reports made by hand for tests. Every digest, host and device in them is invented."""

from __future__ import annotations

from dataclasses import replace

from harness import gaps
from harness.case import Case, Node, Role, Signature
from harness.outcome import Arm, ArmStatus, Outcome
from harness.record import (
    PAIR,
    ArmEvidence,
    ArmRecord,
    ArmResults,
    Failure,
    HunkResult,
    ImageIdentity,
    NodeResult,
    Probe,
    RunRecord,
    Seal,
    Staging,
    TargetEvidence,
    TargetRecord,
)
from harness.verdict import NodeVerdict, Report, Row, Verdict, overall

FILE = "tests/quantization/test_example.py"
MARLIN = f"{FILE}::test_oracle[MARLIN]"
PREP = f"{FILE}::test_prep"
TRITON = f"{FILE}::test_oracle[TRITON]"
IDS = (MARLIN, PREP, TRITON)
MESSAGE = "'<=' not supported between instances of 'NoneType' and 'int'"
RED = Failure(
    exception="TypeError",
    message=MESSAGE,
    file="example/utils/marlin_utils.py",
    line=378,
    frames=(f"{FILE}:12", "example/oracle.py:163", "example/utils/marlin_utils.py:378"),
)
SKIP = "Marlin is a candidate on CUDA only"
HUNKS = tuple(
    HunkResult(file=file, number=number, offset=offset)
    for file, number, offset in (
        ("example/oracle.py", 1, 0),
        ("example/oracle.py", 2, 0),
        ("example/moe.py", 1, 0),
    )
)
CASE = Case(
    id="example-1",
    schema=1,
    title="An unset group_size reaches <= in the oracle",
    package="example",
    patch="fix.patch",
    tests=("tests",),
    nodes=(
        Node(id=MARLIN, role=Role.FLIP, signature="unset"),
        Node(id=PREP, role=Role.FLIP, signature="unset", skip={"cpu": SKIP}),
        Node(id=TRITON, role=Role.CONTROL),
    ),
    images=("*",),
    signatures={
        "unset": Signature(exception="TypeError", message=MESSAGE, at="marlin_utils.py:378")
    },
    links=("https://example.invalid/pull/1",),
    owed=("no model-level load",),
)
PROBE = Probe(
    platform="cpu",
    device="Test Processor(R) 8481C @ 2.70GHz",
    python="3.11.2",
    executable="/opt/venv/bin/python",
    machine="x86_64",
    kernel="6.1.0-test",
    libc="glibc 2.36",
    package_version="example-cpu 0.27.0",
    package_path="/opt/venv/lib/python3.11/site-packages/example",
    pytest="9.2.0",
    patch="GNU patch 2.7.6",
    distributions=55,
    distributions_sha256="d1" * 32,
    versions={"torch": "2.13.0+cpu"},
)
CUDA = replace(
    PROBE,
    platform="cuda-sm90",
    device="NVIDIA H200",
    device_uuid="GPU-00112233-4455-6677-8899-aabbccddeeff",
    devices=2,
    hardware={"driver": "580.00.00", "VBIOS": "00.11.22.33.44", "ECC": "on"},
    readings={"SM clock": "345 MHz", "temperature": "31 °C"},
    package_commit="0123abc456",
    versions={"torch": "2.13.0+cu130", "triton": "3.7.1", "cuda": "13.0"},
)
STAGING = Staging(
    state="clean",
    action="none",
    tool="GNU patch 2.7.6",
    copied=True,
    package_path="$ARM/site/example",
    tree_before="7e" * 32,
    tree_after="7e" * 32,
    hunks=HUNKS,
)
RUN = RunRecord(
    schema=1,
    run_id="20260102T030405Z-0a1b2c",
    harness="0.1.0",
    command=("harness", "ab", "example-1", "--image", "example-cpu-0.27.0"),
    started="2026-01-02T03:04:05+00:00",
    finished="2026-01-02T03:05:06+00:00",
    case_id="example-1",
    patch_sha256="c0" * 32,
    tests_sha256={FILE: "77" * 32},
    case_sha256="ca" * 32,
    selected=IDS,
    deselected=(),
    targets=(),
)
LOCAL = TargetRecord(
    slug="local-example",
    image="example-cpu-0.27.0",
    engine="local",
    engine_note="no isolation: the arms run as this user, with this machine's files and network",
    host="test-host",
)
DOCKER = TargetRecord(
    slug="docker-example",
    image="example/example:v0.27.0",
    engine="docker",
    engine_note="a container without network and capabilities, nothing of the host in it",
    host="gpu-test-host",
)
IMAGES = {
    "local": ImageIdentity(
        name="example-cpu-0.27.0",
        digest="sha256:" + "1f" * 32,
        note="55 distributions from a lock, no container",
    ),
    "docker": ImageIdentity(
        name="example/example:v0.27.0",
        digest="sha256:" + "9b" * 32,
        note="example/example@sha256:" + "07" * 32,
    ),
}


def verdict(node_id: str, found: Verdict, **changes: object) -> NodeVerdict:
    """A node's verdict, as judge.py words the common ones."""
    flip = NodeVerdict(
        node_id=node_id,
        role=Role.FLIP,
        unpatched=Outcome.FAILED,
        patched=Outcome.PASSED,
        verdict=found,
        confirmed=found is Verdict.FLIP_CONFIRMED,
        reason=f"unpatched it failed with TypeError: {MESSAGE} at {RED.place}",
        failure=RED,
    )
    if found is Verdict.CONTROL_HELD:
        flip = replace(
            flip,
            role=Role.CONTROL,
            unpatched=Outcome.PASSED,
            confirmed=True,
            failure=None,
            reason="passes in both arms",
        )
    if found is Verdict.SKIPPED:
        flip = replace(
            flip,
            unpatched=Outcome.SKIPPED,
            patched=Outcome.SKIPPED,
            confirmed=True,
            failure=None,
            reason=SKIP,
            skip_reason=SKIP,
        )
    return replace(flip, **changes)  # type: ignore[arg-type]


def evidence(
    arm: Arm,
    nodes: tuple[NodeVerdict, ...],
    *,
    engine: str = "local",
    probe: Probe = PROBE,
    staging: Staging = STAGING,
    **changes: object,
) -> ArmEvidence:
    """One arm whose results are those of the node verdicts."""
    before = arm is Arm.UNPATCHED
    results = {
        node.node_id: NodeResult(
            node_id=node.node_id, outcome=node.unpatched if before else node.patched
        )
        for node in nodes
    }
    record = ArmRecord(
        arm=arm,
        name=arm,
        status=ArmStatus.RAN,
        engine=engine,
        image=IMAGES[engine],
        started="2026-01-02T03:04:06+00:00" if before else "2026-01-02T03:04:30+00:00",
        duration=16.25 if before else 15.5,
        command=("pytest", "--rootdir=$ARM/work", FILE),
        exit_code=1 if before else 0,
        environment_sha256="e1" * 32,
        files={
            "junit.xml": ("a1" if before else "b1") * 32,
            "output.log": ("a2" if before else "b2") * 32,
        },
        probe=probe,
        staging=staging if before else replace(staging, action="applied", tree_after="8f" * 32),
        seal=Seal(),
    )
    return ArmEvidence(
        record=replace(record, **changes),  # type: ignore[arg-type]
        results=ArmResults(nodes=results, collected=tuple(results)),
    )


def row(
    nodes: tuple[NodeVerdict, ...],
    *,
    engine: str = "local",
    probe: Probe = PROBE,
    staging: Staging = STAGING,
    case: Case = CASE,
    run: RunRecord = RUN,
    **changes: object,
) -> Row:
    """One row of the table."""
    before, after = (
        evidence(spec.arm, nodes, engine=engine, probe=probe, staging=staging) for spec in PAIR
    )
    ids = [node.node_id for node in nodes]
    made = Row(
        case=case,
        run=replace(run, case_id=case.id, selected=tuple(ids)),
        folder=f"reports/{case.id}/{run.run_id}",
        platform=probe.platform,
        device=probe.device,
        evidence=TargetEvidence(
            target=LOCAL if engine == "local" else DOCKER,
            arms={"unpatched": before, "patched": after},
        ),
        nodes=nodes,
        unpatched=before.results.counts(ids),
        patched=after.results.counts(ids),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def with_arms(row: Row, **arms: ArmEvidence | None) -> Row:
    """The row with other arms, by name; None takes one away."""
    found = {name: arm for name, arm in (row.evidence.arms | arms).items() if arm is not None}
    return replace(row, evidence=replace(row.evidence, arms=found))


def report(*rows: Row) -> Report:
    """The report of some rows, as the workflow makes it."""
    return Report(overall=overall(rows), rows=rows, gaps=gaps.find(rows))


CPU_NODES = (
    verdict(MARLIN, Verdict.FLIP_CONFIRMED),
    verdict(PREP, Verdict.SKIPPED),
    verdict(TRITON, Verdict.CONTROL_HELD),
)
CUDA_NODES = (
    verdict(MARLIN, Verdict.FLIP_CONFIRMED),
    verdict(PREP, Verdict.FLIP_CONFIRMED),
    verdict(TRITON, Verdict.CONTROL_HELD),
)


def cpu_row(nodes: tuple[NodeVerdict, ...] = CPU_NODES, **changes: object) -> Row:
    """A row on a CPU, with the local engine; confirmed unless told otherwise."""
    return row(nodes, **changes)  # type: ignore[arg-type]


def cuda_row(nodes: tuple[NodeVerdict, ...] = CUDA_NODES, **changes: object) -> Row:
    """A row on a GPU, in Docker; confirmed unless told otherwise."""
    command = ("harness", "ab", "--image", "example/example:v0.27.0")
    hunks = (*HUNKS[:2], replace(HUNKS[2], offset=4))
    own: dict[str, object] = {
        "engine": "docker",
        "probe": CUDA,
        "staging": replace(STAGING, state="offset", hunks=hunks),
        "run": replace(RUN, run_id="20260103T030405Z-3d4e5f", command=command),
    }
    return row(nodes, **(own | changes))  # type: ignore[arg-type]


def confirmed() -> Report:
    """Confirmed on a CPU and on a GPU."""
    return report(cpu_row(), cuda_row())


def not_confirmed() -> Report:
    """A wrong red, a regression and a skip that nobody declared."""
    wrong = replace(RED, exception="KeyError", message="'group_size'", line=12)
    nodes = (
        verdict(
            MARLIN,
            Verdict.WRONG_RED,
            failure=wrong,
            reason="raised KeyError, declared TypeError",
        ),
        verdict(
            PREP,
            Verdict.UNEXPECTED_SKIP,
            unpatched=Outcome.SKIPPED,
            patched=Outcome.SKIPPED,
            failure=None,
            confirmed=False,
            skip_reason="no GPU",
            reason="skipped for another reason than declared: 'no GPU'",
        ),
        verdict(
            TRITON,
            Verdict.REGRESSION,
            role=Role.CONTROL,
            unpatched=Outcome.PASSED,
            patched=Outcome.FAILED,
            failure=None,
            patched_failure=RED,
            reason=f"passes unpatched, then failed with TypeError: {MESSAGE} at {RED.place}",
        ),
    )
    return report(cpu_row(nodes))


def refused() -> Report:
    """One confirmed row, and one whose arms had different images."""
    reason = "image differs: sha256:aa and sha256:bb"
    nodes = tuple(
        replace(node, verdict=Verdict.INFRA, confirmed=False, reason=reason) for node in CUDA_NODES
    )
    return report(cpu_row(), cuda_row(nodes, refused=(reason,)))
