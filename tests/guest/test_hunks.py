"""The built-in applier against the real GNU patch: same verdict, same offsets, same bytes."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import PatchRefused
from harness.guest import hunks, patching
from harness.patch import FilePatch, Hunk, Patch, parse_patch, render, to_json

needs_patch = pytest.mark.skipif(not patching.gnu_patch(), reason="needs GNU patch 2.7 or later")
Tree = dict[str, bytes]


def patcher(folder: Path, files: Tree, patch: Patch) -> patching.Patcher:
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content)
    (folder / "p.patch").write_bytes(render(patch))
    entries = json.loads(to_json(patch))["files"]
    return patching.Patcher(str(tree), str(folder / "p.patch"), entries, hunks)


def contents(folder: Path) -> dict[str, bytes | None]:
    tree = folder / "tree"
    return {
        str(path.relative_to(tree)): path.read_bytes() if path.is_file() else None
        for path in tree.rglob("*")
    }


def both_tools(folder: Path, files: Tree, patch: Patch, *, reverse: bool) -> tuple[bool, object]:
    """Apply with either tool; return whether it applied, and hunks and files (equal for both)."""
    seen = []
    for tool in ("", patching.BUILT_IN):
        with_tool = patcher(folder, files, patch)
        with_tool.tool = tool or with_tool.tool
        dry = with_tool.run(reverse=reverse, write=False)
        assert contents(folder) == contents_of(files), "a dry run wrote"
        wet = with_tool.run(reverse=reverse, write=True)
        assert wet.applies == dry.applies
        assert wet.hunks == dry.hunks or not dry.applies
        after = contents(folder)
        assert dry.applies or after == contents_of(files), "a rejected patch left something"
        seen.append((dry.applies, dry.hunks if dry.applies else None, after))
    gnu, own = seen
    assert own == gnu
    return gnu[0], gnu[1:]


def contents_of(files: Tree) -> dict[str, bytes | None]:
    folders = {str(parent) for path in files for parent in Path(path).parents} - {"."}
    return {**dict.fromkeys(folders), **files}


def lines_of(alphabet: str, most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(alphabet).map(lambda c: f"{c}\n"), max_size=most)


@st.composite
def edits(draw: st.DrawFn, lines: list[str], alphabet: str, most: int) -> list[str]:
    """The lines with some replaced, removed or added; perhaps without a newline at the end."""
    lines = list(lines)
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 2))] = draw(lines_of(alphabet, 3))
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    if draw(st.integers(0, 3)) == 0:
        text = text.removesuffix("\n")
    return text.splitlines(keepends=True)


def diff(old: list[str], new: list[str], context: int) -> tuple[Hunk, ...]:
    found: list[Hunk] = []
    for line in list(difflib.unified_diff(old, new, n=context))[2:]:
        if line.startswith("@@"):
            starts = [int(word[1:].split(",")[0]) for word in line.split()[1:3]]
            found.append(Hunk(header=b"", old_start=starts[0], new_start=starts[1], lines=()))
        else:
            found[-1] = replace(found[-1], lines=(*found[-1].lines, line.encode()))
    return tuple(found)


@st.composite
def mangled(draw: st.DrawFn, hunk: Hunk) -> Hunk:
    """The hunk with less context on one side, or at another line."""
    lines, shift = hunk.lines, 0
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()) and lines[0].startswith(b" "):
            lines, shift = lines[1:], shift + 1
        elif lines[-1].startswith(b" "):
            lines = lines[:-1]
    shift += draw(st.sampled_from((0, 0, 0, 1, 2, -1, -2)))
    old, new = max(hunk.old_start + shift, 0), max(hunk.new_start + shift, 0)
    hunk = replace(hunk, lines=lines, old_start=old, new_start=new)
    header = f"@@ -{old},{hunk.old_count} +{new},{hunk.new_count} @@"
    return replace(hunk, header=header.encode())


@st.composite
def situations(draw: st.DrawFn) -> tuple[bytes, Patch]:
    """A patch, and a file that is more or less what it was made for."""
    alphabet = draw(st.sampled_from(("ab", "abc", "abcdefgh")))
    old = draw(edits(draw(lines_of(alphabet, 25)), alphabet, 0))
    new = draw(edits(old, alphabet, 3))
    found = [draw(mangled(hunk)) for hunk in diff(old, new, draw(st.integers(0, 3)))]
    target = draw(edits(draw(st.sampled_from((old, old, new))), alphabet, 2))
    patch = Patch(files=(FilePatch(path="m.py", hunks=tuple(found)),))
    return "".join(target).encode(), patch


def parses(patch: Patch) -> bool:
    """Whether the parser takes the hunks: it refuses those that overlap."""
    try:
        return parse_patch(render(patch), where="p") == patch and patch.hunk_count > 0
    except PatchRefused:
        return False


@needs_patch
@settings(max_examples=150, deadline=None, database=None)
@given(situation=situations().filter(lambda found: parses(found[1])), reverse=st.booleans())
def test_any_edit_is_judged_and_done_as_gnu_patch_does(
    situation: tuple[bytes, Patch], reverse: bool
) -> None:
    content, patch = situation
    with tempfile.TemporaryDirectory() as folder:
        both_tools(Path(folder), {"m.py": content}, patch, reverse=reverse)


NEW = "--- /dev/null\n+++ b/d/s/n.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
GONE = "--- a/d/o.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
CHANGE = "--- a/m.py\n+++ b/m.py\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n"
NO_END = "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
GIVES_END = "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"
TOP = "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,4 @@\n+n\n a\n b\n c\n"
BOTTOM = "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,4 @@\n a\n b\n c\n+n\n"
OUT = "--- a/m.py\n+++ b/m.py\n@@ -1 +0,0 @@\n-a\n"
FILL = "--- a/m.py\n+++ b/m.py\n@@ -0,0 +1 @@\n+a\n"
TWO = CHANGE + "@@ -12,3 +12,3 @@\n l\n-m\n+M\n n\n"
NEAR = "--- a/m.py\n+++ b/m.py\n@@ -5 +5 @@\n-x\n+y\n"
NEXT = NEAR.replace("5", "2") + "@@ -9 +9 @@\n-z\n+y\n"
UNEVEN = "--- a/m.py\n+++ b/m.py\n@@ -2,2 +2,3 @@\n+n\n b\n c\n"
ALPHABET = "".join(f"{c}\n" for c in "abcdefghijklmnopqrstuvwxyz").encode()
TABLE = {
    "new": (NEW, {}, False, True),
    "new, reversed": (NEW, {"d/s/n.py": b"a\nb\n"}, True, True),
    "new, reversed, folder kept": (NEW, {"d/s/n.py": b"a\nb\n", "d/s/x": b""}, True, True),
    "new, empty is there": (NEW, {"d/s/n.py": b""}, False, True),
    "new, the same is there": (NEW, {"d/s/n.py": b"a\nb\n"}, False, False),
    "new, other is there": (NEW, {"d/s/n.py": b"x\n"}, False, False),
    "gone": (GONE, {"d/o.py": b"a\nb\n"}, False, True),
    "gone, reversed": (GONE, {}, True, True),
    "gone, longer": (GONE, {"d/o.py": b"a\nb\nc\n"}, False, False),
    "gone, without end": (GONE, {"d/o.py": b"a\nb"}, False, False),
    "gone, empty": (GONE, {"d/o.py": b""}, False, False),
    "gone already": (GONE, {}, False, False),
    "change": (CHANGE, {"m.py": ALPHABET}, False, True),
    "change, moved": (CHANGE, {"m.py": b"x\ny\n" + ALPHABET}, False, True),
    "change, not there": (CHANGE, {}, False, False),
    "change, CRLF": (CHANGE, {"m.py": ALPHABET.replace(b"\n", b"\r\n")}, False, False),
    "no end": (NO_END, {"m.py": b"a"}, False, True),
    "no end, has one": (NO_END, {"m.py": b"a\n"}, False, False),
    "no end, reversed": (NO_END, {"m.py": b"a\n"}, True, True),
    "gives end": (GIVES_END, {"m.py": b"a\n"}, False, True),
    "gives end, in the middle": (GIVES_END, {"m.py": b"a\nb\n"}, False, True),
    "top only": (TOP, {"m.py": b"x\na\nb\nc\n"}, False, False),
    "bottom only": (BOTTOM, {"m.py": b"a\nb\nc\nd\n"}, False, False),
    "bottom, moved": (BOTTOM, {"m.py": b"x\na\nb\nc\n"}, False, True),
    "both ways as far, the later is taken": (NEAR, {"m.py": b"a\nb\nx\nd\ne\nf\nx\n"}, False, True),
    "the search starts where the last one led": (
        NEXT, {"m.py": b"1\n2\n3\n4\nx\n6\n7\nz\n9\na\nb\nc\nz\n"}, False, True
    ),
    "uneven context ties to the top only at line 1": (UNEVEN, {"m.py": ALPHABET}, False, True),
    "out": (OUT, {"m.py": b"a\n"}, False, True),
    "out, reversed": (OUT, {"m.py": b""}, True, True),
    "fill": (FILL, {"m.py": b""}, False, True),
    "fill, has content": (FILL, {"m.py": b"x\n"}, False, True),
    "half": (TWO, {"m.py": ALPHABET.replace(b"m\n", b"")}, False, False),
    "half, other half": (TWO, {"m.py": ALPHABET.replace(b"c\n", b"")}, False, False),
    "three files": (
        TWO + NEW + GONE, {"m.py": b"x\n" + ALPHABET, "d/o.py": b"a\nb\n"}, False, True
    ),
    "three files, one off": (TWO + NEW + GONE, {"m.py": ALPHABET, "d/o.py": b""}, False, False),
}  # fmt: skip


@needs_patch
@pytest.mark.parametrize(("text", "files", "reverse", "applies"), TABLE.values(), ids=TABLE.keys())
def test_new_and_gone_files_ends_and_halves_as_gnu_patch_does(
    tmp_path: Path, text: str, files: Tree, reverse: bool, applies: bool
) -> None:
    patch = parse_patch(text.encode(), where="p")
    assert both_tools(tmp_path, files, patch, reverse=reverse)[0] is applies


def test_offsets_count_from_where_the_patch_said(tmp_path: Path) -> None:
    patch = parse_patch(TWO.encode(), where="p")
    shifted = ALPHABET.replace(b"a\n", b"a\nx\n").replace(b"g\n", b"g\ny\nz\n")
    tool = patcher(tmp_path, {"m.py": shifted}, patch)
    tool.tool = patching.BUILT_IN
    assert tool.fit() == ("offset", [("m.py", 1, 1), ("m.py", 2, 3)], "")


def own(folder: Path, text: str, *, write: bool = True) -> tuple[bool, str]:
    entries = json.loads(to_json(parse_patch(text.encode(), where="p")))["files"]
    ok, _, message = hunks.apply(str(folder), entries, reverse=False, write=write)
    return ok, message


@pytest.mark.parametrize("link", ["m.py", "d", "d/s"])
def test_links_are_not_followed(tmp_path: Path, link: str) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir()
    (outside / "n.py").write_bytes(ALPHABET)
    (tree / link).parent.mkdir(parents=True, exist_ok=True)
    (tree / link).symlink_to(outside / "n.py" if link == "m.py" else outside)
    text = CHANGE if link == "m.py" else CHANGE.replace("/m.py", f"/{link}/n.py")
    ok, message = own(tree, text)
    assert not ok
    assert f"{link} is a symbolic link" in message
    assert (outside / "n.py").read_bytes() == ALPHABET


def test_a_pipe_or_a_folder_is_not_patched(tmp_path: Path) -> None:
    (tmp_path / "m.py").mkdir()
    assert own(tmp_path, CHANGE) == (False, "m.py: is not a regular file")
    (tmp_path / "d").write_bytes(b"a file")
    assert own(tmp_path, NEW)[1].endswith("lies under something that is not a folder")


def test_paths_that_leave_the_folder_are_not_patched(tmp_path: Path) -> None:
    for path in ("../m.py", "/m.py", "a/../../m.py"):
        assert hunks.obstacle(str(tmp_path), path) == "lies outside the folder"


def test_the_message_names_files_and_hunks(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_bytes(ALPHABET.replace(b"m\n", b""))
    assert own(tmp_path, TWO + GONE) == (
        False,
        "m.py: Hunk #2 FAILED at 12.; d/o.py: there is no such file to patch",
    )


def test_mode_is_kept_and_hard_links_are_parted(tmp_path: Path) -> None:
    cache, file = tmp_path / "cache", tmp_path / "m.py"
    cache.write_bytes(ALPHABET)
    cache.chmod(0o754)
    file.hardlink_to(cache)
    assert own(tmp_path, CHANGE) == (True, "")
    assert file.stat().st_mode & 0o777 == 0o754
    assert (cache.read_bytes(), file.read_bytes()[:6]) == (ALPHABET, b"a\nb\nC\n")


def test_a_failing_write_puts_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"m.py": ALPHABET, "d/o.py": b"a\nb\n"}
    patch = parse_patch((CHANGE + NEW + GONE).encode(), where="p")
    patcher(tmp_path, files, patch)
    unlink = os.unlink

    def full(path: str) -> None:
        if path.endswith("o.py"):
            raise OSError("disk on fire")
        unlink(path)

    monkeypatch.setattr(os, "unlink", full)
    entries = json.loads(to_json(patch))["files"]
    with pytest.raises(OSError, match="disk on fire"):
        hunks.apply(str(tmp_path / "tree"), entries, reverse=False, write=True)
    assert contents(tmp_path) == contents_of(files)
