"""Rows of many arms, made by hand: as confirmed until told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.judge import judge_row
from harness.outcome import Arm, Outcome
from harness.patch import parse_patch
from harness.plan import BaseTests, Design, specs
from harness.record import (
    ArmEvidence,
    ArmSpec,
    Failure,
    NodeResult,
    SourceRecord,
    TargetEvidence,
)
from harness.verdict import NodeVerdict, Row, Verdict
from support import reports
from support.reports import CASE, FILE, MARLIN, RED, RUN, TRITON, evidence

F, P = Outcome.FAILED, Outcome.PASSED
NEW = f"{FILE}::test_undeclared"
OTHER_RED = replace(RED, exception="KeyError", message="'group_size'")
THREE = parse_patch(
    b"--- a/example/oracle.py\n+++ b/example/oracle.py\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n"
    b"--- a/example/moe.py\n+++ b/example/moe.py\n@@ -1 +1 @@\n-a\n+b\n",
    where="p",
)
OLD_TESTS = BaseTests(tests={FILE: b""}, source=SourceRecord(kind="folder", spec="old"))
States = Mapping[str, Outcome | Failure]


def usual(spec: ArmSpec) -> States:
    """What the arms of a confirmed row do: the first hunk is all that the flip needs."""
    fixed = spec.arm is Arm.PATCHED or 1 in (spec.hunks or ())
    return {MARLIN: P if fixed else RED, TRITON: P, NEW: P}


def left(spec: ArmSpec, states: States, **changes: object) -> ArmEvidence:
    """An arm in which each node did this; a failure stands for a test that failed so."""
    made = evidence(spec.arm, (), **{"name": spec.name, "hunks": spec.hunks} | changes)  # type: ignore[arg-type]
    nodes = {}
    for node_id, state in states.items():
        outcome, failure = (F, state) if isinstance(state, Failure) else (state, None)
        nodes[node_id] = NodeResult(node_id=node_id, outcome=outcome, failure=failure)
    return replace(made, results=replace(made.results, nodes=nodes, collected=tuple(nodes)))


class Arms:
    """A row's arms as planned, all of them as in a confirmed row until told otherwise."""

    def __init__(self, **design: object) -> None:
        self.design = Design(**design)  # type: ignore[arg-type]
        self.planned = specs(self.design, THREE)
        self.arms = {spec.name: left(spec, usual(spec)) for spec in self.planned}

    def spec(self, name: str) -> ArmSpec:
        """One arm as planned."""
        (spec,) = [spec for spec in self.planned if spec.name == name]
        return spec

    def where(self, *names: str, **changes: object) -> Arms:
        """Change the records of these arms."""
        for name in names:
            spec = self.spec(name)
            self.arms[name] = left(spec, usual(spec), **changes)
        return self

    def does(self, node_id: str, state: Outcome | Failure, *names: str) -> Arms:
        """Let a node do this in these arms, or in all."""
        for name in names or tuple(self.arms):
            arm, spec = self.arms[name], self.spec(name)
            made = left(spec, {node_id: state}).results.nodes
            nodes = arm.results.nodes | made
            self.arms[name] = replace(arm, results=replace(arm.results, nodes=nodes))
        return self

    def row(self) -> Row:
        """The row, judged."""
        run = replace(
            RUN, selected=(MARLIN, TRITON), arms=self.planned, whole_files=self.design.whole
        )
        evidence = TargetEvidence(target=reports.LOCAL, arms=self.arms, planned=self.planned)
        return judge_row(CASE, THREE, run, evidence, folder="x")


def verdicts(row: Row) -> dict[str, Verdict]:
    """The verdict of each declared node."""
    return {node.node_id: node.verdict for node in row.nodes}


def of(row: Row, node_id: str) -> NodeVerdict:
    """What was found for one node."""
    (found,) = [node for node in row.nodes if node.node_id == node_id]
    return found


AS_CLAIMED = {MARLIN: Verdict.FLIP_CONFIRMED, TRITON: Verdict.CONTROL_HELD}
