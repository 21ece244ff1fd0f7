"""Splitting a change, on what real git and diff print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.repositories import commit, git, plain_diff, two_commits

from harness.errors import BadInput, PatchRefused
from harness.split import Split, case_path, is_test, split
from harness.unidiff import render
from harness.unidiff_changes import Change, parse_changes, subject, without_rename

BEFORE = {
    "src/pkg/__init__.py": "",
    "src/pkg/core.py": "def f():\n    return 1\n",
    "src/pkg/dos.py": b"a = 1\r\nb = 2\r\n",
    "src/pkg/gone.py": "gone = True\n",
    "src/pkg/tail.py": "x = 1",
    "src/pkg/tool.py": "# tool\n",
    "src/pkg/fast.c": "int f;\n",
    "tests/test_core.py": "def test_f():\n    pass\n",
    "tests/test_old.py": "def test_old():\n    assert True\n",
    "docs/logo.png": b"\0\1",
    "README.md": "old\n",
    "pyproject.toml": "[project]\n",
}
AFTER: dict[str, str | bytes | None] = {
    "src/pkg/core.py": "def f():\n    return 2\n",
    "src/pkg/dos.py": b"a = 1\r\nb = 3\r\n",
    "src/pkg/gone.py": None,
    "src/pkg/tail.py": "x = 2",
    "src/pkg/fast.c": "int g;\n",
    "src/pkg/more/__init__.py": "",
    "src/pkg/more/näh.py": "y = 1\n",
    "tests/test_core.py": "def test_f():\n    assert 1\n",
    "tests/data/in.txt": "1\n",
    "tests/__init__.py": "",
    "tests/test_old.py": None,
    "tests/test_new.py": "def test_old():\n    assert True\n",
    "docs/logo.png": b"\0\2",
    "README.md": "new\n",
    "pyproject.toml": '[project]\nname = "pkg"\n',
    ".github/workflows/ci.yml": "on: push\n",
}
PRODUCTION = {"core.py", "dos.py", "gone.py", "tail.py", "more/__init__.py", "more/näh.py"}


def parts(data: bytes, package: str = "") -> Split:
    return split(parse_changes(data, where="pr.diff"), where="pr.diff", package=package)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = two_commits(tmp_path / "repo", BEFORE, AFTER)
    (made / "src/pkg/tool.py").chmod(0o755)
    commit(made, {}, "fix: the mode\n\nof a tool")
    return made


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--no-renames",),
        ("--binary", "--full-index"),
        ("-U0",),
        ("--stat", "-p"),
        ("--src-prefix=i/", "--dst-prefix=w/"),
    ],
)
def test_what_git_diff_prints(repository: Path, options: tuple[str, ...]) -> None:
    found = parts(git(repository, "diff", *options, "main", "fix"))
    assert (found.package, found.source) == ("pkg", "src")
    production = {file.path.removeprefix("src/pkg/"): file for file in found.production.files}
    assert production.keys() == PRODUCTION
    assert production["gone.py"].deletes and production["more/näh.py"].creates
    tests = {change.path for change in found.tests}
    assert tests == {
        "tests/" + n for n in ("test_core.py", "data/in.txt", "__init__.py", "test_new.py")
    }
    why = {each.path: each.why for each in found.left_out}
    assert why["README.md"] == why["docs/logo.png"] == "documentation"
    assert why["pyproject.toml"] == "packaging"
    assert why[".github/workflows/ci.yml"] == "continuous integration"
    assert "mode" in why["src/pkg/tool.py"] and "compiled" in why["src/pkg/fast.c"]
    assert "empty" in why["src/pkg/more/__init__.py"]


def test_the_patch_makes_the_checkout_as_it_is_after_the_change(repository: Path) -> None:
    found = parts(git(repository, "diff", "main", "fix"))
    git(repository, "checkout", "-q", "main")
    patched = subprocess.run(
        ["patch", "-p1", "--fuzz=0", "--batch", "--no-backup-if-mismatch"],
        cwd=repository,
        input=found.patch,
        capture_output=True,
        check=False,
    )
    assert patched.returncode == 0, patched.stdout
    for name in PRODUCTION - {"gone.py", "more/__init__.py"}:
        wanted = git(repository, "show", f"fix:src/pkg/{name}")
        assert (repository / "src/pkg" / name).read_bytes() == wanted
    assert not (repository / "src/pkg/gone.py").exists()


def test_a_mail_of_git_format_patch(repository: Path) -> None:
    git(repository, "reset", "-q", "--soft", "main")
    git(repository, "commit", "-q", "-m", "Repair it\n\n--- a/not/a.py\nbut text\n")
    mail = git(repository, "format-patch", "--stdout", "main")
    assert subject(mail) == "Repair it"
    assert {f.path.removeprefix("src/pkg/") for f in parts(mail).production.files} == PRODUCTION


def test_a_series_of_mails_on_one_file_is_refused(repository: Path) -> None:
    commit(repository, {"src/pkg/core.py": "def f():\n    return 3\n"}, "Again")
    with pytest.raises(PatchRefused, match=r"core\.py is in it twice") as refused:
        parts(git(repository, "format-patch", "--stdout", "main"))
    assert "BASE...HEAD" in refused.value.remedy


@pytest.mark.parametrize("options", [("-ruN",), ("-ruN", "-U0"), ("-rupN",)])
def test_what_plain_diff_prints(tmp_path: Path, options: tuple[str, ...]) -> None:
    found = parts(plain_diff(tmp_path, BEFORE, AFTER, *options))
    assert (found.package, found.source) == ("pkg", "src")
    # diff says nothing of empty files.
    names = {file.path.removeprefix("src/pkg/") for file in found.production.files}
    assert names == PRODUCTION - {"more/__init__.py"}
    assert {file.path for file in found.production.files if file.deletes} == {"src/pkg/gone.py"}
    assert "tests/data/in.txt" in {change.path for change in found.tests}


def test_plain_diff_without_new_files_is_refused(tmp_path: Path) -> None:
    after = {"src/pkg/core.py": "1\n", "src/pkg/new.py": "1\n"}
    with pytest.raises(PatchRefused, match=r"src/pkg/new\.py.*lacks its content") as refused:
        parts(plain_diff(tmp_path, BEFORE, after, "-ru"))
    assert "diff -ruN" in refused.value.remedy


def test_a_renamed_production_file(tmp_path: Path) -> None:
    before = {"pkg/a.py": "a = 1\nb = 2\nc = 3\n", "pkg/x.py": "1\n"}
    after = {"pkg/a.py": None, "pkg/b.py": "a = 1\nb = 2\nc = 4\n", "pkg/x.py": "2\n"}
    made = two_commits(tmp_path / "repo", before, after)
    with pytest.raises(PatchRefused, match=r"pkg/b\.py: is renamed from pkg/a\.py") as refused:
        parts(git(made, "diff", "-M10", "main", "fix"))
    assert "--no-renames" in refused.value.remedy and "--git" in refused.value.remedy
    found = parts(git(made, "diff", "--no-renames", "main", "fix"))
    assert [file.path for file in found.production.files] == ["pkg/a.py", "pkg/b.py", "pkg/x.py"]


@given(st.binary(min_size=1).filter(lambda data: b"\0" not in data and b"\r" not in data))
def test_a_rename_is_a_deleted_and_a_new_file(content: bytes) -> None:
    change = Change(path="pkg/b.py", old="pkg/a.py")
    made = without_rename(change, content, content + b"end")
    text = b"".join(render(_patch(part)) for part in made)
    again = parse_changes(text, where="x")
    assert [part.file for part in again] == [part.file for part in made]


def _patch(change: Change):  # type: ignore[no-untyped-def]
    from harness.unidiff import Patch

    assert change.file is not None
    return Patch(files=(change.file,))


@pytest.mark.parametrize("what", ["binary", "link"])
def test_production_files_that_no_patch_carries_are_refused_by_name(
    tmp_path: Path, what: str
) -> None:
    repository = tmp_path / "repo"
    commit(repository, {"pkg/x.py": "1\n", "pkg/data.bin": b"\0\1"}, "one")
    git(repository, "checkout", "-q", "-b", "fix")
    if what == "binary":
        commit(repository, {"pkg/x.py": "2\n", "pkg/data.bin": b"\0\2"}, "two")
    else:
        (repository / "pkg/data.link").symlink_to("x.py")
        commit(repository, {"pkg/x.py": "2\n"}, "two")
    for options in ((), ("--binary",)):
        with pytest.raises(PatchRefused, match=rf"pkg/data\.(bin|link): is .*{what}"):
            parts(git(repository, "diff", *options, "main", "fix"))


def test_a_diff_without_prefixes_is_refused(repository: Path) -> None:
    with pytest.raises(PatchRefused, match="no prefix") as refused:
        parts(git(repository, "diff", "--no-prefix", "main", "fix"))
    assert "noprefix" in refused.value.remedy


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "no diff in it"),
        (b"hello\n", "no diff in it"),
        (b"--- a/p/x.py\n+++ b/p/x.py\n@@ -1 +1 @@\n-\0\n+1\n", "NUL"),
        (b"--- a/p/x.py\r\n+++ b/p/x.py\r\n@@ -1 +1 @@\r\n-1\r\n+2\r\n", "CRLF"),
        (b"diff --cc p/x.py\n", "combined"),
    ],
)
def test_what_is_no_diff_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(PatchRefused, match=problem):
        parts(text)


def change(*paths: str) -> bytes:
    return "".join(f"--- a/{p}\n+++ b/{p}\n@@ -1 +1 @@\n-1\n+2\n" for p in paths).encode()


@pytest.mark.parametrize(
    ("path", "package", "source"),
    [
        ("click/core.py", "click", ""),
        ("six.py", "six", ""),
        ("src/click/core.py", "click", "src"),
        ("lib/python/foo/x.py", "foo", "lib/python"),
        ("python/ray/util/x.py", "ray", "python"),
        ("packages/foo/src/foo/x.py", "foo", "packages/foo/src"),
        ("packages/foo/foo/x.py", "foo", "packages/foo"),
        ("my-project/my_project/x.py", "my_project", "my-project"),
        ("django/test/client.py", "django", ""),
        ("numpy/testing/_private/utils.py", "numpy", ""),
    ],
)
def test_the_package_is_found_from_the_path(path: str, package: str, source: str) -> None:
    for stated in ("", package):
        found = parts(change(path), stated)
        assert (found.package, found.source) == (package, source)


def test_a_repository_of_several_packages_must_be_told_which() -> None:
    data = change("libs/core/one/x.py", "libs/more/two/y.py")
    with pytest.raises(BadInput, match=r"one \(in libs/core\), two \(in libs/more\)") as refused:
        parts(data)
    assert "--package" in refused.value.remedy
    found = parts(data, "two")
    assert [file.path for file in found.production.files] == ["libs/more/two/y.py"]
    assert found.left_out[0].path == "libs/core/one/x.py"
    with pytest.raises(BadInput, match="no file of the package 'three'"):
        parts(data, "three")


@pytest.mark.parametrize("path", ["docs/conf.py", "setup.py", "tests/test_x.py", "README.md"])
def test_a_change_of_no_package_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="no package's code"):
        parts(change(path))


def test_a_checkout_tells_packages_by_their_init_files() -> None:
    there = {"a/b/__init__.py", "a/b/c/__init__.py"}
    changes = parse_changes(change("a/b/c/x.py"), where="x")
    found = split(changes, where="x", known=there.__contains__)
    assert (found.source, found.package) == ("a", "b")


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/x/data.json", True),
        ("src/pkg/tests/util.py", True),
        ("pkg/test_x.py", True),
        ("x_test.py", True),
        ("conftest.py", True),
        ("testing/test_x.py", True),
        ("unit_tests/x.py", True),
        ("src/click/testing.py", False),
        ("django/test/client.py", False),
        ("contest.py", False),
    ],
)
def test_what_is_a_test(path: str, test: bool) -> None:
    assert is_test(path) is test


def test_tests_inside_of_the_package_move_out_of_it() -> None:
    found = parts(change("src/pkg/x.py"))
    assert case_path("src/pkg/tests/a/test_x.py", found) == "tests/a/test_x.py"
    assert case_path("tests/a/test_x.py", found) == "tests/a/test_x.py"
    with pytest.raises(BadInput, match=r"\.\."):
        case_path("../tests/test_x.py", found)
