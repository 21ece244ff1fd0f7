"""stage.py and seal.py as they are started: on a package in a site folder, in every state.

``HARNESS_GUEST_PYTHON`` names another interpreter to run them with (3.9 is the oldest).
"""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness.guest
from harness.guest import package as packages
from harness.guest import patching
from harness.patch import Patch, for_package, parse_patch, render, subset, to_json
from harness.record import Seal, Staging
from harness.schema import parse_json

PYTHON = os.environ.get("HARNESS_GUEST_PYTHON", sys.executable)
GUEST = Path(harness.guest.__file__).parent
OLD = "def f():\n    a = 1\n    return a\n"
NEW = OLD.replace("a = 1", "a = 2")
PATCH = (
    "--- a/src/pkg/m.py\n+++ b/src/pkg/m.py\n"
    "@@ -1,3 +1,3 @@\n def f():\n-    a = 1\n+    a = 2\n     return a\n"
)
ADD = "--- /dev/null\n+++ b/src/pkg/sub/n.py\n@@ -0,0 +1 @@\n+n = 1\n"
REMOVE = "--- a/src/pkg/o.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-o = 1\n"
NOWHERE = "--- a/src/pkg/o.py\n+++ b/src/pkg/o.py\n@@ -1 +1 @@\n-p = 1\n+p = 2\n"
SAME = NOWHERE.replace("p = 1", "o = 1").replace("p = 2", "o = 1")
Tree = dict[str, str]
BASE: Tree = {"pkg/__init__.py": "", "pkg/m.py": OLD, "pkg/o.py": "o = 1\n"}


class Arm:
    """A root folder as the host prepares it, and a site folder with the package."""

    def __init__(self, folder: Path) -> None:
        self.root, self.site = folder / "root", folder / "env/site"
        self.path = os.environ["PATH"]
        (self.root / "work").mkdir(parents=True)
        (self.root / "site").mkdir()
        shutil.copytree(GUEST, self.root / "guest")
        self.install(BASE)

    def install(self, files: Tree) -> None:
        for name, text in files.items():
            file = self.site / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def run(self, program: str, *flags: str) -> tuple[int, bytes]:
        answer = self.root / f"{program}.json"
        done = subprocess.run(
            [
                PYTHON,
                *flags,
                f"{self.root}/guest/{program}.py",
                f"{self.root}/request.json",
                answer,
            ],
            env={"PYTHONPATH": f"{self.root}/site:{self.site}", "PATH": self.path},
            cwd=self.root / "work",
            capture_output=True,
        )
        assert (done.stdout, done.stderr) == (b"", b"")
        return done.returncode, answer.read_bytes()

    def try_stage(
        self,
        patch: str = PATCH,
        arm: str = "patched",
        name: str = "pkg",
        disposable: bool = True,
        hunks: tuple[int, ...] = (),
    ) -> tuple[int, bytes]:
        """Stage an arm; ``hunks`` are those that a ``partly`` patched one has."""
        parsed = for_package(
            parse_patch(patch.encode(), where="p"), package=name, source=None, where="p"
        )
        others = [n for n in range(1, parsed.hunk_count + 1) if n not in hunks]
        self.put_patch("production", parsed)
        self.put_patch("some", subset(parsed, hunks))
        self.put_patch("others", subset(parsed, others))
        forward, reverse = {
            "unpatched": ("", "production"),
            "patched": ("production", ""),
            "partly": ("some", "others"),
        }[arm]
        request = {
            "root": str(self.root),
            "package": name,
            "disposable": disposable,
            "patch": "production",
            "forward": forward,
            "reverse": reverse,
        }
        (self.root / "request.json").write_text(json.dumps(request))
        return self.run("stage")

    def put_patch(self, name: str, patch: Patch) -> None:
        (self.root / f"{name}.patch").write_bytes(render(patch))
        (self.root / f"{name}.json").write_bytes(to_json(patch))

    def stage(self, *args: Any, **kwargs: Any) -> Staging:
        code, answer = self.try_stage(*args, **kwargs)
        assert code == 0, answer
        return parse_json(answer, Staging, where="stage.json")

    def error(self, **kwargs: Any) -> str:
        code, answer = self.try_stage(**kwargs)
        assert code == 3
        return str(json.loads(answer)["error"])

    def seal(self) -> tuple[str, ...]:
        code, answer = self.run("seal", "-I", "-S")
        assert code == 0, answer
        return parse_json(answer, Seal, where="seal.json").changed

    def files(self) -> Tree:
        return {
            path.relative_to(self.site).as_posix(): path.read_text()
            for path in self.site.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }


@pytest.fixture
def arm(tmp_path: Path) -> Arm:
    return Arm(tmp_path)


@pytest.fixture(params=["GNU patch", "built-in"])
def any_tool(arm: Arm, request: pytest.FixtureRequest, tmp_path: Path) -> Arm:
    """The arm with ``patch`` on PATH, and without."""
    if request.param == "built-in":
        arm.path = str(tmp_path)
    elif not patching.gnu_patch():
        pytest.skip("needs GNU patch 2.7 or later")
    return arm


MOVED = {"pkg/m.py": "# one\n# two\n" + OLD}
TWICE = {"pkg/m.py": NEW + OLD}
STATES: dict[str, tuple[str, Tree, str, str, str, Tree]] = {
    # patch, files, state, what patched does, what unpatched does, files where something is done
    "empty": ("", {}, "empty", "none", "none", {}),
    "clean": (PATCH, {}, "clean", "applied", "none", {"pkg/m.py": NEW}),
    "offset": (PATCH, MOVED, "offset", "applied", "none", {"pkg/m.py": "# one\n# two\n" + NEW}),
    "applied": (PATCH, {"pkg/m.py": NEW}, "already-applied", "none", "reversed", {"pkg/m.py": OLD}),
    "both, forward at its line": (
        PATCH, {"pkg/m.py": OLD + NEW}, "clean", "applied", "none", {"pkg/m.py": NEW + NEW}
    ),
    "both, reverse at its line": (
        PATCH, TWICE, "already-applied", "none", "reversed", {"pkg/m.py": OLD + OLD}
    ),
    "both, neither at its line": (
        PATCH, {"pkg/m.py": "#\n" + NEW + OLD}, "rejected", "none", "none", {}
    ),
    "no-op": (SAME, {}, "clean", "applied", "none", {}),
    "rejected": (PATCH, {"pkg/m.py": "x\n"}, "rejected", "none", "none", {}),
    "half": (PATCH + NOWHERE, {}, "rejected", "none", "none", {}),
    "half, the other": (NOWHERE + PATCH, {}, "rejected", "none", "none", {}),
    "half applied already": (PATCH + ADD, {"pkg/m.py": NEW}, "rejected", "none", "none", {}),
    "new and gone": (
        ADD + REMOVE + PATCH, {}, "clean", "applied", "none",
        {"pkg/m.py": NEW, "pkg/sub/n.py": "n = 1\n", "pkg/o.py": ""},
    ),
    "new and gone, applied": (
        ADD + REMOVE, {"pkg/sub/n.py": "n = 1\n", "pkg/o.py": ""},
        "already-applied", "none", "reversed",
        {"pkg/sub/n.py": "", "pkg/o.py": "o = 1\n"},
    ),
    "missing, which GNU patch would create": (
        "--- a/pkg/x.py\n+++ b/pkg/x.py\n@@ -0,0 +1 @@\n+x\n", {}, "rejected", "none", "none", {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("side", ["patched", "unpatched"])
@pytest.mark.parametrize("state", STATES)
def test_each_state_and_what_either_arm_does_about_it(any_tool: Arm, state: str, side: str) -> None:
    patch, files, expected, patched, unpatched, done = STATES[state]
    any_tool.install(files)
    for name, text in files.items():
        if not text:
            (any_tool.site / name).unlink()  # an empty text stands for no file
    before = any_tool.files()
    staging = any_tool.stage(patch, side)
    action = patched if side == "patched" else unpatched
    assert (staging.state, staging.action) == (expected, action)
    after = before if action == "none" else {**before, **done}
    assert any_tool.files() == {
        name: text for name, text in after.items() if text or name == "pkg/__init__.py"
    }
    assert (staging.tree_before == staging.tree_after) is (after == before)
    assert bool(staging.message) is (expected == "rejected")
    assert staging.tool == (
        f"patch {patching.gnu_patch()}"
        if any_tool.path == os.environ["PATH"]
        else "harness built-in"
    )
    assert (staging.copied, staging.package_path) == (False, f"{any_tool.site}/pkg")


def test_offsets_and_rejections_are_told_by_file_and_hunk(any_tool: Arm) -> None:
    any_tool.install({"pkg/m.py": "# one\n" + OLD})
    hunks = any_tool.stage(PATCH + ADD, "unpatched").hunks
    assert [(hunk.file, hunk.number, hunk.offset) for hunk in hunks] == [
        ("pkg/m.py", 1, 1),
        ("pkg/sub/n.py", 1, 0),
    ]
    rejected = any_tool.stage(PATCH + NOWHERE, "unpatched")
    assert rejected.message.startswith("pkg/o.py: hunk 1 (line 1) does not fit: ")
    assert "pkg/m.py" not in rejected.message  # that one fits
    assert not rejected.hunks
    any_tool.install({"pkg/m.py": "#\n" + NEW + OLD})
    assert any_tool.stage().message == "ambiguous: applies both forward and in reverse"


@pytest.mark.parametrize(
    ("now", "standing"),
    [
        (NEW, "is there already"),
        (NEW.replace("return", "print(a)\n    return"), "does not fit, though the lines that it"),
        (OLD.replace("a = 1", "a = 3"), "does not fit; "),
    ],
)
def test_which_hunk_does_not_fit_and_what_that_may_mean(
    any_tool: Arm, now: str, standing: str
) -> None:
    any_tool.install({"pkg/m.py": now})
    rejected = any_tool.stage(PATCH + ADD + NOWHERE, "unpatched")
    assert rejected.state == "rejected"
    assert rejected.message.startswith(f"pkg/m.py: hunk 1 (line 1) {standing}")
    assert "; pkg/o.py: hunk 1 (line 1) does not fit: " in rejected.message
    assert rejected.message.endswith("may already contain a later version of the fix")
    assert ("older or newer" in rejected.message) is standing.startswith("does not fit; ")
    assert "n.py" not in rejected.message  # that hunk fits


def test_a_file_that_the_patch_creates_is_there(any_tool: Arm) -> None:
    any_tool.install({"pkg/sub/n.py": "n = 2\n"})
    told = any_tool.stage(PATCH + ADD, "patched").message
    assert told.startswith("pkg/sub/n.py, which the patch creates, is there already: ")


def test_two_arms_of_one_tree_differ_by_the_patch_alone(tmp_path: Path) -> None:
    digests = {}
    for name, text in (("lacks", OLD), ("has", NEW)):
        for side in ("unpatched", "patched"):
            arm = Arm(tmp_path / name / side)
            arm.install({"pkg/m.py": text})
            digests[name, side] = arm.stage(arm=side).tree_after
    assert digests["lacks", "unpatched"] == digests["has", "unpatched"]
    assert digests["lacks", "patched"] == digests["has", "patched"]
    assert len(set(digests.values())) == 2


LINES = "".join(f"line {number}\n" for number in range(1, 40))
SPREAD = (
    "--- a/pkg/m.py\n+++ b/pkg/m.py\n"
    "@@ -1,2 +1,3 @@\n+a = 1\n line 1\n line 2\n"
    "@@ -20,3 +21,4 @@\n line 20\n+b = 2\n line 21\n line 22\n"
    "@@ -30,3 +32,2 @@\n line 30\n-line 31\n line 32\n"
)


def spread(*hunks: int) -> str:
    """The text of m.py with some of SPREAD's hunks."""
    text = LINES
    for number, old, new in (
        (1, "line 1\n", "a = 1\nline 1\n"),
        (2, "line 21\n", "b = 2\nline 21\n"),
        (3, "line 31\n", ""),
    ):
        if number in hunks:
            text = text.replace(f"\n{old}", f"\n{new}") if number > 1 else new + text[len(old) :]
    return text


@pytest.mark.parametrize("has_the_fix", [False, True])
@pytest.mark.parametrize("hunks", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3)], ids=str)
def test_an_arm_with_some_of_the_hunks(
    any_tool: Arm, hunks: tuple[int, ...], has_the_fix: bool
) -> None:
    """Whether the image lacks the fix or has it, the arm has these hunks and no others."""
    any_tool.install({"pkg/m.py": spread(1, 2, 3) if has_the_fix else LINES})
    staging = any_tool.stage(SPREAD, "partly", hunks=hunks)
    assert any_tool.files()["pkg/m.py"] == spread(*hunks)
    assert (staging.state, staging.action) == (
        ("already-applied", "reversed") if has_the_fix else ("clean", "applied")
    )
    assert staging.tree_after != staging.tree_before
    # How the whole patch fits is told, as in the other arms, not how these hunks do.
    assert [(hunk.file, hunk.number) for hunk in staging.hunks] == [
        ("pkg/m.py", n) for n in (1, 2, 3)
    ]


#: The same three lines at 22 and at 40; which are meant, the place of the hunk before says.
TWICE = [f"line {number}\n" for number in range(1, 50)]
TWICE[21:24] = TWICE[39:42] = ["p\n", "q\n", "r\n"]
OF_TWICE = (
    "--- a/pkg/m.py\n+++ b/pkg/m.py\n"
    "@@ -5,2 +5,3 @@\n line 5\n+a = 1\n line 6\n"
    "@@ -40,3 +41,4 @@\n p\n+b = 2\n q\n r\n"
)


@pytest.mark.parametrize("hunks", [(1,), (2,)], ids=str)
def test_a_hunk_that_would_go_elsewhere_without_the_others(
    any_tool: Arm, hunks: tuple[int, ...]
) -> None:
    """18 more lines on top: at the second hunk's own line there are now the first three."""
    any_tool.install({"pkg/m.py": "".join([*(f"new {n}\n" for n in range(18)), *TWICE])})
    before = any_tool.files()
    staging = any_tool.stage(OF_TWICE, "partly", hunks=hunks)
    if hunks == (1,):
        assert (staging.state, staging.action) == ("offset", "applied")
        return
    assert (staging.state, staging.action) == ("rejected", "none")
    assert "hunk 2 alone fits at offset +0, with the others at +18" in staging.message
    assert any_tool.files() == before


def test_some_hunks_of_a_patch_that_does_not_fit_are_not_applied(any_tool: Arm) -> None:
    before = any_tool.files()
    staging = any_tool.stage(PATCH + NOWHERE, "partly", hunks=(1,))
    assert (staging.state, staging.action) == ("rejected", "none")
    assert any_tool.files() == before


def test_a_package_that_must_stay_is_copied(any_tool: Arm) -> None:
    any_tool.install({"pkg.libs/libx.so": "x", "pkg/sub/data.txt": "d"})
    (any_tool.site / "pkg/link.txt").symlink_to("sub/data.txt")
    (any_tool.site / "pkg/loop").symlink_to("../pkg")
    (any_tool.site / "pkg/sub/again").symlink_to(".")
    (any_tool.site / "pkg/out").symlink_to("../pkg.libs")
    for file in any_tool.site.rglob("*.py"):
        file.chmod(0o444)
    os.utime(any_tool.site / "pkg/o.py", ns=(1, 1_000_000_007))
    before = any_tool.files()
    staging = any_tool.stage(disposable=False)
    site = any_tool.root / "site"
    assert (staging.copied, staging.package_path) == (True, f"{site}/pkg")
    assert any_tool.files() == before
    assert (site / "pkg/m.py").read_text() == NEW
    assert (site / "pkg/o.py").stat().st_mtime_ns == 1_000_000_007
    assert (site / "pkg.libs/libx.so").read_text() == "x"
    assert not (site / "pkg/link.txt").is_symlink()
    assert (site / "pkg/link.txt").read_text() == "d"
    assert (site / "pkg/out").resolve() == any_tool.site / "pkg.libs"
    assert (site / "pkg/loop").is_symlink()
    assert (site / "pkg/sub/again").is_symlink()
    assert "an arm is staged once" in any_tool.error(disposable=False)


def test_what_cannot_be_changed_in_place_is_copied(
    arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pkg = packages.Package(str(arm.site), str(arm.site / "pkg"))
    assert not packages.must_copy(pkg, "pkg", ["pkg/m.py", "pkg/new/deep/n.py"])
    for refused in ("pkg", "pkg/m.py"):
        monkeypatch.setattr(os, "access", lambda path, _, no=refused: not path.endswith(no))
        assert packages.must_copy(pkg, "pkg", ["pkg/m.py"])
    monkeypatch.undo()
    arm.site.joinpath("pkg").rename(tmp_path / "elsewhere")
    arm.site.joinpath("pkg").symlink_to(tmp_path / "elsewhere")
    assert arm.stage().copied
    assert (tmp_path / "elsewhere/m.py").read_text() == OLD


def test_single_file_and_namespace_packages(arm: Arm) -> None:
    arm.install({"six.py": OLD, "space/m.py": OLD})
    patch = PATCH.replace("src/pkg/m.py", "six.py")
    assert arm.stage(patch, name="six").package_path == f"{arm.site}/six.py"
    assert arm.stage(PATCH.replace("pkg", "space"), name="space").state == "clean"
    copied = arm.stage(patch, "unpatched", name="six", disposable=False)
    assert (copied.package_path, copied.action) == (f"{arm.root}/site/six.py", "reversed")
    assert arm.files()["six.py"] == NEW


def test_no_package_no_arm(arm: Arm) -> None:
    assert arm.error(name="nope", patch="") == (
        "package 'nope' is not installed in this environment"
    )
    assert "built into this Python" in arm.error(name="sys", patch="")
    arm.install({"space/m.py": ""})
    (arm.root / "site/space").mkdir()
    assert "must be in one folder" in arm.error(name="space", patch="")
    # The programs' own folder is not searched, though Python puts it first.
    for name in ("hunks", "tree", "stage"):
        assert "is not installed" in arm.error(name=name, patch="")


def test_an_unexpected_fault_is_one_line(arm: Arm) -> None:
    arm.stage()
    (arm.root / "production.json").write_text("{")
    code, answer = arm.run("stage")
    error = json.loads(answer)["error"]
    assert code == 3
    assert error.startswith("JSONDecodeError: ")
    assert "\n" not in error


@pytest.mark.parametrize("side", ["patched", "unpatched"])
@pytest.mark.parametrize("disposable", [True, False])
def test_bytecode_cannot_hide_the_patch(arm: Arm, side: str, disposable: bool) -> None:
    for name in ("m", "o"):
        py_compile.compile(
            str(arm.site / f"pkg/{name}.py"),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    staging = arm.stage(arm=side, disposable=disposable)
    cache = Path(staging.package_path) / "__pycache__"
    assert [file.name.partition(".")[0] for file in cache.iterdir()] == ["o"]
    probe = subprocess.run(
        [sys.executable, "-B", "-c", "import pkg.m; print(pkg.m.f())"],
        env={"PYTHONPATH": f"{arm.root}/site:{arm.site}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert probe.stdout == ("2\n" if side == "patched" else "1\n")


def test_a_module_that_is_only_bytecode_is_not_patched(arm: Arm) -> None:
    source = arm.site / "pkg/m.py"
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    staging = arm.stage()
    assert staging.state == "rejected"
    assert staging.message == ("pkg/m.py: only the compiled pkg/m.pyc is there, without its source")


def test_a_module_that_an_extension_replaces_is_not_patched(arm: Arm) -> None:
    arm.install({"pkg/m.abi3.so": ""})
    staging = arm.stage()
    assert (staging.state, staging.action) == ("rejected", "none")
    assert "imports the compiled pkg/m.abi3.so in its place" in staging.message


def test_links_are_refused_and_what_they_lead_to_is_kept(any_tool: Arm, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(OLD)
    (any_tool.site / "pkg/m.py").unlink()
    (any_tool.site / "pkg/m.py").symlink_to(outside)
    staging = any_tool.stage(PATCH + ADD)
    assert staging.state == "rejected"
    assert staging.message.startswith("pkg/m.py: pkg/m.py is a symbolic link")
    assert outside.read_text() == OLD
    assert not (any_tool.site / "pkg/sub").exists()


def test_patch_fails_after_a_good_dry_run(arm: Arm, tmp_path: Path) -> None:
    """A stand-in for `patch` that breaks off half-way when it is meant."""
    fake = tmp_path / "bin/patch"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) echo "GNU patch 2.7.6"; exit;;\n'
        "*--reverse*) exit 1;; *--dry-run*) exit 0;; esac\n"
        "mkdir pkg/sub; echo broken > pkg/m.py; echo n > pkg/o.py\n"
        "echo 'patch: **** disk full'; exit 2\n"
    )
    fake.chmod(0o755)
    arm.path = f"{fake.parent}:{arm.path}"
    before = arm.files()
    code, answer = arm.try_stage(PATCH + ADD + REMOVE)
    assert code == 3  # the tool's trouble, not the patch's: exit status 2
    assert b"disk full" in answer
    assert arm.files() == before
    assert not (arm.site / "pkg/sub").exists()


def test_variables_that_change_patch_do_not_reach_it(
    arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not patching.gnu_patch():
        pytest.skip("needs GNU patch 2.7 or later")
    seen: list[dict[str, str]] = []
    run = subprocess.run

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["env"])
        return run(*args, **kwargs)

    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    tool = patching.Patcher(str(arm.site), "none", [], None)
    monkeypatch.setattr(subprocess, "run", spy)
    with pytest.raises(patching.Trouble):
        tool.run(reverse=False, write=False)
    assert seen
    assert all(set(env) <= {"PATH", "TMPDIR", "LC_ALL"} for env in seen)


@pytest.mark.parametrize("version", ["GNU patch 2.6.1", "patch 2.0-12u11-Apple", "BusyBox"])
def test_another_patch_is_not_trusted(arm: Arm, tmp_path: Path, version: str) -> None:
    fake = tmp_path / "bin/patch"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho {version}\n")
    fake.chmod(0o755)
    arm.path = f"{fake.parent}:{arm.path}"
    staging = arm.stage()
    assert (staging.tool, staging.state) == ("harness built-in", "clean")


class TestSeal:
    """What changed while the tests ran."""

    @pytest.fixture
    def staged(self, arm: Arm) -> Arm:
        (arm.root / "work/tests").mkdir()
        (arm.root / "work/tests/test_m.py").write_text("def test(): pass\n")
        with (arm.site / "pkg/big.so").open("wb") as file:
            file.truncate(5 * 1024 * 1024)
        arm.stage()
        return arm

    def test_nothing_that_matters(self, staged: Arm) -> None:
        tests = staged.root / "work/tests"
        for folder in (
            tests / "__pycache__",
            tests / ".pytest_cache",
            staged.site / "pkg/__pycache__",
        ):
            folder.mkdir()
            (folder / "x.py").write_text("x")
        (tests / "output.txt").write_text("x")
        os.utime(staged.site / "pkg/m.py")
        assert staged.seal() == ()

    def test_package_and_tests(self, staged: Arm) -> None:
        work, pkg = staged.root / "work", staged.site / "pkg"
        (pkg / "m.py").write_text(OLD)
        (pkg / "o.py").unlink()
        (pkg / "new.py").write_text("")
        (pkg / "data.bin").write_text("")
        (work / "tests/test_m.py").write_text("def test(): return\n")
        (work / "conftest.py").write_text("")
        (work / "tests/pytest.ini").write_text("")
        assert staged.seal() == (
            "pkg/data.bin: added",
            "pkg/m.py: changed",
            "pkg/new.py: added",
            "pkg/o.py: deleted",
            "conftest.py: added",
            "tests/pytest.ini: added",
            "tests/test_m.py: changed",
        )

    def test_a_large_file_tells_even_if_its_time_is_put_back(self, staged: Arm) -> None:
        big = staged.site / "pkg/big.so"
        before = big.stat()
        with big.open("r+b") as file:
            file.write(b"x")
        os.utime(big, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert staged.seal() == ("pkg/big.so: changed",)

    def test_links_made_elsewhere_do_not_count(self, arm: Arm, tmp_path: Path) -> None:
        big = arm.site / "pkg/big.so"
        with big.open("wb") as file:
            file.truncate(5 * 1024 * 1024)
        (tmp_path / "cache").hardlink_to(big)
        arm.stage()
        (tmp_path / "another").hardlink_to(big)
        assert arm.seal() == ()
        (tmp_path / "another").unlink()
        (tmp_path / "cache").unlink()
        assert arm.seal() == ()
        big.write_bytes(b"x" * 5 * 1024 * 1024)
        assert arm.seal() == ("pkg/big.so: changed",)

    def test_many_changes_are_counted(self, staged: Arm) -> None:
        for number in range(250):
            (staged.site / f"pkg/n{number:03}.py").write_text("")
        changed = staged.seal()
        assert (len(changed), changed[-1]) == (201, "and 50 more")

    def test_without_its_manifest_it_says_so(self, staged: Arm) -> None:
        (staged.root / "manifest.json").write_text("{}")
        code, answer = staged.run("seal", "-I", "-S")
        assert (code, json.loads(answer)) == (3, {"error": "seal.py: KeyError: 'package'"})
