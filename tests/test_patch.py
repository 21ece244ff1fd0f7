"""The patch parser refuses what `patch -p1` cannot carry, and the rules what may not be touched."""

from __future__ import annotations

import json
import subprocess

import pytest

from harness import unidiff_parser
from harness.errors import PatchRefused
from harness.patch import (
    Patch,
    for_package,
    moved_line,
    parse_patch,
    render,
    to_json,
    touches,
)

HUNK = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
GIT = "diff --git a/pkg/m.py b/pkg/m.py\nindex 1111111..2222222 100644\n"
NAMES = "--- a/pkg/m.py\n+++ b/pkg/m.py\n"
NEW = "diff --git a/pkg/n.py b/pkg/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/pkg/n.py\n"
GONE = (
    "diff --git a/pkg/o.py b/pkg/o.py\ndeleted file mode 100644\n--- a/pkg/o.py\n+++ /dev/null\n"
    "@@ -1 +0,0 @@\n-old\n"
)


def parse(text: str | bytes) -> Patch:
    data = text.encode() if isinstance(text, str) else text
    return parse_patch(data, where="fix.patch")


def plain(path: str, old: str = "") -> str:
    return f"--- a/{old or path}\n+++ b/{path}\n{HUNK}"


def mapped(*paths: str, package: str = "pkg", source: str | None = None) -> list[str]:
    patch = parse("".join(plain(path) for path in paths))
    return [
        file.path
        for file in for_package(patch, package=package, source=source, where="fix.patch").files
    ]


def test_git_and_plain_forms_read_alike() -> None:
    git = parse(GIT + NAMES + HUNK)
    stamped = "--- old/pkg/m.py\t2026-01-02 03:04:05.5 +0100\n+++ new/pkg/m.py\t2026-01-02\n"
    assert git == parse(stamped + HUNK) == parse("diff -u x y\n" + NAMES + HUNK)
    (hunk,) = git.files[0].hunks
    assert git.files[0].path == "pkg/m.py"
    assert (hunk.old_count, hunk.new_count) == (2, 2)
    assert hunk.lines == (b" a\n", b"-b\n", b"+c\n")


def test_message_before_and_signature_after_are_no_diff() -> None:
    text = "From 1234\nSubject: [PATCH] x\n\n- a list\n+ of things\n---\n pkg/m.py | 2 +-\n\n"
    assert parse(text + GIT + NAMES + HUNK + "-- \n2.39.2\n\n") == parse(NAMES + HUNK)


@pytest.mark.parametrize("text", ["", "\n", "# nothing to change\n", "Subject: nothing\n\n- a\n"])
def test_text_without_hunks_changes_nothing(text: str) -> None:
    patch = parse(text)
    assert patch == Patch()
    assert (patch.hunk_count, render(patch), json.loads(to_json(patch))) == (0, b"", {"files": []})


def test_new_and_deleted_files() -> None:
    new, gone = parse(NEW + "@@ -0,0 +1 @@\n+new\n" + GONE).files
    assert (new.path, new.creates, new.deletes) == ("pkg/n.py", True, False)
    assert (gone.path, gone.creates, gone.deletes) == ("pkg/o.py", False, True)


@pytest.mark.parametrize(
    ("stamp", "creates"),
    [
        ("1970-01-01 00:00:00.000000000 +0000", True),
        ("1970-01-01 01:00:00.000000000 +0100", True),
        ("1969-12-31 19:00:00 -0500", True),
        ("1970-01-01 00:00:00.000000000 +0100", False),
        ("2026-13-45 00:00:00 +0000", False),
        ("", False),
    ],
)
def test_the_epoch_stands_for_a_missing_file(stamp: str, creates: bool) -> None:
    text = f"--- a/pkg/n.py\t{stamp}\n+++ b/pkg/n.py\t2026-01-01\n@@ -0,0 +1 @@\n+new\n"
    assert parse(text).files[0].creates is creates


def test_a_last_line_without_newline_is_kept_as_such() -> None:
    text = NAMES + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    patch = parse(text)
    assert patch.files[0].hunks[0].lines == (b"-a", b"+b\n")
    assert render(patch) == text.encode()


def test_stripped_empty_context_and_cut_last_newline_are_what_patch_makes_of_them() -> None:
    patch = parse(NAMES + "@@ -1,3 +1,3 @@ def f():\n\n-b\n+c\n d")
    assert patch.files[0].hunks[0].lines == (b" \n", b"-b\n", b"+c\n", b" d\n")
    assert b"@@ def f():\n \n-b" in render(patch)


def test_carriage_returns_and_odd_bytes_of_the_files_survive() -> None:
    text = NAMES.encode() + b"@@ -1 +1 @@\n-a\xff\r\n+b\xfe\x0c\r\n"
    assert render(parse(text)) == text
    assert json.loads(to_json(parse(text)))["files"][0]["hunks"][0]["lines"] == [
        "-a\xff\r\n",
        "+b\xfe\x0c\r\n",
    ]


@pytest.mark.parametrize(
    "head", ["", 'diff --git "a/pkg/\\303\\244 \\".py" "b/pkg/\\303\\244 \\".py"\n']
)
def test_paths_that_git_quoted_are_read(head: str) -> None:
    quoted = '"a/pkg/\\303\\244 \\".py"'
    (file,) = parse(f"{head}--- {quoted}\n+++ {quoted.replace('a/', 'b/', 1)}\n" + HUNK).files
    assert file.path == 'pkg/ä ".py'


REFUSED = {
    "rename": (GIT + "similarity index 90%\nrename from pkg/l.py\n", "renames a file", 4),
    "copy": (GIT + "copy from pkg/l.py\n", "copies a file", 3),
    "mode": (GIT + "old mode 100644\nnew mode 100755\n", "mode of a file", 3),
    "new link": (GIT + "new file mode 120000\n", "symbolic link", 3),
    "changed link": ("diff --git a/p b/p\nindex 1..2 120000\n" + NAMES + HUNK, "symbolic link", 2),
    "submodule": (GIT + "new file mode 160000\n", "submodule", 3),
    "binary": (GIT + "GIT binary patch\nliteral 4\n", "is binary", 3),
    "binary, named": ("Binary files a/x.so and b/x.so differ\n", "is binary", 1),
    "NUL": (NAMES + "@@ -1 +1 @@\n-a\n+\0\n", "NUL byte", 5),
    "quoted": ('--- "a/pkg/\\303.py"\n+++ "b/pkg/\\303.py"\n' + HUNK, "not UTF-8", 1),
    "not UTF-8": (b"--- a/pkg/\xff.py\n+++ b/pkg/\xff.py\n" + HUNK.encode(), "not UTF-8", 1),
    "control": ("--- a/pkg/\x1b.py\n+++ b/pkg/\x1b.py\n" + HUNK, "control character", 1),
    "backslash": (plain("pkg\\m.py"), "backslash", 1),
    "CRLF": ((NAMES + HUNK).replace("\n", "\r\n"), "CRLF", 1),
    "CRLF, git": ((GIT + NAMES + HUNK).replace("\n", "\r\n"), "CRLF", 1),
    "CRLF, hunk": (NAMES + HUNK.replace("\n", "\r\n"), "CRLF", 3),
    "absolute": ("--- /pkg/m.py\n+++ /pkg/m.py\n" + HUNK, "absolute", 1),
    "absolute after -p1": (plain("/etc/m.py"), "empty part", 1),
    "dots": (plain("pkg/../m.py"), "'..'", 1),
    "dots first": ("--- ../pkg/m.py\n+++ ../pkg/m.py\n" + HUNK, "'..'", 1),
    "no prefix": ("--- m.py\n+++ m.py\n" + HUNK, "for -p1 to strip", 1),
    "two names": (plain("pkg/m.py", old="pkg/l.py"), "names differ", 2),
    "git, other": (GIT + plain("pkg/l.py"), "names other files", 1),
    "cut off": (NAMES + "@@ -1,2 +1,2 @@\n a\n-b\n", "ends inside a hunk", 6),
    "cut off, names": (NAMES, "hunks are missing", 3),
    "git, no hunks": (GIT + GIT + NAMES + HUNK, "without hunks", 1),
    "empty new": (GIT + "new file mode 100644\nindex 0..e\n", "empty file", 1),
    "too few": (
        NAMES + HUNK.replace("1,2 +1,2", "1,3 +1,3") + NAMES + HUNK,
        "a file begins here",
        7,
    ),
    "too few, git": (NAMES + HUNK.replace("1,2", "1,3") + GIT, "do not agree", 7),
    "too many": (NAMES + HUNK + " d\n", "follows a hunk that is complete", 7),
    "too many, later": (NAMES + HUNK + "\n+d\n", "follows a hunk that is complete", 8),
    "foreign line": (NAMES + "@@ -1,2 +1,2 @@\n a\n*b\n+c\n", "do not agree", 5),
    "header": (NAMES + "@@ -1,2 1,2 @@\n a\n-b\n+c\n", "not a hunk header", 3),
    "header, later": (NAMES + HUNK + "@@ -x +1 @@\n", "not a hunk header", 7),
    "no names": (HUNK, "without the names", 1),
    "line 0": (NAMES + "@@ -0 +1 @@\n-b\n+c\n", "line 0", 3),
    "order": (NAMES + HUNK.replace("1,2", "9,2") + HUNK, "wrong order", 7),
    "overlap": (NAMES + HUNK + HUNK.replace("1,2", "2,2"), "overlaps", 7),
    "nothing": (NAMES + "@@ -1 +1 @@\n a\n", "changes nothing", 3),
    "end twice": (NAMES + "@@ -1,2 +1 @@\n-a\n\\ No newline\n-b\n+c\n", "file's last", 6),
    "end early": (NAMES + "@@ -1 +1 @@\n-a\n+b\n\\ No newline\n@@ -3 +3 @@\n", "file's last", 7),
    "merge": ("diff --cc pkg/m.py\n", "combined diff", 1),
    "context diff": ("*** a\n--- b\n***************\n*** 1 ****\n", "context diff", 3),
    "normal diff": ("1c1\n< a\n---\n> b\n", "no unified diff", 1),
    "new in two": (NEW + "@@ -0,0 +1 @@\n+a\n@@ -3 +4 @@\n-b\n+c\n", "one hunk", 10),
    "new of old": (NEW + HUNK, "one hunk", 9),
    "new by half": (NEW.replace("new file mode", "index") + "@@ -0,0 +1 @@\n+a\n", "differ", 1),
    "gone by half": (NAMES.replace("b/pkg/m.py", "/dev/null") + HUNK, "'+0,0 @@'", 7),
}


@pytest.mark.parametrize(("text", "problem", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_by_name_and_line(text: str | bytes, problem: str, line: int) -> None:
    with pytest.raises(PatchRefused) as refused:
        parse(text)
    assert problem in refused.value.problem
    assert refused.value.problem.startswith(f"fix.patch:{line}: ")
    assert refused.value.remedy


def test_absurd_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    hunks = "".join(f"@@ -{n} +{n} @@\n-a\n+b\n" for n in range(1, 5))
    monkeypatch.setattr(unidiff_parser, "MAX_HUNKS", 4)
    assert parse(NAMES + hunks).hunk_count == 4
    with pytest.raises(PatchRefused, match="more than 4 hunks"):
        parse(NAMES + hunks + plain("pkg/other.py"))
    with pytest.raises(PatchRefused, match="larger than 16 MiB"):
        parse(b"#" * (16 * 1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("path", "package", "source", "installed"),
    [
        ("pkg/sub/m.py", "pkg", None, "pkg/sub/m.py"),
        ("src/pkg/m.py", "pkg", None, "pkg/m.py"),
        ("lib/python/pkg/m.py", "pkg", None, "pkg/m.py"),
        ("lib/python/pkg/m.py", "pkg", "lib/python", "pkg/m.py"),
        ("src/pkg/m.py", "pkg", "src/", "pkg/m.py"),
        ("pkg/pkg/m.py", "pkg", "", "pkg/pkg/m.py"),
        ("pkg/pkg/m.py", "pkg", "pkg", "pkg/m.py"),
        ("pkg/m.py", "pkg", ".", "pkg/m.py"),
        ("src/six.py", "six", None, "six.py"),
        ("six.py", "six", "", "six.py"),
        ("pkg/testing/helpers.py", "pkg", None, "pkg/testing/helpers.py"),
        ("pkg/tests/data.py", "pkg", None, "pkg/tests/data.py"),
        ("pkg/latest.py", "pkg", None, "pkg/latest.py"),
    ],
)
def test_paths_map_to_the_installed_layout(
    path: str, package: str, source: str | None, installed: str
) -> None:
    assert mapped(path, package=package, source=source) == [installed]


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        (["setup.py"], "not under the package 'pkg'"),
        (["pkg"], "not under the package 'pkg'"),
        (["pkgs/m.py"], "not under the package 'pkg'"),
        (["Pkg/m.py"], "not under the package 'pkg'"),
        (["tests/pkg/helper.py"], "copy of the package's layout"),
        (["pkg/tests/test_m.py"], "is a test file"),
        (["pkg/m_test.py"], "is a test file"),
        (["tests/test_m.py"], "is a test file"),
        (["pkg/conftest.py"], "configures pytest"),
        (["conftest.py"], "configures pytest"),
        (["pytest.ini"], "configures pytest"),
        (["tox.ini"], "configures pytest"),
        (["pkg/setup.cfg"], "configures pytest"),
        (["pyproject.toml"], "configures pytest"),
        (["pkg/sitecustomize.py"], "start of every Python"),
        (["usercustomize.py"], "start of every Python"),
        (["pkg/x.pth"], "start of every Python"),
        (["pkg/pytest_plugin.py"], "pytest plugin"),
        (["pkg/my_pytest_x_plugin.py"], "pytest plugin"),
        (["pkg-1.dist-info/entry_points.txt"], "registers plugins"),
        (["pkg-1.dist-info/METADATA"], "installer's record"),
        (["pkg.egg-info/PKG-INFO"], "installer's record"),
        (["pkg/__pycache__/m.txt"], "compiled"),
        (["pkg/m.py", "pkg/m.py"], "in the patch twice"),
        (["pkg/m.py", "pkg/M.py"], "differs only in case"),
        (["src/pkg/m.py", "lib/pkg/n.py"], "several folders: 'src' of src/pkg/m.py, 'lib'"),
    ],
)
def test_what_a_production_patch_may_not_touch(paths: list[str], problem: str) -> None:
    with pytest.raises(PatchRefused) as refused:
        mapped(*paths)
    assert problem in refused.value.problem
    assert refused.value.problem.startswith("fix.patch: ")
    assert paths[-1] in refused.value.problem
    assert refused.value.remedy


def test_a_stated_source_is_the_only_one() -> None:
    with pytest.raises(PatchRefused, match="is not under 'src/pkg'"):
        mapped("pkg/m.py", source="src")
    with pytest.raises(PatchRefused, match="is not under 'six'"):
        mapped("six.pyi", package="six", source="")


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(PatchRefused) as refused:
        mapped("pkg/conftest.py", "pkg/ok.py", "setup.py")
    assert len(refused.value.problem.splitlines()) == 2


def test_rendered_headers_are_what_patch_reads(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = plain("src/pkg/a b.py") + NEW.replace("pkg/", "src/pkg/") + "@@ -0,0 +1 @@\n+new\n"
    patch = for_package(
        parse(text + GONE.replace("pkg/", "src/pkg/")), package="pkg", source=None, where="p"
    )
    tree = tmp_path_factory.mktemp("tree")
    (tree / "pkg").mkdir()
    (tree / "pkg/a b.py").write_bytes(b"a\nb\n")
    (tree / "pkg/o.py").write_bytes(b"old\n")
    subprocess.run(["patch", "-p1", "--fuzz=0"], cwd=tree, input=render(patch), check=True)
    assert {p.name: p.read_bytes() for p in (tree / "pkg").iterdir()} == {
        "a b.py": b"a\nc\n",
        "n.py": b"new\n",
    }
    assert parse(render(patch)) == patch


@pytest.mark.parametrize(
    ("line", "new"),
    [(1, 1), (4, 4), (5, 7), (6, 8), (7, 8), (8, 9), (9, 10), (20, 21), (21, 23), (30, 32)],
)
def test_lines_move_with_the_hunks_before_them(line: int, new: int) -> None:
    text = "@@ -4,5 +4,6 @@\n l4\n+n5\n+n6\n l5\n-l6\n-l7\n+n8\n l8\n@@ -20,0 +21 @@\n+n21\n"
    assert moved_line(parse(NAMES + text), "site-packages/pkg/m.py", line) == new


def test_paths_compare_by_whole_last_parts() -> None:
    patch = parse(plain("pkg/a/m.py") + plain("pkg/b/m.py"))
    assert touches(patch, "/usr/lib/python3/pkg/a/m.py")
    assert touches(patch, "a/m.py")
    assert touches(patch, "m.py")
    assert not touches(patch, "xm.py")
    assert not touches(patch, "other/a/m.py")
    assert not touches(patch, "")
    longer = parse(NAMES + "@@ -1 +1,2 @@\n-a\n+b\n+c\n" + plain("pkg/b/m.py"))
    assert moved_line(longer, "pkg/m.py", 5) == 6
    assert moved_line(longer, "m.py", 5) == 5  # two files fit: which one is not known
    assert moved_line(longer, "pkg/other.py", 5) == 5
