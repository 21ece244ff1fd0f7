"""Upstream's own test files, of a released source distribution, in an image without tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gitrepos import repository
from support.golden import write_case
from support.required import lacking

from harness.engines.docker import DockerEngine
from harness.engines.dockerbuild import LABEL

from .conftest import Cli

#: style(fg=0), black of the 256 colours, is taken for no colour at all.
PATCH = """--- a/src/click/termui.py
+++ b/src/click/termui.py
@@ -557,3 +557,3 @@
-    if fg:
+    if fg is not None:
         try:
             bits.append(f"\\033[{_interpret_color(fg)}m")
"""
OURS = """import click


def test_colour_zero():
    assert click.style("x", fg=0, reset=False) == "\\033[38;5;0mx"
"""
FILE, THEIRS = "tests/test_style.py", "tests/test_formatting.py"
IMAGE = "pypi:click==8.1.7,python==3.11"
SPEC = "sdist:click==8.1.7"


def write(folder: Path, extra: str = "") -> Path:
    made = write_case(
        folder,
        patch=PATCH,
        tests={FILE: OURS, THEIRS: ""},
        flips=[f"{FILE}::test_colour_zero"],
        controls=[
            f"{THEIRS}::test_basic_functionality",
            f"{THEIRS}::test_formatting_empty_help_lines",
        ],
        signature={"exception": "AssertionError"},
        package="click",
        extra=extra,
    )
    (made / THEIRS).unlink()
    return made


@pytest.fixture
def built(docker_reason: str) -> Iterator[None]:
    """The image that a test builds here goes when it ends."""
    yield
    if docker_reason:
        return
    engine = DockerEngine()
    for image in engine.client.images.list(filters={"label": f"{LABEL}={IMAGE}"}):
        engine.client.images.remove(image.id, force=True)
    engine.close()


@pytest.mark.parametrize("engine", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_released_project_s_own_tests(
    cli: Cli, built: None, docker_reason: str, engine: str
) -> None:
    if engine == "docker" and docker_reason:
        lacking(docker_reason)
    case = write(cli.cwd / "case")
    options = ("--image", IMAGE, "--engine", engine, "--tests-from", SPEC)
    document = cli.json("ab", str(case), *options, code=0)
    assert {node["verdict"] for node in document["nodes"]} == {"flip-confirmed", "control-held"}
    (run,) = (cli.cwd / "reports" / "case").iterdir()
    taken = json.loads((run / "run.json").read_text())["tests_from"]
    assert (taken["kind"], taken["spec"]) == ("sdist", SPEC)
    assert taken["revision"].startswith("sha256:ca9853ad")
    assert set(taken["files"]) == {THEIRS, "tests/conftest.py"}
    assert all((run / "case" / path).is_file() for path in taken["files"])
    shutil.rmtree(case)  # evidence needs neither the case nor the archive
    assert cli.json("table", str(run), code=0)["rows"] == document["rows"]
    (run / "case/tests/conftest.py").write_text("# changed\n")
    assert cli("table", str(run)).returncode == 2


def test_the_case_names_them_itself(cli: Cli) -> None:
    case = write(cli.cwd / "case", f'tests_from = "{SPEC}"')
    cli.json("ab", str(case), "--image", IMAGE, "--engine", "local", code=0)


def test_old_tests_of_a_revision(cli: Cli, tmp_path: Path) -> None:
    case = write(cli.cwd / "case", f'tests_from = "{SPEC}"')
    old = OURS + "\n\ndef test_gone():\n    assert click.style('x')\n"
    repo = repository(tmp_path / "repo", {FILE: old}, {FILE: OURS})
    options = ("--image", IMAGE, "--engine", "local", "--base-tests", f"{repo}@HEAD~1")
    cli.json("ab", str(case), *options, code=0)
    (run,) = (cli.cwd / "reports" / "case").iterdir()
    base = json.loads((run / "run.json").read_text())["base_tests"]
    assert (base["kind"], base["spec"], list(base["files"])) == ("git", "repo@HEAD~1", [FILE])
    assert (run / "base" / FILE).read_text() == old


def test_what_cannot_be_taken_is_said_before_anything_runs(cli: Cli) -> None:
    case = write(cli.cwd / "case")
    for options, words in (
        ((), "--tests-from"),
        (("--tests-from", "sdist:click"), "sdist:NAME==VERSION"),
        (("--tests-from", "sdist:click==0.0.99"), "no such release"),
        (("--tests-from", "/absent@main"), "no folder, no git revision and no release"),
    ):
        done = cli("ab", str(case), "--image", IMAGE, "--engine", "local", *options)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr
