"""Rows that cannot be had, as a user reads them: what the image lacks, and which hunk misfits."""

from __future__ import annotations

import pytest
from support.golden import BASE, CORE, FILE, FIXED, FLIP, diff, write_case
from support.required import lacking

from .conftest import Cli

#: A patch of which the image (CORE) has the first half: its second half fits nowhere.
HALF = (
    diff(FIXED, CORE)
    + "--- a/minipkg/__init__.py\n+++ b/minipkg/__init__.py\n@@ -1 +1 @@\n-x\n+y\n"
)
#: Names a file of the arm's by its whole path, in a failure that both arms have.
PATHS = """from minipkg import core


def test_unset_factor():
    raise RuntimeError(f"see {core.__file__}")


def test_add():
    raise RuntimeError(f"see {__file__}")
"""


def report(cli: Cli) -> str:
    (run,) = (cli.cwd / "reports" / "case").iterdir()
    return (run / "report.md").read_text()


@pytest.mark.parametrize("engine", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_an_image_without_the_package(cli: Cli, docker_reason: str, engine: str) -> None:
    if engine == "docker" and docker_reason:
        lacking(docker_reason)
    case = write_case(cli.cwd / "case")
    image = BASE if engine == "docker" else "pypi:click==8.1.7"
    document = cli.json("ab", str(case), "--image", image, "--engine", engine, code=3)
    assert {node["verdict"] for node in document["nodes"]} == {"infra"}
    words = "package 'minipkg' is not installed in this environment"
    (run,) = (cli.cwd / "reports" / "case").iterdir()
    assert words in report(cli)
    again = cli("table", str(run))
    assert again.returncode == 3
    assert words in " ".join(again.stdout.split())


def test_a_patch_that_does_not_fit_says_which_hunk(cli: Cli) -> None:
    case = write_case(cli.cwd / "case", patch=HALF)
    done = cli("ab", str(case), "--python", str(cli.python))
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stdout.split())
    assert "minipkg/core.py: hunk 1 (line 3) is there already" in said
    assert "minipkg/__init__.py: hunk 1 (line 1) does not fit" in said
    assert "the image may already contain a later version of the fix" in said


def test_no_folder_of_the_arm_is_in_the_report(cli: Cli) -> None:
    case = write_case(
        cli.cwd / "case", tests={FILE: PATHS}, signature={"exception": "RuntimeError"}
    )
    document = cli.json("ab", str(case), "--python", str(cli.python), code=1)
    found = {node["node_id"]: node["failure"]["message"] for node in document["nodes"]}
    assert found[FLIP] == "see $ARM/site/minipkg/core.py"
    assert found[f"{FILE}::test_add"] == f"see $ARM/work/{FILE}"
    assert str(cli.cache) not in report(cli)
