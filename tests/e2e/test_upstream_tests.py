"""Upstream's own test files, of a released source distribution, in an image without tests."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gitrepos import git, repository
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


#: A project's tests tree: conftest files of two levels, a helper, a data file, and more than that.
PROJECT = {
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef values():\n    return [1, 2]\n",
    "tests/__init__.py": "",
    "tests/unit/__init__.py": "",
    "tests/unit/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef three():\n    return 3\n",
    "tests/unit/test_core.py": """from pathlib import Path

from minipkg import core
from tests.helpers import expected


def test_unset_factor(values):
    assert core.scale(values) == expected(values)


def test_add(three):
    assert core.add(1, 2) == three == int(Path(__file__).with_name("three.txt").read_text())
""",
    "tests/unit/three.txt": "3\n",
    "tests/unit/test_other.py": "",
    "tests/helpers.py": "def expected(values):\n    return values\n",
    "tests/unused.py": "",
    "minipkg/core.py": "raise SystemExit('the package comes from the image')\n",
}
UNIT = "tests/unit/test_core.py"
#: What of it the one test file needs.
TAKEN = {
    "conftest.py",
    "tests/__init__.py",
    "tests/helpers.py",
    "tests/unit/__init__.py",
    "tests/unit/conftest.py",
    UNIT,
    "tests/unit/three.txt",
}


def write_unit(folder: Path) -> Path:
    """A case whose one test file is not in its folder."""
    made = write_case(
        folder,
        tests={UNIT: ""},
        flips=[f"{UNIT}::test_unset_factor"],
        controls=[f"{UNIT}::test_add"],
    )
    (made / UNIT).unlink()
    return made


def test_a_revision_of_a_checkout(cli: Cli, tmp_path: Path) -> None:
    later: dict[str, str | None] = {UNIT: None, "tests/helpers.py": "later = True\n"}
    repo = repository(tmp_path / "repo", PROJECT, later)
    (repo / "tests/helpers.py").write_text("raise SystemExit('the work tree is not looked at')\n")
    case = write_unit(cli.cwd / "case")
    options = ("--python", str(cli.python), "--tests-from", f"{repo}@HEAD~1")
    document = cli.json("ab", str(case), *options, code=0)
    assert {node["verdict"] for node in document["nodes"]} == {"flip-confirmed", "control-held"}
    (run,) = (cli.cwd / "reports" / "case").iterdir()
    taken = json.loads((run / "run.json").read_text())["tests_from"]
    assert (taken["kind"], taken["spec"]) == ("git", "repo@HEAD~1")
    assert taken["revision"] == git(repo, "rev-parse", "HEAD~1")
    assert set(taken["files"]) == TAKEN
    for path, digest in taken["files"].items():
        data = PROJECT[path].encode()
        assert hashlib.sha256(data).hexdigest() == digest
        assert (run / "case" / path).read_bytes() == data
    assert cli("ab", str(case), *options[:3], f"{repo}@HEAD").returncode == 2  # it went there


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("conftest.py", "fixture 'values' is missing"),
        ("tests/helpers.py", "helper module 'tests.helpers' is missing"),
        ("tests/unit/three.txt", "tests/unit/three.txt, a file of the tests tree, is missing"),
    ],
)
def test_what_the_tree_lacks_is_named_and_not_the_patch_s_doing(
    cli: Cli, tmp_path: Path, path: str, words: str
) -> None:
    repo = repository(tmp_path / "repo", PROJECT, {path: None})
    case = write_unit(cli.cwd / "case")
    options = ("--python", str(cli.python), "--tests-from", f"{repo}@main")
    document = cli.json("ab", str(case), *options, code=3)
    found = {node["verdict"]: node["reason"] for node in document["nodes"]}
    assert found["infra"].startswith(f"{words} in both arms, which is not the patch's doing: ")


ASYNC = """import click
import pytest


@pytest.mark.asyncio
async def test_colour_zero():
    assert click.style("x", fg=0, reset=False) == "\\033[38;5;0mx"


@pytest.mark.asyncio
async def test_colour_one():
    assert click.style("x", fg=1, reset=False) == "\\033[38;5;1mx"
"""


@pytest.mark.parametrize("engine", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_plugin_that_the_image_lacks(
    cli: Cli, built: None, docker_reason: str, engine: str
) -> None:
    if engine == "docker" and docker_reason:
        lacking(docker_reason)
    options = ("--image", IMAGE, "--engine", engine)
    cases = {
        name: write_case(
            cli.cwd / name,
            patch=PATCH,
            tests={FILE: ASYNC},
            flips=[f"{FILE}::test_colour_zero"],
            controls=[f"{FILE}::test_colour_one"],
            signature={"exception": "AssertionError"},
            package="click",
            extra=extra,
        )
        for name, extra in (("without", ""), ("with", 'plugins = ["pytest-asyncio==1.2.0"]'))
    }
    document = cli.json("ab", str(cases["without"]), *options, code=3)
    assert {node["verdict"] for node in document["nodes"]} == {"infra"}
    for node in document["nodes"]:
        assert "a pytest plugin that runs async tests is missing in both arms" in node["reason"]
        assert 'plugins = ["pytest-asyncio==…"]' in node["reason"]
    document = cli.json("ab", str(cases["with"]), *options, code=0)
    assert {node["verdict"] for node in document["nodes"]} == {"flip-confirmed", "control-held"}
    brought = [
        json.loads(record.read_text())["plugins"]
        for record in (cli.cwd / "reports" / "with").glob("*/*/*/arm.json")
    ]
    assert len(brought) == 2 and brought[0] == brought[1]
    (wheel,) = (line for line in brought[0] if line.startswith("pytest_asyncio-1.2.0-"))
    assert re.fullmatch(r"\S+\.whl sha256:[0-9a-f]{64}", wheel)
