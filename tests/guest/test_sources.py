"""What seal.py leaves of the package's files, whatever the tests wrote into the journal."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness.guest
from harness.guest import sources, tree

PYTHON = os.environ.get("HARNESS_GUEST_PYTHON", sys.executable)
GUEST = Path(harness.guest.__file__).parent
NODE = "tests/test_m.py::test"


class Arm:
    """A root folder as the host left it, and the package beside it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.site = folder / "root", folder / "site"
        shutil.copytree(GUEST, self.root / "guest")
        (self.root / "work").mkdir()
        (self.site / "pkg/sub").mkdir(parents=True)
        for name in ("__init__", "m", "o", "sub/n"):
            (self.site / f"pkg/{name}.py").write_text(f"# {name}\r\n")
        (folder / "secret.py").write_text("secret")
        self.request: dict[str, Any] = {"patch": "production", "nodes": [NODE], "sources": True}
        self.write_manifest()
        self.patch("pkg/m.py")
        self.journal()

    def write_manifest(self) -> None:
        path = str(self.site / "pkg")
        manifest = {"path": path, "package": tree.describe(path, "pkg", tree.LARGE), "work": {}}
        (self.root / "manifest.json").write_text(json.dumps(manifest))

    def patch(self, *paths: str) -> None:
        hunks = {"files": [{"path": path, "hunks": []} for path in paths]}
        (self.root / "production.json").write_text(json.dumps(hunks))

    def journal(self, *events: object) -> None:
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        (self.root / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def seal(self) -> dict[str, bytes] | None:
        """Run it; return the files, or None where it left none."""
        request = self.root / "request.json"
        request.write_text(json.dumps({"root": str(self.root), **self.request}))
        program, answer = self.root / "guest/seal.py", self.root / "seal.json"
        done = subprocess.run(
            [PYTHON, "-I", "-S", program, request, answer], capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "changed" in json.loads(answer.read_bytes())
        path = self.root / "sources.json"
        if not path.is_file():
            return None
        found = json.loads(path.read_bytes())
        return {name: base64.b64decode(text, validate=True) for name, text in found.items()}


def report(*frames: object, node: str = NODE, file: object = "") -> dict[str, Any]:
    failure = {"exception": "E", "file": file, "frames": list(frames)}
    return {"event": "report", "id": node, "when": "call", "failure": failure}


@pytest.fixture
def arm(tmp_path: Path) -> Arm:
    return Arm(tmp_path)


def test_files_that_failures_pass_through_and_the_patch_touches(arm: Arm) -> None:
    arm.patch("pkg/m.py", "pkg/created.py")
    arm.journal(report("tests/test_m.py:3", "pkg/sub/n.py:1", "pkg/sub/n.py:2"))
    assert arm.seal() == {"pkg/m.py": b"# m\r\n", "pkg/sub/n.py": b"# sub/n\r\n"}


def test_the_place_of_a_syntax_error_and_errors_of_loading(arm: Arm) -> None:
    load = {"event": "load-error", "file": "tests/test_m.py", "failure": {"file": "pkg/o.py"}}
    arm.journal(load)
    assert set(arm.seal() or ()) == {"pkg/m.py", "pkg/o.py"}


def test_failures_of_undeclared_tests_are_not_of_interest(arm: Arm) -> None:
    arm.journal(report("pkg/o.py:1", node="tests/test_m.py::test_other"))
    assert set(arm.seal() or ()) == {"pkg/m.py"}


def test_only_where_it_is_asked_for(arm: Arm) -> None:
    arm.request["sources"] = False
    assert arm.seal() is None


@pytest.mark.parametrize(
    "place",
    [
        "../secret.py:1",
        "pkg/../../secret.py:1",
        "/etc/passwd:1",
        "pkg/./o.py:1",
        "pkg/sub:1",
        "pkg/o.py\0:1",
        "pkg/\ud800.py:1",
        ":1",
        "",
    ],
)
def test_names_that_are_no_file_of_the_package(arm: Arm, place: str) -> None:
    arm.journal(report(place, file=place.rpartition(":")[0]))
    assert set(arm.seal() or ()) == {"pkg/m.py"}


def test_links_and_pipes_are_not_followed(arm: Arm, tmp_path: Path) -> None:
    for name in ("o.py", "m.py"):
        (arm.site / "pkg" / name).unlink()
    (arm.site / "pkg/o.py").symlink_to(tmp_path / "secret.py")
    os.mkfifo(arm.site / "pkg/m.py")
    (arm.site / "pkg/sub").rename(tmp_path / "moved")
    (tmp_path / "moved/n.py").write_text("secret")
    (arm.site / "pkg/sub").symlink_to(tmp_path / "moved")
    arm.journal(report("pkg/o.py:1", "pkg/sub/n.py:1", "pkg/__init__.py:1"))
    assert set(arm.seal() or ()) == {"pkg/__init__.py"}


def test_a_file_that_was_a_link_already(arm: Arm, tmp_path: Path) -> None:
    (arm.site / "pkg/linked.py").symlink_to(tmp_path / "secret.py")
    arm.write_manifest()
    arm.journal(report("pkg/linked.py:1"))
    assert set(arm.seal() or ()) == {"pkg/m.py"}


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "none"])
def test_a_journal_that_is_no_plain_file(arm: Arm, tmp_path: Path, kind: str) -> None:
    journal = arm.root / "journal.jsonl"
    journal.unlink()
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "link":
        other = tmp_path / "other.jsonl"
        other.write_text(json.dumps(report("pkg/o.py:1")))
        journal.symlink_to(other)
    elif kind == "folder":
        journal.mkdir()
    assert set(arm.seal() or ()) == {"pkg/m.py"}


def test_lines_that_are_strange_are_passed_over(arm: Arm) -> None:
    arm.journal(
        "[" * 100_000,
        "nonsense",
        "[]",
        {"event": "report", "failure": "text"},
        {"event": "report", "id": NODE, "failure": {"frames": {"pkg/o.py:1": 1}, "file": 3}},
        {"event": "report", "id": [], "failure": {}},
        report(1, None, ["pkg/o.py:1"], "pkg/__init__.py:1"),
    )
    assert set(arm.seal() or ()) == {"pkg/m.py", "pkg/__init__.py"}


def test_an_endless_line_is_no_event_and_what_follows_is(arm: Arm) -> None:
    padded = json.dumps({**report("pkg/o.py:1"), "padding": "x" * (3 * sources.LINE)})
    arm.journal(padded, report("pkg/__init__.py:1"))
    assert set(arm.seal() or ()) == {"pkg/m.py", "pkg/__init__.py"}


def test_large_files_and_too_many_are_left_out(arm: Arm) -> None:
    (arm.site / "pkg/large.py").write_bytes(b"#" * (sources.LARGEST + 1))
    for number in range(sources.MOST + 10):
        (arm.site / f"pkg/f{number}.py").write_text("")
    names = [f"pkg/f{number}.py:1" for number in range(sources.MOST + 10)]
    arm.write_manifest()
    arm.journal(report("pkg/large.py:1", *names))
    found = arm.seal() or {}
    assert len(found) == sources.MOST
    assert "pkg/m.py" in found and "pkg/large.py" not in found


def test_no_more_than_a_certain_size_altogether(arm: Arm) -> None:
    names = [f"pkg/f{number}.py" for number in range(6)]
    for name in names:
        (arm.site / name).write_bytes(b"#" * sources.LARGEST)
    arm.write_manifest()
    arm.journal(report(*[f"{name}:1" for name in names], "pkg/o.py:1"))
    found = arm.seal() or {}
    assert sum(map(len, found.values())) <= sources.ALTOGETHER
    assert {"pkg/m.py", "pkg/o.py"} <= set(found)


def test_what_the_tests_left_in_its_place_is_not_written_through(arm: Arm, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (arm.root / "sources.json").symlink_to(target)
    assert set(arm.seal() or ()) == {"pkg/m.py"}
    assert target.read_text() == "mine"


def test_the_seal_stands_where_the_files_cannot_be_written(arm: Arm) -> None:
    (arm.root / "sources.json").mkdir()
    assert arm.seal() is None
