"""What a run makes of a change: every pair of outcomes has its place."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Role, parse_case
from harness.draft import LIMIT, OWED, Draft, DraftNode, draft
from harness.draft_text import Head, case_text, to_fill_in
from harness.outcome import Outcome
from harness.record import ArmResults, Failure, NodeResult
from harness.split import LeftOut

FILE = "tests/test_x.py"
RED = (Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED)
HEAD = Head(
    id="pkg-1",
    title="",
    package="pkg",
    source="src",
    tests=(FILE,),
    images=("pypi:pkg==1",),
    platform="cuda-sm90",
    origin=" today",
)


def failure(message: str = "unset", *, exception: str = "builtins.TypeError") -> Failure:
    return Failure(exception=exception, message=message, file="pkg/core.py", line=6)


def arm(**outcomes: Outcome | NodeResult) -> ArmResults:
    nodes = {}
    for name, found in outcomes.items():
        node_id = f"{FILE}::{name}"
        if not isinstance(found, NodeResult):
            reason = "no GPU" if found is Outcome.SKIPPED else ""
            why = failure() if found in RED else None
            found = NodeResult(node_id=node_id, outcome=found, failure=why, skip_reason=reason)
        nodes[node_id] = found
    return ArmResults(nodes=nodes, collected=tuple(nodes))


def red(name: str, why: Failure) -> NodeResult:
    return NodeResult(node_id=f"{FILE}::{name}", outcome=Outcome.FAILED, failure=why)


def of_all(before: ArmResults, after: ArmResults) -> Draft:
    return draft(before, after, {FILE: None})


def read(made: Draft, *left_out: LeftOut, head: Head = HEAD):  # type: ignore[no-untyped-def]
    return parse_case(case_text(head, made, left_out), case_id="pkg-1", where="case.toml")


@pytest.mark.parametrize(("before", "after"), list(product(Outcome, Outcome)))
def test_every_pair_of_outcomes_has_its_place(before: Outcome, after: Outcome) -> None:
    made = of_all(arm(a=before), arm(a=after))
    kinds = [len(made.of(Role.FLIP)), len(made.of(Role.CONTROL)), len(made.skipped)]
    passed = after is Outcome.PASSED
    assert kinds == [
        before in RED and passed,
        before is Outcome.PASSED and passed,
        before is after is Outcome.SKIPPED,
    ]
    assert sum(kinds) + len(made.remarks) == 1


def test_the_signature_is_what_was_measured_and_is_shared() -> None:
    other = red("c", failure("other"))
    before = arm(a=Outcome.FAILED, b=Outcome.FAILED, c=other)
    made = of_all(before, arm(a=Outcome.PASSED, b=Outcome.PASSED, c=Outcome.PASSED))
    assert [node.signature for node in made.nodes] == ["type-error", "type-error", "type-error-2"]
    case = read(made)
    signature = case.signatures["type-error"]
    assert (signature.exception, signature.message) == ("TypeError", "unset")
    assert signature.at == "pkg/core.py:6" and not signature.while_loading


def test_a_file_that_cannot_be_loaded_unpatched() -> None:
    why = failure("cannot import name 'new' from 'pkg'", exception="builtins.ImportError")
    before = ArmResults(nodes={}, load_errors={FILE: why})
    after = arm(mine=Outcome.PASSED, others=Outcome.PASSED)
    made = draft(before, after, {FILE: frozenset({"mine"})})
    (node,) = made.nodes
    assert node.id == f"{FILE}::mine" and node.role is Role.FLIP
    assert read(made).signatures["import-error"].while_loading
    assert made.remarks == ("not touched by the change, and left out: 1 test",)


def test_a_file_that_cannot_be_loaded_at_all_names_the_remedy() -> None:
    why = failure("No module named 'trio'", exception="builtins.ModuleNotFoundError")
    broken = ArmResults(nodes={}, load_errors={FILE: why})
    made = of_all(broken, broken)
    (remark,) = made.remarks
    assert not made.nodes and "in both arms" in remark and "pypi:" in remark


def test_a_test_that_the_change_does_not_touch() -> None:
    about = {FILE: frozenset({"mine"})}
    before = arm(mine=Outcome.FAILED, flips=Outcome.FAILED, passes=Outcome.PASSED)
    after = arm(mine=Outcome.PASSED, flips=Outcome.PASSED, passes=Outcome.PASSED)
    made = draft(before, after, about)
    notes = {node.id.partition("::")[2]: node.note for node in made.nodes}
    assert notes.keys() == {"mine", "flips"} and not notes["mine"]
    assert "not changed" in notes["flips"] and "# Its own lines" in case_text(HEAD, made)
    broke = draft(arm(passes=Outcome.PASSED), arm(passes=Outcome.FAILED), about)
    assert "regression" in broke.remarks[0]


def test_a_skip_is_declared_for_the_measured_platform() -> None:
    made = of_all(arm(a=Outcome.SKIPPED), arm(a=Outcome.SKIPPED))
    (node,) = read(made).nodes
    assert node.skip == {"cuda-sm90": "no GPU"}
    assert any("skipped" in line for line in to_fill_in(HEAD, made))


def test_paths_of_this_machine_stay_out() -> None:
    gone = "[Errno 2] No such file or directory: '/home/me/.cache/arms/1/work/tests/x.txt'"
    made = of_all(arm(a=red("a", failure(gone))), arm(a=Outcome.PASSED))
    assert made.signatures["type-error"].message == "[Errno 2] No such file or directory:"
    made = of_all(arm(a=red("a", failure(gone))), arm(a=red("a", failure(gone))))
    assert "/home" not in made.remarks[0] and "x.txt" in made.remarks[0]


def test_a_failure_that_no_case_can_declare_is_a_remark() -> None:
    for name in ("XPASS(strict)", "SIGKILL"):
        made = of_all(arm(a=red("a", failure(exception=name))), arm(a=Outcome.PASSED))
        assert not made.nodes and "no reason that can be declared" in made.remarks[0]


def test_what_is_left_out_is_counted() -> None:
    names = [f"t{n}" for n in range(LIMIT + 3)]
    passing = arm(**dict.fromkeys(names, Outcome.PASSED))
    made = of_all(passing, passing)
    assert len(made.nodes) == LIMIT and made.remarks == (
        "pass in both arms too, and are left out: 3 tests",
    )


def test_the_text_says_what_a_person_has_to_do() -> None:
    made = of_all(arm(a=Outcome.FAILED), arm(a=Outcome.PASSED))
    text = case_text(HEAD, made, [LeftOut(path="docs/x.md", why="documentation")])
    case = read(made)
    assert case.owed == (OWED,) and case.source == "src" and case.platforms == ("cuda",)
    assert case.title == "pkg-1" and "# - docs/x.md: documentation" in text
    assert any("as measured" in line for line in to_fill_in(HEAD, made))


@given(st.text(min_size=1), st.text(), st.text())
def test_no_text_of_a_diff_or_a_test_breaks_the_case(title: str, message: str, why: str) -> None:
    made = of_all(arm(a=red("a", failure(message))), arm(a=Outcome.PASSED))
    made = Draft(
        nodes=(*made.nodes, DraftNode(id=f"{FILE}::b", role=Role.CONTROL, note=why or "x")),
        signatures=made.signatures,
        remarks=(why,),
    )
    head = Head(id="pkg-1", title=title, package="pkg", source="", tests=(FILE,), images=("a",))
    case = read(made, LeftOut(path=why, why=why), head=head)
    assert case.title == title
    assert case.signatures["type-error"].message in message
