"""Read a unified diff strictly: whatever `patch -p1` would guess at or drop is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from harness.errors import PatchRefused
from harness.unidiff import DEV_NULL, FilePatch, Hunk, Patch
from harness.unidiff_names import git_names, unquoted

MAX_BYTES = 16 * 1024 * 1024
MAX_HUNKS = 10_000
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?")
_EPOCH = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.0+)? ([+-]\d{4})")
_TRAILER = re.compile(rb"-- ?|From [0-9a-f]{40} .*|diff .*|Index: .*|Only in .*")
_REMAKE = "Make the patch again with `git diff`; do not edit it by hand."
_LEAVE_OUT = "A case can only change the text of files: leave this change out of the patch."

#: What `patch -p1` does not carry, by the line that announces it: in git's header of a file ...
_REFUSED_IN_HEADER = (
    (re.compile(rb"rename (from|to) "), "renames a file", "Use `git diff --no-renames`."),
    (re.compile(rb"copy (from|to) "), "copies a file", "Use `git diff` without `-C`."),
    (re.compile(rb"(old|new) mode "), "changes the mode of a file", _LEAVE_OUT),
    (re.compile(rb"(.* mode|index .*) 120000\n"), "has a symbolic link", _LEAVE_OUT),
    (re.compile(rb"(.* mode|index .*) 160000\n"), "has a submodule", _LEAVE_OUT),
)
#: ... and anywhere outside a hunk, by that line and the next.
_REFUSED = (
    (re.compile(rb"GIT binary patch|Binary files .* differ\r?\n"), "is binary", _LEAVE_OUT),
    (re.compile(rb"diff --(cc|combined) |@@@ "), "is a merge's combined diff", "Diff one parent."),
    (re.compile(rb"\*{15}\r?\n"), "is a context diff", "Use `git diff` or `diff -u`."),
    (re.compile(rb"[\d,]+[acd][\d,]+\r?\n[<>] "), "is no unified diff", "Use `diff -u`."),
    (re.compile(rb"@@ -\d"), "is a hunk without the names of its file", _REMAKE),
)


def parse_patch(data: bytes, *, where: str) -> Patch:
    """Parse a unified diff, with or without git's headers and a message before it.

    ``where`` is the file's name for errors. Text without any hunk gives a patch without files.

    Raises:
        PatchRefused: names the line, what is broken or cannot be carried, and the remedy.
    """
    if len(data) > MAX_BYTES:
        raise PatchRefused(f"{where}: is larger than {MAX_BYTES >> 20} MiB", _LEAVE_OUT)
    reader = Reader(data, where)
    if b"\0" in data:
        reader.at = data[: data.index(b"\0")].count(b"\n")
        raise reader.refuse("has a NUL byte, so it is not a text patch", _LEAVE_OUT)
    files: list[FilePatch] = []
    in_diff = False
    while not reader.done:
        if reader.line.startswith(b"diff --git "):
            files.append(_git_section(reader))
            in_diff = True
        elif reader.at_names:
            files.append(read_section(reader))
            in_diff = True
        else:
            in_diff = step_over(reader, in_diff)
    return Patch(files=tuple(files))


class Reader:
    """The lines of a patch without their newlines, and the place reached."""

    def __init__(self, data: bytes, where: str) -> None:
        self.lines = data.split(b"\n")
        if not self.lines[-1]:
            self.lines.pop()
        self.where = where
        self.at = 0
        self.hunks = 0

    @property
    def done(self) -> bool:
        """Whether all lines are read."""
        return self.at >= len(self.lines)

    @property
    def line(self) -> bytes:
        """The line that is next, empty at the end."""
        return b"" if self.done else self.lines[self.at]

    @property
    def next_line(self) -> bytes:
        """The line after it, empty at the end."""
        return self.lines[self.at + 1] if self.at + 1 < len(self.lines) else b""

    @property
    def at_names(self) -> bool:
        """Whether the names of a file stand here."""
        return self.line.startswith(b"--- ") and self.next_line.startswith(b"+++ ")

    def take(self) -> bytes:
        """Return a header line and go on; a header with a carriage return is refused."""
        if self.line.endswith(b"\r"):
            raise self.refuse(
                "the header ends in CRLF", "Convert the patch: `dos2unix`, or `git diff` anew."
            )
        self.at += 1
        return self.lines[self.at - 1]

    def refuse(self, problem: str, remedy: str = _REMAKE) -> PatchRefused:
        """The refusal of what stands here."""
        return PatchRefused(f"{self.where}:{self.at + 1}: {problem}", remedy)


def step_over(reader: Reader, in_diff: bool) -> bool:
    """Step over a line outside the hunks; return whether the diff may go on after it."""
    line = reader.line
    for pattern, what, remedy in _REFUSED:
        if pattern.match(line + b"\n" + reader.next_line):
            raise reader.refuse(f"the patch {what}", remedy)
    reader.at += 1
    if in_diff and _TRAILER.fullmatch(line):
        return False
    if in_diff and line[:1] in (b" ", b"+", b"-", b"\\", b"@"):
        reader.at -= 1
        raise reader.refuse(
            "this line follows a hunk that is complete by its header: the counts do not agree"
        )
    return in_diff


def _git_section(reader: Reader) -> FilePatch:
    """Read ``diff --git`` and what git says of the file before its hunks."""
    start = reader.at
    names = reader.take()[len(b"diff --git ") :]
    creates = deletes = False
    while not reader.done and not reader.line.startswith((b"--- ", b"diff ", b"@@")):
        for pattern, what, remedy in (*_REFUSED_IN_HEADER, *_REFUSED):
            if pattern.match(reader.line + b"\n" + reader.next_line):
                raise reader.refuse(f"the patch {what}: {_shown(names)}", remedy)
        creates |= reader.line.startswith(b"new file mode ")
        deletes |= reader.line.startswith(b"deleted file mode ")
        reader.at += 1
    if not reader.line.startswith(b"--- "):
        reader.at = start
        if creates or deletes:
            raise reader.refuse(
                f"creates or deletes an empty file, which `patch` does not do: {_shown(names)}",
                "Put a comment line into a new file; leave an empty one where it is.",
            )
        raise reader.refuse(f"a file without hunks: {_shown(names)}")
    file = read_section(reader)
    end, reader.at = reader.at, start  # a refusal from here on is about git's first line
    if (creates, deletes) != (file.creates, file.deletes):
        raise reader.refuse(f"{file.path}: the headers differ on whether the file is new or gone")
    path = b"/" + file.path.encode()
    if [name[name.find(b"/") :] for name in git_names(names)] != [path, path]:
        raise reader.refuse(f"{file.path}: `diff --git` names other files: {_shown(names)}")
    reader.at = end
    return file


def read_section(reader: Reader, *, renamed: bool = False) -> FilePatch:
    """Read the two file names and all hunks after them.

    ``renamed`` allows the names to differ; the path is the new one then.
    """
    old, old_epoch = _name(reader, b"--- ")
    if not reader.line.startswith(b"+++ "):
        raise reader.refuse("a '+++' line must follow the '---' line")
    new, new_epoch = _name(reader, b"+++ ")
    path = new or old
    if not path:
        raise reader.refuse("both files are /dev/null")
    if old and new and old != new and not renamed:
        reader.at -= 1
        raise reader.refuse(
            f"the names differ: {old!r} and {new!r}", "Renames are not carried: `git diff` in place"
        )
    hunks: list[Hunk] = []
    while reader.line.startswith(b"@@"):
        hunks.append(_hunk(reader, hunks[-1] if hunks else None))
    if not hunks:
        raise reader.refuse(f"{path}: the file's hunks are missing")
    first = hunks[0]
    # `diff -N` names a file that is not there, with the epoch as its time.
    creates = old is None or (old_epoch and first.old_start == first.old_count == 0)
    deletes = new is None or (new_epoch and first.new_start == first.new_count == 0)
    whole = len(hunks) == 1
    if creates and not (whole and first.old_start == first.old_count == 0):
        raise reader.refuse(f"{path}: a new file has one hunk that begins with '@@ -0,0'")
    if deletes and not (whole and first.new_start == first.new_count == 0):
        raise reader.refuse(f"{path}: a deleted file has one hunk that says '+0,0 @@'")
    return FilePatch(path=path, hunks=tuple(hunks), creates=creates, deletes=deletes)


def _name(reader: Reader, prefix: bytes) -> tuple[str | None, bool]:
    """Read a header; return the path without its first part, and whether its time is the epoch."""
    raw, _, stamp = reader.take()[len(prefix) :].partition(b"\t")
    reader.at -= 1  # so that a refusal names this line
    if raw.rstrip(b" ") == DEV_NULL:
        reader.at += 1
        return None, True
    try:
        text = unquoted(raw).decode()
    except UnicodeDecodeError:
        raise reader.refuse(f"the path {_shown(raw)} is not UTF-8", _LEAVE_OUT) from None
    if text.startswith("/"):
        raise reader.refuse(f"the path {text!r} is absolute", "Use `git diff` in the checkout.")
    if "\\" in text or not text.isprintable():
        raise reader.refuse(f"the path {text!r} has a backslash or control character", _LEAVE_OUT)
    first, _, path = text.partition("/")
    parts = path.split("/")
    if ".." in (first, *parts) or "." in parts or "" in parts[:-1]:
        raise reader.refuse(
            f"the path {text!r} has a '.' or '..' or empty part", "Use `git diff` in the checkout."
        )
    if not parts[-1]:
        raise reader.refuse(
            f"the path {text!r} has no first part for -p1 to strip",
            "Use `git diff` without --no-prefix, so that paths begin with a/ and b/.",
        )
    reader.at += 1
    return path, _is_epoch(stamp.decode("latin-1"))


def _is_epoch(stamp: str) -> bool:
    found = _EPOCH.fullmatch(stamp)
    if not found:
        return False
    try:
        moment = datetime.strptime(" ".join(found.groups()), "%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return False
    return moment == datetime.fromtimestamp(0, UTC)


def _hunk(reader: Reader, before: Hunk | None) -> Hunk:
    """Read one hunk; its body must have the lines that its header counts."""
    found = _HUNK.fullmatch(reader.line.rstrip(b"\r"))
    if not found:
        raise reader.refuse(f"not a hunk header: {_shown(reader.line)}")
    old_start, new_start = int(found[1]), int(found[3])
    old_left, new_left = (1 if n is None else int(n) for n in (found[2], found[4]))
    reader.hunks += 1
    if reader.hunks > MAX_HUNKS:
        raise reader.refuse(f"more than {MAX_HUNKS} hunks", _LEAVE_OUT)
    if (old_left and not old_start) or (new_left and not new_start):
        raise reader.refuse("a hunk with lines cannot begin at line 0")
    if before and not _follows(before, old_start, old_left, new_start, new_left):
        raise reader.refuse("the hunk overlaps the one before it, or stands in the wrong order")
    start = reader.at
    header = reader.take()
    lines = _body(reader, old_left, new_left)
    if all(line.startswith(b" ") for line in lines):
        reader.at = start
        raise reader.refuse("the hunk changes nothing, and `patch` calls that malformed")
    return Hunk(header=header, old_start=old_start, new_start=new_start, lines=lines)


def _follows(before: Hunk, old_start: int, old: int, new_start: int, new: int) -> bool:
    """Whether a hunk begins after the one before it; an empty range names the line before it."""
    old_end = before.old_start + max(before.old_count, 1) - 1
    new_end = before.new_start + max(before.new_count, 1) - 1
    return old_start + (not old) > old_end and new_start + (not new) > new_end


def _body(reader: Reader, old_left: int, new_left: int) -> tuple[bytes, ...]:
    lines: list[bytes] = []
    old_open = new_open = True  # until a last line without newline
    while old_left or new_left:
        if reader.done:
            raise reader.refuse("the file ends inside a hunk: it was cut off")
        if reader.at_names and b"".join(reader.lines[reader.at + 2 : reader.at + 3]).startswith(
            b"@@ -"
        ):
            raise reader.refuse("the hunk lacks lines that its header counts: a file begins here")
        # Editors strip the space of an empty context line; `patch` accepts that too.
        line = reader.line or b" "
        on_old, on_new = line[:1] in (b" ", b"-"), line[:1] in (b" ", b"+")
        if not (on_old or on_new) or (on_old and not old_left) or (on_new and not new_left):
            raise reader.refuse("the hunk's lines do not agree with the counts in its header")
        if (on_old and not old_open) or (on_new and not new_open):
            raise reader.refuse("a line follows the one that is marked as the file's last")
        old_left -= on_old
        new_left -= on_new
        reader.at += 1
        if reader.line.startswith(b"\\ "):
            old_open, new_open = old_open and not on_old, new_open and not on_new
            reader.at += 1
            lines.append(line)
        else:
            lines.append(line + b"\n")
    if not (old_open and new_open) and reader.line.startswith(b"@@"):
        raise reader.refuse("a hunk follows the line that is marked as the file's last")
    return tuple(lines)


def _shown(raw: bytes) -> str:
    return ascii(raw[:200].decode("utf-8", "replace"))
