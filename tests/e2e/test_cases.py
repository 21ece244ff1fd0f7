"""The shipped cases of pure-Python packages, in images from released wheels, as a user runs them.

Wheels come from the index that pip is set up for, once; later runs take them from uv's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Shipped:
    """What a case shows, whatever release it runs on; ``fixed`` is one that has the fix."""

    case: str
    image: str
    fixed: str
    flips: dict[str, str]
    controls: tuple[str, ...]
    exceptions: frozenset[tuple[str, str]]
    unpatched: dict[str, int]
    hunks: int
    files: tuple[str, ...]

    def verdicts(self) -> dict[str, str]:
        flips = dict.fromkeys(self.flips, "flip-confirmed")
        return flips | dict.fromkeys(self.controls, "control-held")


DATEUTIL = Shipped(
    case="dateutil-987",
    image="pypi:python-dateutil==2.8.1,freezegun==1.5.1",
    fixed="pypi:python-dateutil==2.8.2,freezegun==1.5.1",
    flips={
        "test_month_that_does_not_exist[month-0]": "failed",
        "test_month_that_does_not_exist[month-13]": "failed",
    },
    controls=("test_day_that_does_not_exist", "test_month_that_exists"),
    exceptions=frozenset({("TypeError", "dateutil/parser/_parser.py")}),
    unpatched={"failed": 2, "passed": 2},
    hunks=1,
    files=("dateutil/parser/_parser.py",),
)
WCWIDTH = Shipped(
    case="wcwidth-97",
    image="pypi:wcwidth==0.2.9",
    fixed="pypi:wcwidth==0.2.10",
    flips={
        "test_emoji_form_is_wide[heart]": "failed",
        "test_emoji_form_is_wide[number-sign]": "failed",
        "test_emoji_form_is_wide[thermometer]": "failed",
        "test_counted_once_among_others": "failed",
    },
    controls=(
        "test_nothing_to_widen[letter]",
        "test_nothing_to_widen[wide-already]",
        "test_nothing_to_widen[alone]",
        "test_terminal_older_than_unicode_9",
    ),
    exceptions=frozenset({("AssertionError", "tests/test_variation_selector.py")}),
    unpatched={"failed": 4, "passed": 4},
    hunks=7,
    files=("wcwidth/__init__.py", "wcwidth/table_vs16.py", "wcwidth/wcwidth.py"),
)
PYJWT = Shipped(
    case="pyjwt-cve-2022-29217",
    image="pypi:pyjwt==2.3.0",
    fixed="pypi:pyjwt==2.4.0",
    flips={
        "test_pem_names_what_it_holds": "missing",
        "test_pem_must_end": "missing",
        "test_ssh_key[ed25519]": "missing",
        "test_ssh_key[ecdsa]": "missing",
        "test_ssh_key[certificate]": "missing",
        "test_secret_is_no_ssh_key": "missing",
        "test_public_key_is_no_secret[ssh-ed25519]": "failed",
        "test_public_key_is_no_secret[ssh-ecdsa]": "failed",
        "test_public_key_is_no_secret[pem-crl]": "failed",
    },
    controls=("test_blocklisted_key_is_refused", "test_secret_still_signs_and_verifies"),
    exceptions=frozenset(
        {("ImportError", "tests/test_key_formats.py"), ("Failed", "tests/test_key_confusion.py")}
    ),
    # A file that cannot be loaded is one error, and its node IDs are not there.
    unpatched={"error": 1, "failed": 3, "passed": 2},
    hunks=4,
    files=("jwt/algorithms.py", "jwt/utils.py"),
)
SHIPPED = [pytest.param(shipped, id=shipped.case) for shipped in (DATEUTIL, WCWIDTH, PYJWT)]


def ab(case: str, out: Path, *more: str, engine: str = "local") -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "harness", "ab", case, "--engine", engine, *more]
    run = subprocess.run(
        [*argv, "--out", str(out), "--json"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert run.stdout, run.stderr
    document = json.loads(run.stdout)
    assert isinstance(document, dict)
    return run.returncode, document


def name(node: dict[str, Any]) -> str:
    return str(node["node_id"]).partition("::")[2]


def counts(row: dict[str, Any], arm: str) -> dict[str, int]:
    return {outcome: n for outcome, n in row[arm].items() if n}


def check(shipped: Shipped, code: int, document: dict[str, Any]) -> dict[str, Any]:
    """Assert what holds on every release; returns the only row."""
    assert code == 0, document
    assert document["verdict"] == "confirmed"
    nodes = document["nodes"]
    assert {name(node): node["verdict"] for node in nodes} == shipped.verdicts()
    unpatched = {name(node): node["unpatched"] for node in nodes}
    assert unpatched == shipped.flips | dict.fromkeys(shipped.controls, "passed")
    assert {node["patched"] for node in nodes} == {"passed"}
    failures = [node["failure"] for node in nodes if name(node) in shipped.flips]
    assert {
        (failure["exception"].rpartition(".")[2], failure["at"].rpartition(":")[0])
        for failure in failures
    } == shipped.exceptions
    (row,) = document["rows"]
    assert row["platform"] == "cpu"
    assert counts(row, "unpatched") == shipped.unpatched
    assert counts(row, "patched") == {"passed": len(nodes)}
    hunks = row["patch"]["hunks"]
    assert len(hunks) == shipped.hunks
    assert sorted({hunk["file"] for hunk in hunks}) == [*shipped.files]
    assert isinstance(row, dict)
    return row


@pytest.mark.parametrize("shipped", SHIPPED)
def test_its_default_image_has_the_bug(shipped: Shipped, tmp_path: Path) -> None:
    row = check(shipped, *ab(shipped.case, tmp_path))
    assert (row["engine"], row["image_details"]["name"]) == ("local", shipped.image)
    assert (row["patch"]["state"], row["patch"]["action"]) == ("clean", "applied")


@pytest.mark.parametrize("shipped", SHIPPED)
def test_a_release_that_has_the_fix_is_reversed(shipped: Shipped, tmp_path: Path) -> None:
    """A module that the fix brought is taken away again, too."""
    row = check(shipped, *ab(shipped.case, tmp_path, "--image", shipped.fixed))
    assert (row["patch"]["state"], row["patch"]["action"]) == ("already-applied", "reversed")


@pytest.mark.docker
def test_a_new_module_and_two_packages_in_containers(docker_reason: str, tmp_path: Path) -> None:
    if docker_reason:
        pytest.skip(docker_reason)
    for shipped in (WCWIDTH, DATEUTIL):
        row = check(shipped, *ab(shipped.case, tmp_path / shipped.case, engine="docker"))
        assert row["engine"] == "docker"


def test_a_release_with_other_code_is_not_run(tmp_path: Path) -> None:
    """0.2.14 has the fix and another table: the patch neither applies nor reverses."""
    code, document = ab(WCWIDTH.case, tmp_path, "--image", "pypi:wcwidth==0.2.14")
    assert (code, document["verdict"]) == (3, "inconclusive")
    assert {node["verdict"] for node in document["nodes"]} == {"inconclusive"}
    (row,) = document["rows"]
    assert (row["patch"]["state"], row["patch"]["action"]) == ("rejected", "none")
    assert "table_vs16.py" in row["patch"]["message"]
