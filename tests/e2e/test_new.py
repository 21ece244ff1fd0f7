"""``harness new`` and ``harness ab --patch``, as a user runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.golden import CORE, FIXED, PACKAGE, RAISES, TESTS, diff
from support.repositories import commit, git, two_commits

from harness.engines.trees import open_tree

from .conftest import Cli

OWED = "the expected failure was drafted from a run, not declared beforehand"
MORE = """

@pytest.mark.parametrize("factor", [2, 3])
def test_set_factor(factor):
    assert core.scale([1], factor) == [factor]


def test_new_name():
    assert core.anew


def test_never():
    pytest.skip("not here")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    before = {
        **{f"src/{name}": text for name, text in PACKAGE.items()},
        "tests/test_core.py": TESTS.replace("def test_unset", "def test_was_unset"),
    }
    after: dict[str, str | bytes | None] = {
        "src/minipkg/core.py": FIXED,
        "tests/test_core.py": TESTS + MORE,
        "docs/changes.md": "Fixed.\n",
    }
    return two_commits(tmp_path / "repo", before, after)


def test_new_from_git_then_ab(cli: Cli, repository: Path) -> None:
    made = cli(
        *("new", "--git", str(repository), "--base", "main", "--head", "fix"),
        *("--python", str(cli.python)),
    )
    assert made.returncode == 0, made.stderr
    assert "1 flip (" in made.stdout and "docs/changes.md: documentation" in made.stdout
    assert "to fill in" in made.stdout and "failed in both arms" in made.stdout
    assert f"next: harness ab minipkg-fix --python {cli.python}" in made.stdout
    toml = (cli.cwd / "cases/minipkg-fix/case.toml").read_text()
    assert f'at = "minipkg/core.py:{RAISES}"' in toml and 'source = "src"' in toml
    assert str(cli.python) not in toml
    document = cli.json("ab", "minipkg-fix", "--python", str(cli.python), code=0)
    verdicts = {n["node_id"].partition("::")[2]: n["verdict"] for n in document["nodes"]}
    assert verdicts == {
        "test_unset_factor": "flip-confirmed",
        "test_set_factor[2]": "control-held",
        "test_set_factor[3]": "control-held",
        "test_never": "skipped",
    }
    assert any(OWED in str(gap) for gap in document["gaps"])


def test_new_overwrites_only_when_told_to(cli: Cli, repository: Path) -> None:
    args = ("new", "--git", str(repository), "--base", "main", "--head", "fix", "--id", "mine")
    args += ("--python", str(cli.python))
    found = cli.json(*args, code=0)
    assert found["id"] == "mine" and found["folder"] == "cases/mine"
    assert found["flips"] == ["tests/test_core.py::test_unset_factor"]
    assert found["left_out"] == [{"path": "docs/changes.md", "why": "documentation"}]
    (cli.cwd / "cases/mine/notes.txt").write_text("a person's")
    done = cli(*args)
    assert done.returncode == 2 and "--force" in done.stderr
    assert (cli.cwd / "cases/mine/notes.txt").exists()
    assert cli(*args, "--force").returncode == 0
    assert not (cli.cwd / "cases/mine/notes.txt").exists()
    assert [path.name for path in (cli.cwd / "cases").iterdir()] == ["mine"]
    assert cli(*args[:-4], "--id", "../x").returncode == 2


def test_new_from_a_diff_whose_tests_cannot_be_loaded_without_it(
    cli: Cli, repository: Path, tmp_path: Path
) -> None:
    git(repository, "checkout", "-q", "-b", "more", "main")
    core = CORE + "\n\ndef anew():\n    return 1\n"
    test = "from minipkg.core import anew\n\n\ndef test_anew():\n    assert anew() == 1\n"
    commit(repository, {"src/minipkg/core.py": core, "tests/test_anew.py": test}, "Anew")
    mail = tmp_path / "0001-anew.patch"
    mail.write_bytes(git(repository, "format-patch", "--stdout", "main"))
    args = ("new", "--diff", str(mail), "--python", str(cli.python), "--package", "minipkg")
    assert cli.json(*args, code=0)["flips"] == ["tests/test_anew.py::test_anew"]
    toml = (cli.cwd / "cases/minipkg-0001-anew/case.toml").read_text()
    assert "while_loading = true" in toml and 'title = "Anew"' in toml
    assert cli("ab", "minipkg-0001-anew", "--python", str(cli.python)).returncode == 0


def test_new_without_a_flip_says_so(cli: Cli, repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "idle", "main")
    tests = TESTS.replace("== 3\n", "== 3  # as before\n").replace("test_unset", "test_was_unset")
    core = CORE.replace("that are scaled", "which are scaled")
    commit(repository, {"src/minipkg/core.py": core, "tests/test_core.py": tests}, "Idle")
    args = ("new", "--git", str(repository), "--base", "main", "--head", "idle")
    done = cli(*args, "--python", str(cli.python))
    assert done.returncode == 1 and "nothing is shown yet" in done.stdout


def test_new_refuses_a_change_that_does_not_fit_the_environment(cli: Cli, repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    old = CORE.replace("factor <= 0", "factor < 1")
    commit(repository, {"src/minipkg/core.py": old}, "Another state")
    fixed = old.replace("factor < 1", "factor < 2")
    git(repository, "checkout", "-q", "-b", "other")
    commit(repository, {"src/minipkg/core.py": fixed, "tests/test_a.py": TESTS}, "Other")
    args = ("new", "--git", str(repository), "--base", "main", "--head", "other")
    done = cli(*args, "--python", str(cli.python))
    assert done.returncode == 2, done.stderr
    assert "does not apply" in done.stderr and "--image" in done.stderr
    assert not list((cli.cwd / "cases").glob("*")) if (cli.cwd / "cases").exists() else True


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ((), "either --diff"),
        (("--diff", "x", "--git", "y"), "either --diff"),
        (("--git", "."), "--base"),
        (("--diff", "no.diff"), "no such file"),
        (("--git", ".", "--base", "a", "--tests-from", "b"), "goes with --diff"),
    ],
)
def test_new_is_told_wrong(cli: Cli, args: tuple[str, ...], problem: str) -> None:
    done = cli("new", *args)
    assert done.returncode == 2 and problem in done.stderr


def test_ab_with_a_patch_and_no_case(cli: Cli) -> None:
    (cli.cwd / "fix.patch").write_text(diff(CORE, FIXED))
    (cli.cwd / "tests").mkdir()
    (cli.cwd / "tests/test_core.py").write_text(TESTS)
    args = ("ab", "--patch", "fix.patch", "--tests", "tests/test_core.py", "--package", "minipkg")
    done = cli(*args, "--python", str(cli.python))
    assert done.returncode == 0, done.stderr
    assert "drafted from one run" in done.stderr and "a second run checks them" in done.stderr
    assert "flip-confirmed" in done.stdout and OWED in " ".join(done.stdout.split())
    (run,) = (cli.cwd / "reports/minipkg-fix").iterdir()
    assert json.loads((run / "run.json").read_text())["case_id"] == "minipkg-fix"
    assert (run / "case/tests/test_core.py").read_text() == TESTS
    assert not (cli.cwd / "cases").exists()


def test_ab_with_a_patch_that_no_test_shows(cli: Cli) -> None:
    (cli.cwd / "fix.patch").write_text(diff(CORE, FIXED))
    (cli.cwd / "test_add.py").write_text("def test_add():\n    assert 1 + 1 == 2\n")
    args = ("ab", "--patch", "fix.patch", "--tests", "test_add.py")
    done = cli(*args, "--python", str(cli.python))
    assert done.returncode == 2 and "no test fails without the patch" in done.stderr


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--patch", "fix.patch"), "needs --tests"),
        (("--tests", "tests"), "go with --patch"),
        (("some-case", "--patch", "fix.patch", "--tests", "tests"), "which is meant"),
    ],
)
def test_ab_with_a_patch_is_told_wrong(cli: Cli, args: tuple[str, ...], problem: str) -> None:
    done = cli("ab", *args)
    assert done.returncode == 2 and problem in done.stderr


@pytest.fixture(scope="module")
def wcwidth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases' source distributions as two commits."""
    folder = tmp_path_factory.mktemp("wcwidth")
    for version in ("0.2.9", "0.2.10"):
        tree = open_tree(f"sdist:wcwidth=={version}", cache=folder / "cache")
        for path in (folder / "repo").glob("*"):
            if path.name != ".git":
                git(folder / "repo", "rm", "-rq", "--", path.name)
        commit(folder / "repo", dict(tree.read_many(list(tree.names()))), f"Release {version}")
        git(folder / "repo", "tag", f"v{version}")
    return folder / "repo"


def test_a_real_fix_goes_through_without_editing(cli: Cli, wcwidth: Path) -> None:
    """The release that measured emoji with variation selector 16 (see cases/wcwidth-97)."""
    local = ("--engine", "local")
    args = ("--git", str(wcwidth), "--base", "v0.2.9", "--head", "v0.2.10")
    image = ("--image", "pypi:wcwidth==0.2.9")
    found = cli.json("new", *args, *image, *local, "--id", "wide-emoji", code=0)
    assert "tests/test_emojis.py::test_unicode_9_vs16" in found["flips"]
    assert any("test_package_version" in remark for remark in found["remarks"])
    document = cli.json("ab", found["id"], *local, code=0)
    assert document["verdict"] == "confirmed"
    patch = cli.cwd / "vs16.diff"
    patch.write_bytes(git(wcwidth, "diff", "v0.2.9", "v0.2.10"))
    done = cli(
        *("ab", "--patch", str(patch), "--tests", "tests/test_emojis.py"),
        *("--tests-from", f"{wcwidth}@v0.2.10", "--image", "pypi:wcwidth==0.2.10", *local),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"already has\s+the\s+fix", done.stdout)
    done = cli("new", *args, *local)
    assert "newest release" in done.stderr  # which has changed since: a remedy, and no case
    assert done.returncode == 2 and "does not apply to pypi:wcwidth==" in done.stderr
