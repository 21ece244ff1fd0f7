"""A released version of a package as the base: locked, built and run through the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.golden import write_case
from support.required import lacking

from harness.engines.docker import DockerEngine
from harness.engines.dockerbuild import LABEL

from .conftest import Cli

#: The base image in CI has this Python.
REFERENCE = "pypi:click==8.1.7,python==3.11"
#: style(fg=0), black of the 256 colours, is taken for no colour at all.
PATCH = """--- a/click/termui.py
+++ b/click/termui.py
@@ -557,3 +557,3 @@
-    if fg:
+    if fg is not None:
         try:
             bits.append(f"\\033[{_interpret_color(fg)}m")
"""
TESTS = """import click


def test_colour_zero():
    assert click.style("x", fg=0, reset=False) == "\\033[38;5;0mx"


def test_colour_one():
    assert click.style("x", fg=1, reset=False) == "\\033[38;5;1mx"
"""
FILE = "tests/test_style.py"


def write(folder: Path) -> Path:
    return write_case(
        folder,
        patch=PATCH,
        tests={FILE: TESTS},
        flips=[f"{FILE}::test_colour_zero"],
        controls=[f"{FILE}::test_colour_one"],
        signature={"exception": "AssertionError"},
        package="click",
    )


@pytest.fixture
def built(docker_reason: str) -> Iterator[None]:
    """Images that a test builds here go when it ends; without a daemon there are none."""
    yield
    if docker_reason:
        return
    engine = DockerEngine()
    for image in engine.client.images.list(filters={"label": f"{LABEL}={REFERENCE}"}):
        engine.client.images.remove(image.id, force=True)
    engine.close()


@pytest.mark.parametrize("engine", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_release_is_the_base(cli: Cli, built: None, docker_reason: str, engine: str) -> None:
    if engine == "docker" and docker_reason:
        lacking(docker_reason)
    case = write(cli.cwd / "case")
    document = cli.json("ab", str(case), "--image", REFERENCE, "--engine", engine, code=0)
    (row,) = document["rows"]
    assert row["engine"] == engine
    assert row["image"].startswith(f"{REFERENCE}@sha256:")
    (run,) = (cli.cwd / "reports" / "case").iterdir()
    lock = run / "images" / "pypi-click-8.1.7-python-3.11" / "requirements.lock"
    assert "click==8.1.7 " in lock.read_text() and "--hash=sha256:" in lock.read_text()
    assert str(lock.relative_to(run)) in json.loads((run / "manifest.json").read_text())
    again = cli.json("ab", str(case), "--image", REFERENCE, "--engine", engine, code=0)
    assert again["rows"][0]["image"] == row["image"]
    assert cli.json("table", str(run), code=0)["rows"][0]["image"] == row["image"]


def test_build_and_list(cli: Cli) -> None:
    done = cli("image", "build", REFERENCE, "--engine", "local")
    assert done.returncode == 0, done.stderr
    assert f"locking {REFERENCE} for Python 3.11" in done.stderr
    (row,) = cli.json("image", "list", code=0)["images"]
    assert row["name"] == REFERENCE
    assert row["ready"]["local"] in done.stdout
    assert REFERENCE in cli("image", "list").stdout


def test_no_such_release_is_bad_input(cli: Cli) -> None:
    done = cli("ab", str(write(cli.cwd / "case")), "--image", "pypi:click==8.1.77")
    assert done.returncode == 2
    assert "click has no release 8.1.77" in done.stderr and "newest" in done.stderr
    assert not (cli.cwd / "reports").exists()
    done = cli("image", "build", "pypi:click")
    assert done.returncode == 2 and "pypi:click==1.2.3" in done.stderr
