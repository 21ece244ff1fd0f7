"""Read a whole change file by file: also what ``patch -p1`` cannot carry, each with its reason.

``parse_patch`` refuses a patch as a whole. A pull request's diff may have pictures, links and
renames where they do not matter, so here each file says for itself what is wrong with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from harness.errors import PatchRefused
from harness.unidiff import FilePatch, Hunk
from harness.unidiff_names import git_names, unquoted
from harness.unidiff_parser import MAX_BYTES, Reader, read_section, step_over

_SUBJECT = re.compile(rb"Subject: (?:\[PATCH[^\]]*\] ?)?(.{1,300})", re.IGNORECASE)
_BINARY = re.compile(rb"GIT binary patch|Binary files .* differ")
_PLAIN_BINARY = re.compile(rb"(?:Binary )?[Ff]iles (\S.*) and (\S.*) differ")
_ONLY_IN = re.compile(rb"Only in (.*): (.*)")
_SMALLER = "Give the diff of the fix alone, without what is generated."
_PREFIX = "Use `git -c diff.noprefix=false diff`, so that paths begin with a/ and b/."


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a diff does to one file; ``path`` is the new name, or the old one of a deleted file.

    ``old`` is the name before, where the file was renamed or copied. ``file`` has the hunks; it
    is None where there are none: an empty file, a rename alone, or a ``problem`` (what the diff
    does not carry) with its ``remedy``. ``mode`` says that the file's mode changes too.
    """

    path: str
    old: str = ""
    file: FilePatch | None = None
    creates: bool = False
    deletes: bool = False
    mode: bool = False
    problem: str = ""
    remedy: str = ""


@dataclass(slots=True)
class _Header:
    """What git says of a file before its hunks."""

    path: str
    old: str = ""
    creates: bool = False
    deletes: bool = False
    mode: bool = False
    problem: str = ""
    remedy: str = ""


def parse_changes(data: bytes, *, where: str) -> tuple[Change, ...]:
    """Parse `git diff`, `git format-patch` mails, `diff -u` or `diff -ru`, in this order of files.

    ``where`` is the diff's name for errors.

    Raises:
        PatchRefused: names the line, what is broken and the remedy; also where there is no diff.
    """
    if len(data) > MAX_BYTES:
        raise PatchRefused(f"{where}: is larger than {MAX_BYTES >> 20} MiB", _SMALLER)
    reader = Reader(data, where)
    if b"\0" in data:
        reader.at = data[: data.index(b"\0")].count(b"\n")
        raise reader.refuse("has a NUL byte, so it is not a text diff", "Use `git diff`.")
    changes: list[Change] = []
    in_diff = False
    while not reader.done:
        if reader.line.startswith(b"diff --git "):
            changes.append(_git(reader))
            in_diff = True
        elif reader.at_names:
            file = read_section(reader)
            changes.append(_carried(file, _Header(path=file.path)))
            in_diff = True
        elif found := _PLAIN_BINARY.fullmatch(reader.line) or _ONLY_IN.fullmatch(reader.line):
            changes.append(_not_carried(found))
            reader.at += 1
        else:
            in_diff = step_over(reader, in_diff)
    if not changes:
        raise PatchRefused(
            f"{where}: no diff in it", "Give what `git diff BASE...HEAD` or `diff -ruN` prints."
        )
    return tuple(changes)


def subject(data: bytes) -> str:
    """The subject of a `git format-patch` mail without its ``[PATCH]``; empty where none is."""
    found = _SUBJECT.search(data[: data.find(b"\ndiff ")])
    return found[1].decode("utf-8", "replace").strip() if found else ""


def _git(reader: Reader) -> Change:
    start = reader.at
    first, second = git_names(reader.take()[len(b"diff --git ") :])
    if first == second:
        reader.at = start
        raise reader.refuse(f"the paths have no prefix: {_text(first)}", _PREFIX)
    header = _Header(path=_text(second.partition(b"/")[2]))
    while not reader.done and not reader.line.startswith((b"--- ", b"diff ", b"@@")):
        if not _take(header, reader.line):
            break  # text after a file that has no hunks, such as a mail's end
        reader.at += 1
    if header.problem == "is binary":
        _pass_over(reader)
        return _change(header)
    if not reader.at_names:
        return _change(header)
    file = read_section(reader, renamed=bool(header.old))
    if (header.creates, header.deletes) != (file.creates, file.deletes):
        raise reader.refuse(f"{file.path}: the headers differ on whether the file is new or gone")
    return _carried(file, header)


def _take(header: _Header, line: bytes) -> bool:
    """Take in one of git's extended header lines; return False where it is none."""
    word, _, rest = line.partition(b" ")
    mode = rest.rpartition(b" ")[2]
    if line.startswith((b"rename from ", b"copy from ")):
        header.old = _text(unquoted(line.partition(b" from ")[2]))
    elif line.startswith((b"rename to ", b"copy to ")):
        header.path = _text(unquoted(line.partition(b" to ")[2]))
    elif line.startswith(b"old mode ") or line.startswith(b"new mode "):
        header.mode = True
    elif line.startswith(b"new file mode "):
        header.creates = True
    elif line.startswith(b"deleted file mode "):
        header.deletes = True
    elif _BINARY.match(line):
        header.problem, header.remedy = "is binary", "The diff does not hold what a test can use."
    elif word not in (b"similarity", b"dissimilarity", b"index"):
        return False
    for number, what in ((b"120000", "is a symbolic link"), (b"160000", "is a submodule")):
        if mode == number:
            header.problem, header.remedy = what, "Leave this change out of the diff."
    return True


def _pass_over(reader: Reader) -> None:
    """Go on behind the lines of a binary file, which are git's base 85."""
    while not reader.done and not reader.line.startswith((b"diff --git ", b"-- ", b"From ")):
        reader.at += 1


def _carried(file: FilePatch, header: _Header) -> Change:
    change = _change(header)
    if change.problem:
        return change
    return replace(change, path=file.path, file=file, creates=file.creates, deletes=file.deletes)


def _change(header: _Header) -> Change:
    return Change(
        path=header.path,
        old=header.old,
        creates=header.creates,
        deletes=header.deletes,
        mode=header.mode,
        problem=header.problem,
        remedy=header.remedy,
    )


def _not_carried(found: re.Match[bytes]) -> Change:
    """A file that `diff -r` names only."""
    if found.re is _ONLY_IN:
        folder = _text(found[1]).partition("/")[2]
        return Change(
            path="/".join(filter(None, (folder, _text(found[2])))),
            problem="is in one of the two folders only, and the diff lacks its content",
            remedy="Use `diff -ruN`.",
        )
    return Change(
        path=_text(found[2]).partition("/")[2],
        problem="is binary",
        remedy="The diff does not hold what a test can use.",
    )


def empty_file(path: str) -> FilePatch:
    """A new file with one comment line, for one that is empty: a patch cannot carry that."""
    line = b"+# Empty in the change itself; a patch cannot carry a file without lines.\n"
    hunk = Hunk(header=b"@@ -0,0 +1 @@", old_start=0, new_start=1, lines=(line,))
    return FilePatch(path=path, hunks=(hunk,), creates=True)


def without_rename(change: Change, old: bytes, new: bytes) -> tuple[Change, ...]:
    """A renamed file as a deleted one and a new one, of its content before and after."""
    gone = FilePatch(path=change.old, hunks=(_whole(old, b"-"),), deletes=True)
    there = FilePatch(path=change.path, hunks=(_whole(new, b"+"),), creates=True)
    return (
        Change(path=change.old, file=gone, deletes=True),
        Change(path=change.path, file=there, creates=True),
    )


def _whole(content: bytes, sign: bytes) -> Hunk:
    """A hunk that brings, or takes away, a whole file."""
    lines = tuple(sign + line + b"\n" for line in content.split(b"\n"))
    lines = lines[:-1] if content.endswith(b"\n") else (*lines[:-1], lines[-1][:-1])
    count = b"1" if len(lines) == 1 else b"1,%d" % len(lines)
    old, new = (count, b"0,0") if sign == b"-" else (b"0,0", count)
    start = int(sign == b"-")
    header = b"@@ -%s +%s @@" % (old, new)
    return Hunk(header=header, old_start=start, new_start=1 - start, lines=lines)


def _text(raw: bytes) -> str:
    return raw[:1000].decode("utf-8", "replace")
