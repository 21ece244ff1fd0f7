"""``pytest cases``: items, selection, sharing of one run, readable reasons."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.golden import TESTS, write_case

from .conftest import Cli


def run_pytest(cli: Cli, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--harness-python={cli.python}",
            *args,
        ],
        cwd=cli.cwd,
        env=cli.env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def runs(cli: Cli) -> list[Path]:
    return list((cli.cwd / "reports").glob("*/*/run.json"))


@pytest.fixture
def project(cli: Cli) -> Cli:
    (cli.cwd / "pytest.ini").write_text("[pytest]\n")
    write_case(cli.cwd / "cases" / "unset-factor")
    return cli


def test_items_are_the_declared_node_ids(project: Cli) -> None:
    done = run_pytest(project, "cases", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[:2] == [
        "cases/unset-factor/case.toml::test_unset_factor",
        "cases/unset-factor/case.toml::test_add",
    ]
    assert runs(project) == []


def test_a_confirmed_case_passes(project: Cli) -> None:
    done = run_pytest(project, "cases", "--junitxml=out.xml")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert len(runs(project)) == 1
    suite = ET.parse(project.cwd / "out.xml").getroot()
    assert [case.get("name") for case in suite.iter("testcase")] == [
        "test_unset_factor",
        "test_add",
    ]
    values = {item.get("value") for item in suite.iter("property")}
    assert values == {"flip-confirmed", "control-held"}


def test_selection_and_x(project: Cli) -> None:
    done = run_pytest(project, "cases", "-k", "add")
    assert "1 passed, 1 deselected" in done.stdout
    write_case(project.cwd / "cases" / "a-broken-claim", patch="")
    done = run_pytest(project, "cases", "-x")
    assert done.returncode == 1
    assert "1 failed" in done.stdout and "passed" not in done.stdout.splitlines()[-1]


def test_a_failure_says_why(project: Cli) -> None:
    write_case(project.cwd / "cases" / "wrong", signature={"exception": "KeyError"})
    done = run_pytest(project, "cases/wrong")
    assert done.returncode == 1
    assert "wrong-red on CPU (" in done.stdout
    assert "): raised TypeError, declared KeyError" in done.stdout
    assert "evidence:" in done.stdout
    assert "harness/pytest_plugin.py" not in done.stdout


def test_an_engine_fault_is_an_error_and_no_failure(project: Cli) -> None:
    done = run_pytest(project, "cases", "--harness-python=/no/such/python")
    assert done.returncode == 1
    assert "2 errors" in done.stdout and "failed" not in done.stdout.splitlines()[-1]


def test_a_wrong_case_is_a_collection_error(project: Cli) -> None:
    toml = project.cwd / "cases/unset-factor/case.toml"
    toml.write_text(toml.read_text().replace("title", "titel"))
    done = run_pytest(project, "cases")
    assert done.returncode == 2
    assert "titel: unknown key; did you mean 'title'?" in done.stdout


def test_a_case_file_named_explicitly_is_plain_pytest(project: Cli) -> None:
    done = run_pytest(project, "cases/unset-factor/tests/test_core.py")
    assert "No module named 'minipkg'" in done.stdout


def test_xdist_shares_one_run(project: Cli) -> None:
    tests = TESTS + "".join(f"\n\ndef test_n{i}():\n    assert True\n" for i in range(4))
    ids = tuple(f"tests/test_core.py::test_n{i}" for i in range(4))
    write_case(project.cwd / "cases" / "many", tests={"tests/test_core.py": tests}, controls=ids)
    done = run_pytest(project, "cases", "-n", "2")
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout
    assert sorted(path.parent.parent.name for path in runs(project)) == ["many", "unset-factor"]


def test_xdist_never_puts_two_on_one_device(project: Cli) -> None:
    """The arms of two cases, run by two workers, must not overlap in time."""
    body = """import time
from pathlib import Path

MARK = Path({mark!r})


def test_alone():
    assert not MARK.exists()
    MARK.touch()
    time.sleep(1)
    MARK.unlink()
"""
    tests = {"tests/test_alone.py": body.format(mark=str(project.cwd / "busy"))}
    for name in ("one", "two"):
        write_case(
            project.cwd / "cases" / name,
            tests=tests,
            flips=(),
            controls=("tests/test_alone.py::test_alone",),
        )
    done = run_pytest(project, "cases/one", "cases/two", "-n", "2")
    assert done.returncode == 0, done.stdout
