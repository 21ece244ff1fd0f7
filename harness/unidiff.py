"""A unified diff as data: the records, and their two ways of being written."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

DEV_NULL = b"/dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk. ``lines`` begin with a space, ``-`` or ``+`` and include their newline.

    Only the last line of a file can lack the newline. ``header`` is the ``@@`` line.
    """

    header: bytes
    old_start: int
    new_start: int
    lines: tuple[bytes, ...]

    @property
    def old_count(self) -> int:
        """How many lines of the old file the hunk covers."""
        return sum(not line.startswith(b"+") for line in self.lines)

    @property
    def new_count(self) -> int:
        """How many lines of the new file the hunk covers."""
        return sum(not line.startswith(b"-") for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """What the patch does to one file; ``path`` lacks the ``a/`` or ``b/`` before it."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A whole patch. One without files changes nothing."""

    files: tuple[FilePatch, ...] = ()

    @property
    def hunk_count(self) -> int:
        """The number of hunks in all files."""
        return sum(len(file.hunks) for file in self.files)


def numbered(patch: Patch) -> tuple[tuple[int, str, Hunk], ...]:
    """Every hunk with its number, from 1 through the whole patch, and its file."""
    pairs = [(file.path, hunk) for file in patch.files for hunk in file.hunks]
    return tuple((number, path, hunk) for number, (path, hunk) in enumerate(pairs, 1))


def subset(patch: Patch, numbers: Collection[int]) -> Patch:
    """The patch with only the hunks of these numbers; files that none is left of are left out."""
    count, files = 0, []
    for file in patch.files:
        first = count + 1
        count += len(file.hunks)
        kept = tuple(hunk for n, hunk in enumerate(file.hunks, first) if n in numbers)
        if kept:
            files.append(replace(file, hunks=kept))
    return Patch(files=tuple(files))


def render(patch: Patch) -> bytes:
    """Return the patch as ``patch -p1`` reads it, its hunks as they were parsed."""
    return b"".join(_rendered(patch))


def to_json(patch: Patch) -> bytes:
    """Return the same hunks as JSON, for the applier that runs inside the environment.

    Lines are latin-1 strings, so that every byte survives.
    """
    files = [
        {
            "path": file.path,
            "creates": file.creates,
            "deletes": file.deletes,
            "hunks": [
                {
                    "old_start": hunk.old_start,
                    "new_start": hunk.new_start,
                    "lines": [line.decode("latin-1") for line in hunk.lines],
                }
                for hunk in file.hunks
            ],
        }
        for file in patch.files
    ]
    return json.dumps({"files": files}).encode()


def _rendered(patch: Patch) -> Iterator[bytes]:
    for file in patch.files:
        path = file.path.encode()
        # Without a tab after it, `patch` ends a name at its first space.
        end = b"\t\n" if b" " in path else b"\n"
        yield b"--- " + (DEV_NULL + b"\n" if file.creates else b"a/" + path + end)
        yield b"+++ " + (DEV_NULL + b"\n" if file.deletes else b"b/" + path + end)
        for hunk in file.hunks:
            yield hunk.header + b"\n"
            for line in hunk.lines:
                yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
