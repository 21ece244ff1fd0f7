"""A row of which everything was asked: repeats, A/A, hunks, old tests, whole files, upstream."""

from __future__ import annotations

from dataclasses import replace

from harness.ablation import AblatedNode, Ablation, HunkName, Subset
from harness.drift import Drift, DriftNode
from harness.flips import Flip
from harness.others import Finding, OtherNode, Others
from harness.outcome import Arm, ArmStatus, Outcome, Series
from harness.record import PAIR, ArmSpec, Failure, SourceRecord
from harness.repeats import Agreement, Runs
from harness.transfer import Match, Transfer, TransferFile, Why
from harness.verdict import NodeVerdict, Report, Row
from support import reports
from support.reports import CPU_NODES, FILE, IDS, MARLIN, RED, TRITON

F, P, S = Outcome.FAILED, Outcome.PASSED, Outcome.SKIPPED
HUNKS = (
    HunkName(number=1, file="example/oracle.py", line=163),
    HunkName(number=2, file="example/oracle.py", line=190),
    HunkName(number=3, file="example/moe.py", line=41),
)
OLD_RED = Failure(exception="AssertionError", message="1 == 2 | `odd`", file=FILE, line=80)
PLANNED = (
    *PAIR,
    ArmSpec(name="aa", arm=Arm.UNPATCHED, series=Series.AA),
    *(replace(spec, name=f"{spec.name}-2", repeat=2) for spec in PAIR),
    ArmSpec(name="aa-2", arm=Arm.UNPATCHED, series=Series.AA, repeat=2),
    *(replace(spec, name=f"base-{spec.name}", series=Series.BASE) for spec in PAIR),
    ArmSpec(name="hunks-1", arm=Arm.PARTLY, series=Series.ABLATION, hunks=(1,)),
    ArmSpec(name="hunks-2", arm=Arm.PARTLY, series=Series.ABLATION, hunks=(2,)),
)


def subset(*hunks: int, passes: bool, problem: str = "", apart: bool = True) -> Subset:
    """One set of hunks, and whether the flip passes with it."""
    known = not problem
    return Subset(
        hunks=hunks,
        arm=f"hunks-{'+'.join(map(str, hunks))}",
        outcomes={MARLIN: P if passes else F, TRITON: P} if known else {},
        failures={},
        problem=problem,
        apart=apart,
    )


ABLATION = Ablation(
    hunks=HUNKS,
    subsets=(
        subset(1, passes=True),
        subset(
            2, passes=False, problem="cannot be applied apart: hunk 2 finds no place", apart=False
        ),
        subset(3, passes=False),
        subset(1, 2, passes=True),
        subset(1, 3, passes=True),
        subset(2, 3, passes=False),
    ),
    nodes=(AblatedNode(node_id=MARLIN, needed=(1,), alone=(1,), minimal=((1,),), unknown=()),),
    broken=((TRITON, (2, 3)),),
    complete=True,
)
DRIFT = Drift(
    pre_existing=12,
    new=2,
    changed=(),
    drifted=(
        DriftNode(
            node_id=f"{FILE}::test_old",
            base_unpatched=F,
            base_patched=F,
            unpatched=F,
            patched=F,
            failure=OLD_RED,
        ),
    ),
    flipped=1,
)
OTHERS = Others(
    total=14,
    counts={Flip.BOTH_PASS: 11, Flip.BOTH_FAIL: 1, Flip.FIXED: 2},
    nodes=(
        OtherNode(
            node_id=f"{FILE}::test_old",
            finding=Finding.DRIFT,
            unpatched=F,
            patched=F,
            failure=OLD_RED,
            patched_failure=OLD_RED,
        ),
        OtherNode(
            node_id=f"{FILE}::test_more",
            finding=Finding.FLIP,
            unpatched=F,
            patched=P,
            failure=RED,
        ),
    ),
)
TRANSFER = Transfer(
    files=(
        TransferFile(
            path="example/utils/marlin_utils.py",
            why=Why.FAILURE,
            match=Match.IDENTICAL,
            against="main (commit 0123456789ab)",
            blob="5a" * 20,
            upstream_blob="5a" * 20,
            added=0,
            removed=0,
        ),
    ),
    against="main (commit 0123456789ab)",
    sentence="marlin_utils.py: byte-identical with upstream at main (commit 0123456789ab), "
    "so the failure transfers.",
)


def with_runs(
    node: NodeVerdict, before: tuple[Outcome, ...], after: tuple[Outcome, ...]
) -> NodeVerdict:
    """The node with several runs; p-values only where none skipped."""
    failed = (before.count(F), after.count(F))
    known = S not in (*before, *after)
    p = (1 / 3 if failed == (2, 0) else 1.0) if known else None
    p_holm = min(1.0, 2 * p) if p is not None else None
    return replace(
        node, runs=Runs(unpatched=before, patched=after, failed=failed, p=p, p_holm=p_holm)
    )


def everything_row() -> Row:
    """One confirmed row of a CPU with all that can be asked for."""
    nodes = (
        with_runs(CPU_NODES[0], (F, F), (P, P)),
        with_runs(CPU_NODES[1], (S, S), (S, S)),
        with_runs(CPU_NODES[2], (P, P), (P, P)),
    )
    row = reports.cpu_row(nodes)
    evidence = replace(row.evidence, planned=PLANNED)
    more = {}
    for spec in PLANNED[2:]:
        arm = row.evidence.unpatched if spec.arm is Arm.UNPATCHED else row.evidence.patched
        assert arm is not None
        more[spec.name] = replace(arm, record=replace(arm.record, name=spec.name, arm=spec.arm))
    lost = more["hunks-2"]
    more["hunks-2"] = replace(
        lost,
        record=replace(
            lost.record, status=ArmStatus.PATCH_REJECTED, reason="hunk 2 finds no place", files={}
        ),
    )
    del more["aa-2"]
    row = replace(row, evidence=replace(evidence, arms={**row.evidence.arms, **more}))
    git = SourceRecord(
        kind="git", spec="example@main~1", revision="9f" * 20, files={FILE: "aa" * 32}
    )
    return replace(
        row,
        run=replace(row.run, arms=PLANNED, whole_files=True, base_tests=git, selected=IDS),
        ablation=ABLATION,
        drift=DRIFT,
        agreement=Agreement(pairs=2, comparisons=6, differing=()),
        others=OTHERS,
        transfer=TRANSFER,
    )


def everything() -> Report:
    """The report of that row."""
    return reports.report(everything_row())
