"""A change with its test files, from real repositories, diffs and source distributions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.repositories import commit, git, plain_diff, two_commits

from harness.change import Proposal, ad_hoc, from_diff, from_git
from harness.engines.trees import open_tree
from harness.errors import BadInput

BEFORE = {
    "pyproject.toml": '[project]\nname = "The-Dist"\n',
    "pkg/__init__.py": "",
    "pkg/core.py": "def f():\n    return 1\n",
    "pkg/moved.py": "a = 1\nb = 2\nc = 3\nd = 4\n",
    "conftest.py": "X = 1\n",
    "tests/__init__.py": "",
    "tests/util.py": "from .deeper import y\n",
    "tests/deeper.py": "y = 1\n",
    "tests/unrelated.py": "z = 1\n",
    "tests/data/in.txt": "in\n",
    "tests/test_core.py": "from tests import util\n\n\ndef test_f():\n    open('data/in.txt')\n\n\n"
    "def test_g():\n    pass",
    "tests/test_others.py": "def test_other():\n    pass\n",
}
AFTER: dict[str, str | bytes | None] = {
    "pkg/core.py": "def f():\n    return 2\n",
    "pkg/moved.py": None,
    "pkg/moved_to.py": "a = 1\nb = 2\nc = 3\nd = 5\n",
    "tests/test_core.py": "from tests import util\n\n\ndef test_f():\n    open('data/in.txt')\n\n\n"
    "def test_g():\n    assert 1",
    "tests/test_new.py": "def test_new():\n    pass\n",
}
FILES = {
    "conftest.py",
    "tests/__init__.py",
    "tests/util.py",
    "tests/deeper.py",
    "tests/data/in.txt",
    "tests/test_core.py",
    "tests/test_new.py",
}


def check(found: Proposal) -> None:
    """What is known of the change, whatever it was read from."""
    assert (found.package, found.source) == ("pkg", "")
    assert found.tests.keys() == FILES
    for name in ("tests/test_core.py", "tests/test_new.py"):
        assert found.tests[name].decode() == AFTER[name]
    assert found.about == {
        "tests/test_core.py": frozenset({"test_g"}),
        "tests/test_new.py": None,
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return two_commits(tmp_path / "repo", BEFORE, AFTER)


def test_from_git(repository: Path) -> None:
    # What came to main meanwhile is no part of the change.
    git(repository, "checkout", "-q", "main")
    commit(repository, {"pkg/core.py": "def f():\n    return 3\n"}, "Later")
    before = git(repository, "status", "--porcelain", "--branch")
    found = from_git(repository, "main", "fix")
    check(found)
    assert (found.name, found.dist) == ("fix", "The-Dist")
    assert found.title == "Take an unset factor for 1"
    assert git(repository, "status", "--porcelain", "--branch") == before
    git(repository, "checkout", "-q", "main~1")
    subprocess.run(["patch", "-p1", "--fuzz=0"], cwd=repository, input=found.patch, check=True)
    for name in ("pkg/core.py", "pkg/moved_to.py"):
        assert (repository / name).read_text() == AFTER[name]
    assert not (repository / "pkg/moved.py").exists()  # a rename, carried as two files


def test_from_git_renamed_tests_are_read_whole(tmp_path: Path) -> None:
    after: dict[str, str | bytes | None] = {
        "pkg/core.py": "1\n",
        "tests/test_others.py": None,
        "tests/test_named.py": BEFORE["tests/test_others.py"],
    }
    found = from_git(two_commits(tmp_path / "repo", BEFORE, after), "main", "fix")
    assert found.about == {"tests/test_named.py": frozenset()}
    assert found.tests["tests/test_named.py"] == b"def test_other():\n    pass\n"


@pytest.mark.parametrize(("base", "head"), [("nowhere", "fix"), ("main", "nowhere"), ("-x", "fix")])
def test_revisions_that_are_not_there(repository: Path, base: str, head: str) -> None:
    with pytest.raises(BadInput, match="no revision"):
        from_git(repository, base, head)


def test_a_folder_that_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a git repository"):
        from_git(tmp_path, "main", "fix")


def test_branches_without_a_common_commit(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "apart")
    commit(repository, {"pkg/core.py": "1\n"}, "Apart")
    with pytest.raises(BadInput, match="no commit in common"):
        from_git(repository, "main", "apart")


@pytest.mark.parametrize("spec", ["{}@main", "folder"])
@pytest.mark.parametrize("form", ["git", "plain"])
def test_from_diff_with_the_tests_before_it(
    repository: Path, tmp_path: Path, spec: str, form: str
) -> None:
    diff = tmp_path / "pr.diff"
    if form == "git":
        diff.write_bytes(git(repository, "diff", "--no-renames", "main", "fix"))
    else:
        diff.write_bytes(plain_diff(tmp_path / "plain", BEFORE, AFTER, "-ruN"))
    git(repository, "checkout", "-q", "main")
    text = spec.format(repository) if "@" in spec else str(repository)
    check(from_diff(diff, tests_from=open_tree(text, cache=tmp_path)))


def test_from_diff_alone(repository: Path, tmp_path: Path) -> None:
    diff = tmp_path / "pr.diff"
    diff.write_bytes(git(repository, "diff", "--no-renames", "main", "fix"))
    with pytest.raises(BadInput, match=r"tests/test_core\.py is changed, not new") as refused:
        from_diff(diff)
    assert "--tests-from" in refused.value.remedy and "--git" in refused.value.remedy
    only = git(repository, "diff", "--no-renames", "main", "fix", "--", "pkg", "tests/test_new.py")
    diff.write_bytes(only)
    found = from_diff(diff)
    assert found.about == {"tests/test_new.py": None} and found.name == "pr"


def test_tests_from_another_state_are_refused(repository: Path, tmp_path: Path) -> None:
    diff = tmp_path / "pr.diff"
    diff.write_bytes(git(repository, "diff", "--no-renames", "main", "fix"))
    with pytest.raises(BadInput, match=r"test_core\.py: its hunks do not fit"):
        from_diff(diff, tests_from=open_tree(f"{repository}@fix", cache=tmp_path))


def test_binary_test_data_needs_the_repository(tmp_path: Path) -> None:
    after = {"pkg/core.py": "1\n", "tests/test_new.py": "A = 'b.bin'\n", "tests/b.bin": b"\0\1"}
    made = two_commits(tmp_path / "repo", BEFORE, after)
    assert from_git(made, "main", "fix").tests["tests/b.bin"] == b"\0\1"
    diff = tmp_path / "pr.diff"
    diff.write_bytes(git(made, "diff", "--binary", "main", "fix"))
    with pytest.raises(BadInput, match=r"tests/b\.bin is binary"):
        from_diff(diff)


def test_a_change_without_tests(tmp_path: Path) -> None:
    made = two_commits(tmp_path / "repo", BEFORE, {"pkg/core.py": "1\n"})
    with pytest.raises(BadInput, match="no test file") as refused:
        from_git(made, "main", "fix")
    assert "harness ab --patch" in refused.value.remedy


def test_ad_hoc(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = tmp_path / "fix.patch"
    patch.write_bytes(git(repository, "diff", "--no-renames", "main", "fix"))
    monkeypatch.chdir(repository)
    found = ad_hoc(patch, ["tests/test_core.py"])
    assert found.tests.keys() == FILES - {"tests/test_new.py"}
    assert found.about == {"tests/test_core.py": None}
    assert "tests/test_new.py" in {each.path for each in found.left_out}
    folder = ad_hoc(patch, ["tests"])
    assert set(folder.about) == {f"tests/test_{n}.py" for n in ("core", "new", "others")}
    (repository / "tests/link.py").symlink_to("/etc/passwd")
    assert "tests/link.py" not in ad_hoc(patch, ["tests"]).tests
    monkeypatch.chdir(tmp_path)
    elsewhere = ad_hoc(patch, [str(repository / "tests/test_new.py")])
    assert set(elsewhere.tests) == {"tests/test_new.py"}
    tree = open_tree(f"{repository}@main", cache=tmp_path)
    old = ad_hoc(patch, ["tests/test_core.py"], tests_from=tree)
    assert old.tests["tests/test_core.py"].decode() == BEFORE["tests/test_core.py"]
    for wrong in ("tests/nothing.py", "tests/util.txt"):
        with pytest.raises(BadInput, match="--tests"):
            ad_hoc(patch, [wrong])
        with pytest.raises(BadInput, match="--tests"):
            ad_hoc(patch, [wrong], tests_from=tree)
