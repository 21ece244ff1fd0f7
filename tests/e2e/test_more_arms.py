"""Repeats, A/A, hunks, old tests and whole files, as a user asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.gitrepos import git, repository
from support.golden import CONTROL, CORE, FILE, FIXED, FLIP, TESTS, diff, write_case

from .conftest import Cli

FLAKY = f"{FILE}::test_flaky"
DRIFTED = f"{FILE}::test_drifted"
#: Fails in the third arm that runs it, whatever is in the arm.
COUNTING = f"""{TESTS}

def test_flaky():
    import os
    from pathlib import Path

    counter = Path(os.environ["COUNTER"])
    counter.write_text((counter.read_text() if counter.exists() else "") + "x")
    assert len(counter.read_text()) != 3
"""
DRIFTING = f"""{TESTS}

def test_drifted():
    assert core.setting("missing") == "there"
"""

#: What the fix breaks, and the case does not name.
STRICT = """

def test_that_unset_raises():
    with pytest.raises(TypeError):
        core.scale([1])
"""


@pytest.fixture
def ab(cli: Cli) -> Any:
    def run(*more: str, code: int) -> dict[str, Any]:
        return cli.json("ab", "it", "--python", str(cli.python), *more, code=code)

    return run


def by_id(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["node_id"]: node for node in document["nodes"]}


def test_repeats_and_a_a(cli: Cli, ab: Any) -> None:
    write_case(cli.cwd / "cases" / "it")
    document = ab("--repeat", "3", "--aa", code=0)
    flip = by_id(document)[FLIP]
    assert flip["runs"]["failed"] == [3, 0]
    assert flip["runs"]["p"] == pytest.approx(0.1)
    assert flip["runs"]["p_holm"] == pytest.approx(0.2)
    (row,) = document["rows"]
    assert row["repeats"] == 3
    assert (row["a_a"]["pairs"], row["a_a"]["comparisons"], row["a_a"]["differing"]) == (3, 6, [])
    assert list(row["provenance"]["arms"]) == [
        *("unpatched", "aa", "patched"),
        *("unpatched-2", "aa-2", "patched-2"),
        *("unpatched-3", "aa-3", "patched-3"),
    ]
    started = [arm["started"] for arm in row["provenance"]["arms"].values()]
    assert started == sorted(started)
    assert any("too few to prove anything" in gap for gap in document["gaps"])
    assert not any("one run an arm" in gap for gap in document["gaps"])
    again = cli("table", "reports", "--json")
    assert json.loads(again.stdout) == document


def test_a_flaky_test_is_unstable_and_alone_in_it(cli: Cli, ab: Any, tmp_path: Path) -> None:
    write_case(
        cli.cwd / "cases" / "it",
        tests={FILE: COUNTING},
        controls=(CONTROL, FLAKY),
        extra=f"env = {{ COUNTER = {json.dumps(str(tmp_path / 'counter'))} }}",
    )
    document = ab("--repeat", "3", code=1)
    assert {node: found["verdict"] for node, found in by_id(document).items()} == {
        FLIP: "flip-confirmed",
        CONTROL: "control-held",
        FLAKY: "unstable",
    }
    flaky = by_id(document)[FLAKY]
    assert flaky["runs"]["failed"] == [1, 0]
    assert "passed in 2 of 3 runs, failed in 1 of 3 runs" in flaky["reason"]
    text = cli("table", "reports").stdout
    assert "`1:3` | `0:3` |" in text


def test_which_hunks_a_flip_needs(cli: Cli, ab: Any) -> None:
    (site,) = cli.python.parent.parent.glob("lib/python3*/site-packages/minipkg")
    patch = diff(CORE, FIXED) + diff(
        '"""A package with a bug, for the golden cases."""\n',
        '"""A package without one."""\n',
        path="minipkg/__init__.py",
    )
    assert (site / "core.py").read_text() == CORE
    write_case(cli.cwd / "cases" / "it", patch=patch)
    document = ab("--ablate", code=0)
    (row,) = document["rows"]
    assert row["ablation"]["complete"]
    assert [hunk["file"] for hunk in row["ablation"]["hunks"]] == [
        "minipkg/core.py",
        "minipkg/__init__.py",
    ]
    (node,) = row["ablation"]["nodes"]
    assert (node["needed"], node["alone"], node["minimal"]) == ([1], [1], [[1]])
    assert row["ablation"]["unneeded"] == [2]
    assert (
        "no flip that was measured needs hunk 2 of the patch (minipkg/__init__.py:1)"
        in (document["gaps"])
    )


def test_one_hunk_cannot_be_left_out(cli: Cli) -> None:
    write_case(cli.cwd / "cases" / "it")
    done = cli("ab", "it", "--python", str(cli.python), "--ablate")
    assert done.returncode == 0
    assert "the patch of it has one hunk: none to leave out" in done.stderr
    assert "Hunks:" not in done.stdout


def test_old_tests_tell_drift_from_the_patch(cli: Cli, ab: Any, tmp_path: Path) -> None:
    old = DRIFTING.replace("def test_unset_factor", "def test_old_name")
    repo = repository(tmp_path / "repo", {FILE: old, "README": "x"}, {FILE: "broken("})
    write_case(cli.cwd / "cases" / "it", tests={FILE: DRIFTING}, controls=(CONTROL, DRIFTED))
    document = ab("--base-tests", f"{repo}@main~1", code=3)
    assert {node: found["verdict"] for node, found in by_id(document).items()} == {
        FLIP: "flip-confirmed",
        CONTROL: "control-held",
        DRIFTED: "drift",
    }
    (row,) = document["rows"]
    found = row["old_tests"]
    assert (found["pre_existing"], found["new"]) == (3, 1)
    assert [node["node_id"] for node in found["drifted"]] == [DRIFTED]
    # The old name of the flip is a pre-existing test that the patch turns green.
    assert [node["node_id"] for node in found["changed"]] == [f"{FILE}::test_old_name"]
    source = row["provenance"]["run"]["base_tests"]
    assert source["revision"] == git(repo, "rev-parse", "main~1")
    assert set(source["files"]) == {FILE}
    assert (repo / FILE).read_text() == "broken("
    assert git(repo, "status", "--porcelain") == ""
    (run,) = (cli.cwd / "reports" / "it").iterdir()
    assert (run / "base" / FILE).read_text() == old


def test_no_pre_existing_test_changes_state(cli: Cli, ab: Any, tmp_path: Path) -> None:
    old = TESTS.partition("def test_unset_factor")[0] + "def test_add():\n    assert True\n"
    folder = tmp_path / "old"
    (folder / FILE).parent.mkdir(parents=True)
    (folder / FILE).write_text(old)
    write_case(cli.cwd / "cases" / "it")
    document = ab("--base-tests", str(folder), code=0)
    (row,) = document["rows"]
    assert row["old_tests"]["pre_existing"] == 1
    assert row["old_tests"]["changed"] == []
    text = cli("table", "reports").stdout
    assert "no pre-existing test changes state (1 old test checked, 1 new)" in text


def test_the_old_tests_must_be_there(cli: Cli, tmp_path: Path) -> None:
    write_case(cli.cwd / "cases" / "it")
    (tmp_path / "empty").mkdir()
    for given, words in (
        (str(tmp_path / "empty"), "has none of the case's tests"),
        (str(tmp_path / "nowhere"), "is no folder"),
    ):
        done = cli("ab", "it", "--python", str(cli.python), "--base-tests", given)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr
    assert not (cli.cwd / "reports").exists()


def test_whole_files_find_what_the_patch_breaks(cli: Cli, ab: Any) -> None:
    tests = {FILE: f"{TESTS}{STRICT}", "tests/test_other.py": "def test_it(): pass\n"}
    write_case(cli.cwd / "cases" / "it", tests=tests)
    plain = ab(code=0)
    assert "1 other test of the case's files was not run" in plain["gaps"]
    document = ab("--whole-files", code=1)
    (row,) = document["rows"]
    assert row["undeclared"]["total"] == 2
    (broke,) = row["undeclared"]["nodes"]
    assert broke["node_id"] == f"{FILE}::test_that_unset_raises"
    assert (broke["finding"], broke["unpatched"], broke["patched"]) == (
        "regression",
        "passed",
        "failed",
    )
    assert {node["verdict"] for node in document["nodes"]} == {"flip-confirmed", "control-held"}
    assert not any("not run" in gap for gap in document["gaps"])


def test_a_number_of_repeats_that_cannot_be(cli: Cli) -> None:
    write_case(cli.cwd / "cases" / "it")
    for number in ("0", "-1", "many"):
        done = cli("ab", "it", "--python", str(cli.python), "--repeat", number)
        assert done.returncode == 2
        assert "--repeat" in done.stderr


def test_a_rejected_patch_is_not_tried_again(cli: Cli, ab: Any) -> None:
    write_case(cli.cwd / "cases" / "it", patch=diff(CORE.replace("Multiply", "Divide"), FIXED))
    document = ab("--repeat", "4", "--ablate", code=3)
    (row,) = document["rows"]
    arms = row["provenance"]["arms"]
    assert arms["patched"]["status"] == "patch-rejected"
    assert {arms[name]["started"] for name in arms if name not in ("unpatched", "patched")} == {""}
    assert {node["verdict"] for node in document["nodes"]} == {"inconclusive"}
