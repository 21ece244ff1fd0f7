"""One contract for every engine: repeats, old tests and some of the hunks, run for real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import golden
from support.golden import CONTROL, CORE, FILE, FIXED, FLIP, INIT, TESTS, Spec, by_id, write_case

from harness.drift import DriftNode
from harness.others import Finding
from harness.outcome import Outcome
from harness.plan import BaseTests, Design, sha256
from harness.record import ArmEvidence, ArmSpec, SourceRecord
from harness.verdict import Overall, Report, Row, Verdict

F = Outcome.FAILED
Run = Callable[..., Report]
#: The declared failure, wherever in the file it is raised.
LOOSE = {key: golden.SIGNATURE[key] for key in ("exception", "message")}


@pytest.fixture
def run(environments: golden.LocalEnvironments | golden.DockerEnvironments, tmp_path: Path) -> Run:
    """Runs the case in ``case`` with a design, in an environment with these files."""

    def run(design: Design, spec: Spec = Spec()) -> Report:  # noqa: B008 - frozen
        target = environments.target(spec)
        return golden.run_case(
            tmp_path / "case", target, tmp_path / "out", tmp_path / "locks", design
        )

    return run


def only_row(report: Report) -> Row:
    (row,) = report.rows
    return row


#: Arms share nothing, so a test differs between two of one kind by chance alone. Each of these
#: fails in half of all arms, and with two repeats agrees with itself by chance in a quarter of all
#: runs: that all of them do has a probability of 4 ** -24, below 1 in 10 ** 14.
FLAKY = f"""{TESTS}

@pytest.mark.parametrize("number", range(24))
def test_flaky(number):
    import os

    assert os.urandom(1)[0] % 2
"""


def test_a_flaky_test_is_unstable_and_no_other_is_judged_by_it(run: Run, tmp_path: Path) -> None:
    flaky = [f"{FILE}::test_flaky[{number}]" for number in range(24)]
    write_case(tmp_path / "case", tests={FILE: FLAKY}, controls=(CONTROL, *flaky))
    report = run(Design(repeat=2, aa=True))
    row = only_row(report)
    nodes = {node.node_id: node for node in row.nodes}
    assert nodes[FLIP].verdict is Verdict.FLIP_CONFIRMED
    assert nodes[CONTROL].verdict is Verdict.CONTROL_HELD
    runs = nodes[FLIP].runs
    assert runs and runs.words == ("2:2", "0:2")
    assert row.agreement and not {FLIP, CONTROL} & {*row.agreement.differing}
    unstable = set()
    for node_id in flaky:
        runs = nodes[node_id].runs
        assert runs
        twins = [arm.results.result(node_id).outcome for arm in _arms(row, "aa", "aa-2")]
        differs = len({*runs.unpatched, *twins}) > 1 or len({*runs.patched}) > 1
        assert (nodes[node_id].verdict is Verdict.UNSTABLE) is differs
        assert runs.failed == (runs.unpatched.count(F), runs.patched.count(F))
        unstable |= {node_id} if differs else set()
    assert unstable
    assert report.overall is Overall.NOT_CONFIRMED
    assert row.agreement.comparisons == 2 * 26


def _arms(row: Row, *names: str) -> list[ArmEvidence]:
    return [row.evidence.arms[name] for name in names]


def test_arms_are_interleaved_and_each_is_one_of_its_own(run: Run, tmp_path: Path) -> None:
    write_case(tmp_path / "case")
    report = run(Design(repeat=2, aa=True))
    row = only_row(report)
    assert report.overall is Overall.CONFIRMED
    assert [*row.evidence.arms] == [
        *("unpatched", "aa", "patched"),
        *("unpatched-2", "aa-2", "patched-2"),
    ]
    started = [arm.record.started for arm in row.evidence.arms.values()]
    assert started == sorted(started)
    assert row.agreement
    found = (row.agreement.pairs, row.agreement.comparisons, row.agreement.differing)
    assert found == (2, 4, ())
    assert {arm.record.name for arm in row.evidence.arms.values()} == {*row.evidence.arms}


DRIFTED, ALSO = f"{FILE}::test_drifted", f"{FILE}::test_also_drifted"
OLD = """from minipkg import core


def test_drifted():
    assert core.setting("missing") == "there"


def test_also_drifted():
    assert core.setting("other") == "there"


def test_add():
    assert core.add(1, 2) == 3
"""


def test_an_images_drift_is_told_from_the_patch(run: Run, tmp_path: Path) -> None:
    """A declared and an undeclared test fail alike in all four arms; the flip stays one."""
    new = TESTS + OLD.partition("core\n")[2].partition("\n\ndef test_add")[0]
    write_case(tmp_path / "case", tests={FILE: new}, controls=(CONTROL, DRIFTED))
    old = OLD.encode()
    source = SourceRecord(kind="folder", spec="old", files={FILE: sha256(old)})
    report = run(Design(base=BaseTests(tests={FILE: old}, source=source)))
    row, nodes = only_row(report), by_id(report)
    assert nodes["test_drifted"].verdict is Verdict.DRIFT
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    assert nodes["test_add"].verdict is Verdict.CONTROL_HELD
    assert report.overall is Overall.INCONCLUSIVE
    assert row.drift and row.drift.holds
    assert (row.drift.pre_existing, row.drift.new, row.drift.flipped) == (3, 1, 0)
    assert [_states(node) for node in row.drift.drifted] == [
        (ALSO, F, F, F, F),
        (DRIFTED, F, F, F, F),
    ]
    failures = [node.failure.exception for node in row.drift.drifted if node.failure]
    assert failures == ["KeyError", "KeyError"]
    assert row.others
    assert [(node.node_id, node.finding) for node in row.others.nodes] == [(ALSO, Finding.DRIFT)]


def _states(node: DriftNode) -> tuple[object, ...]:
    return node.node_id, node.base_unpatched, node.base_patched, node.unpatched, node.patched


def test_an_undeclared_drifted_test_leaves_the_claim_confirmed(run: Run, tmp_path: Path) -> None:
    new = TESTS + "\n\ndef test_drifted():\n    assert core.setting('missing')\n"
    write_case(tmp_path / "case", tests={FILE: new})
    old = new.replace("test_unset_factor", "test_of_another_name").encode()
    source = SourceRecord(kind="folder", spec="old", files={FILE: sha256(old)})
    report = run(Design(base=BaseTests(tests={FILE: old}, source=source)))
    row = only_row(report)
    assert report.overall is Overall.CONFIRMED
    assert row.others and [n.finding for n in row.others.nodes] == [Finding.DRIFT]
    # The patch does change an old test: one that the case does not declare under this name.
    assert row.drift and not row.drift.holds
    assert [n.node_id for n in row.drift.changed] == [f"{FILE}::test_of_another_name"]


def test_a_regression_in_an_undeclared_test_is_not_confirmed(run: Run, tmp_path: Path) -> None:
    more = (
        "\n\ndef test_unset_raises():\n    with pytest.raises(TypeError):\n        core.scale([])\n"
    )
    write_case(tmp_path / "case", tests={FILE: TESTS + more})
    report = run(Design(whole_files=True))
    row, nodes = only_row(report), by_id(report)
    assert [node.confirmed for node in nodes.values()] == [True, True]
    assert row.others
    assert [(n.node_id, n.finding) for n in row.others.nodes] == [
        (f"{FILE}::test_unset_raises", Finding.REGRESSION)
    ]
    assert report.overall is Overall.NOT_CONFIRMED


PADDING = "".join(f"\n\ndef padding_{number}():\n    return {number}\n" for number in range(4))
LABEL = '''

def label(value, width=None):
    """Pad a value to a width; an unset one is meant to be 1."""
    if width <= 0:
        raise ValueError("width must be above 0")
    return str(value).rjust(width)
'''
WHOLE = CORE + PADDING + LABEL + PADDING.replace("padding", "more") + "\n\nLAST = 'a'\n"
#: By hunk, which lines become which. Hunk 1 fixes scale and brings UNIT, without which hunk 2
#: breaks label; hunk 3 fixes nothing.
CHANGES = (
    (1, "\n\ndef scale", "\nUNIT = 1\n\n\ndef scale"),
    (1, "    if factor <= 0:", "    factor = factor or UNIT\n    if factor <= 0:"),
    (2, "    if width <= 0:", "    width = {None: UNIT}.get(width, width)\n    if width <= 0:"),
    (3, "LAST = 'a'", "LAST = 'b'"),
)
HUNK_TESTS = f"""{TESTS}

def test_unset_width():
    assert core.label(5) == "5"


def test_width():
    assert core.label(5, 3) == "  5"
"""
NEEDS_BOTH, WIDTH = f"{FILE}::test_unset_width", f"{FILE}::test_width"


def _with(*hunks: int) -> str:
    """The module with some of the hunks."""
    text = WHOLE
    for number, old, new in CHANGES:
        text = text.replace(old, new) if number in hunks else text
    return text


@pytest.mark.parametrize("fixed", [False, True], ids=["lacks the fix", "has the fix"])
def test_which_hunks_a_flip_needs(run: Run, tmp_path: Path, fixed: bool) -> None:
    write_case(
        tmp_path / "case",
        patch=golden.diff(WHOLE, _with(1, 2, 3)),
        tests={FILE: HUNK_TESTS},
        flips=(FLIP, NEEDS_BOTH),
        controls=(CONTROL, WIDTH),
        signature=LOOSE,
    )
    text = _with(1, 2, 3) if fixed else WHOLE
    files = (("minipkg/__init__.py", INIT), ("minipkg/core.py", text))
    report = run(Design(ablate=True), Spec(files=files))
    found = only_row(report).ablation
    assert report.overall is Overall.CONFIRMED
    assert found and found.complete
    assert [s.problem for s in found.subsets] == [""] * 6
    assert [(n.node_id, n.needed, n.alone, n.minimal, n.unknown) for n in found.nodes] == [
        (FLIP, (1,), (1,), ((1,),), ()),
        (NEEDS_BOTH, (1, 2), (), ((1, 2),), ()),
    ]
    assert found.broken == ((WIDTH, (2,)), (WIDTH, (2, 3)))
    assert [(hunk.number, hunk.file) for hunk in found.unneeded] == [(3, "minipkg/core.py")]
    (apart,) = [subset for subset in found.subsets if subset.hunks == (2,)]
    assert apart.failures[WIDTH].exception == "NameError"  # what hunk 1 brings is not there
    lines = WHOLE.splitlines()
    assert [lines[hunk.line - 1] for hunk in found.hunks[1:]] == [
        "    if width <= 0:",
        "LAST = 'a'",
    ]
    states = {spec.name: arm.record.staging for spec, arm in _ablated(report) if arm}
    expected = ("already-applied", "reversed") if fixed else ("clean", "applied")
    assert {(s.state, s.action) for s in states.values() if s} == {expected}
    assert len({s.tree_after for s in states.values() if s}) == 6


#: Seven lines that are there twice, 18 lines apart: the patch changes the second ones.
ALIKE = "".join(f"# alike {number}\n" for number in range(7))
ONCE = f"{CORE}\n\n{ALIKE}" + "".join(f"# between {number}\n" for number in range(11))


def test_a_hunk_that_has_another_place_without_the_others(run: Run, tmp_path: Path) -> None:
    """18 lines more on top of the image's file: where hunk 2 says, there are now the first ones."""
    before = ONCE + ALIKE
    after = ONCE.replace(CORE, FIXED) + ALIKE.replace("alike 3", "changed")
    write_case(tmp_path / "case", patch=golden.diff(before, after), signature=LOOSE)
    text = "".join(f"# new {number}\n" for number in range(18)) + before
    files = (("minipkg/__init__.py", INIT), ("minipkg/core.py", text))
    report = run(Design(ablate=True), Spec(files=files))
    found = only_row(report).ablation
    assert report.overall is Overall.CONFIRMED
    assert found
    assert [(subset.hunks, subset.apart) for subset in found.subsets] == [
        ((1,), True),
        ((2,), False),
    ]
    assert "hunk 2 alone fits at offset +0, with the others at +18" in found.subsets[1].problem
    (node,) = found.nodes
    assert (node.needed, node.alone, node.unknown) == ((), (1,), (1,))
    assert [hunk.number for hunk in found.unneeded] == [2]
    assert "sets of hunks that cannot be applied apart on cpu: 2" in report.gaps


def _ablated(report: Report) -> list[tuple[ArmSpec, ArmEvidence | None]]:
    planned = only_row(report).evidence
    return [(spec, planned.arms.get(spec.name)) for spec in planned.planned if spec.hunks]
