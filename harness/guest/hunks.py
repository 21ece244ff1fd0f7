"""Apply the hunks of a unified diff as GNU patch 2.7 does with ``--fuzz=0``, or not at all.

Used where the environment has no GNU patch. Runs inside the environment: standard library only.
Lines are bytes and include their newline; a file's last line may lack it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

#: ``(file, hunk number, offset in lines)``
Result = tuple[str, int, int]


class Mismatch(Exception):
    """A file is not what the patch expects; the text is in GNU patch's words where it has some."""


def apply(
    tree: str, files: list[dict[str, Any]], reverse: bool, write: bool
) -> tuple[bool, list[Result], str]:
    """Apply all hunks of all files under the folder ``tree``, or none.

    ``files`` is what ``harness.unidiff.to_json`` wrote. Returns whether all of it applies, the
    offset of each hunk of the files that fit, and what stood in the way. Files are written only
    if ``write`` is true and everything applies.

    Raises:
        OSError: a file could not be read or written; what was written until then is put back.
    """
    results: list[Result] = []
    problems: list[str] = []
    changes: list[tuple[str, bytes | None]] = []
    for entry in files:
        change = reversed_entry(entry) if reverse else entry
        path = change["path"]
        try:
            content, offsets = _patched(tree, change)
        except Mismatch as problem:
            problems.append(f"{path}: {problem}")
            continue
        results.extend((path, number, offset) for number, offset in enumerate(offsets, 1))
        changes.append((path, content))
    if write and not problems:
        with restored_on_error(tree, [path for path, _ in changes]):
            for path, content in changes:
                _write(tree, path, content)
    return not problems, results, "; ".join(problems)


def reversed_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the file's part of the patch turned round: what undoes it."""
    swap = {"-": "+", "+": "-", " ": " "}
    return {
        "path": entry["path"],
        "creates": entry["deletes"],
        "deletes": entry["creates"],
        "hunks": [
            {
                "old_start": hunk["new_start"],
                "new_start": hunk["old_start"],
                "lines": [swap[line[0]] + line[1:] for line in hunk["lines"]],
            }
            for hunk in entry["hunks"]
        ],
    }


def standing(content: bytes, hunk: dict[str, Any]) -> str:
    """Say how one hunk alone stands to the bytes of a file; an empty string: it does not fit.

    ``fits``; ``there``: what it makes is in the file already; ``added``: it does not fit, but all
    lines that it adds are in the file, somewhere.
    """
    whole = {"path": "", "creates": False, "deletes": False, "hunks": [hunk]}
    for word, change in (("fits", whole), ("there", reversed_entry(whole))):
        with contextlib.suppress(Mismatch):
            apply_hunks(content, change["hunks"])
            return word
    added = {line[1:].encode("latin-1").strip() for line in hunk["lines"] if line[0] == "+"} - {b""}
    there = {line.strip() for line in content.split(b"\n")}
    return "added" if added and added <= there else ""


def changes_nothing(entry: dict[str, Any]) -> bool:
    """Whether every hunk puts back the very lines that it takes away."""
    return all(_without("+", hunk) == _without("-", hunk) for hunk in entry["hunks"])


def obstacle(tree: str, path: str) -> str:
    """Return why ``path`` may not be patched: it is a link, or lies under one, or is no file.

    A file that does not exist is no obstacle, since a patch may create it.
    """
    full = tree
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return "lies outside the folder"
    mode = 0
    for part in parts:
        full = os.path.join(full, part)
        try:
            mode = os.lstat(full).st_mode
        except FileNotFoundError:
            return ""
        except NotADirectoryError:
            return "lies under something that is not a folder"
        if stat.S_ISLNK(mode):
            return f"{os.path.relpath(full, tree)} is a symbolic link, which is not followed"
    return "" if stat.S_ISREG(mode) else "is not a regular file"


def apply_hunks(content: bytes, hunks: list[dict[str, Any]]) -> tuple[bytes, list[int]]:
    """Apply hunks to the bytes of one file; return the new bytes and each hunk's offset in lines.

    Raises:
        Mismatch: names every hunk that does not apply.
    """
    lines = _lines(content)
    out: list[bytes] = []
    offsets: list[int] = []
    problems: list[str] = []
    frozen = 0  # input lines that are settled: no later hunk may touch them
    offset = 0  # of the hunk before, from where the search for the next one starts
    growth = 0
    for number, hunk in enumerate(hunks, 1):
        old, new = _without("+", hunk), _without("-", hunk)
        suffix = _context(hunk["lines"][::-1])
        first = hunk["old_start"] + (not old)  # an empty range names the line before it
        where, offset = _locate(lines, hunk, first, offset, frozen)
        if where - 1 < frozen:
            problems.append(f"Hunk #{number} FAILED at {first + growth}.")
            continue
        offsets.append(offset)
        _extend(out, lines[frozen : where - 1])
        _extend(out, new[: len(new) - suffix])
        # GNU settles lines up to the last change only: the next hunk's context may overlap.
        frozen = where - 1 + len(old) - suffix
        growth += len(new) - len(old)
    if problems:
        raise Mismatch(" ".join(problems))
    _extend(out, lines[frozen:])
    return b"".join(out), offsets


@contextlib.contextmanager
def restored_on_error(tree: str, paths: Iterable[str]) -> Iterator[None]:
    """Put the files and folders at ``paths`` back as they were if the block raises anything."""
    before: list[tuple[str, bytes | None, os.stat_result | None]] = []
    missing: list[str] = []
    for path in paths:
        full = os.path.join(tree, path)
        if os.path.lexists(full):
            with open(full, "rb") as stream:
                before.append((path, stream.read(), os.stat(full)))
        else:
            before.append((path, None, None))
            folder = os.path.dirname(full)
            while not os.path.lexists(folder):
                missing.append(folder)
                folder = os.path.dirname(folder)
    try:
        yield
    except BaseException:
        for path, content, status in before:
            _write(tree, path, content)
            if status is not None:
                full = os.path.join(tree, path)
                os.chmod(full, stat.S_IMODE(status.st_mode))
                os.utime(full, ns=(status.st_atime_ns, status.st_mtime_ns))
        for folder in sorted(set(missing), key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise


def _patched(tree: str, entry: dict[str, Any]) -> tuple[bytes | None, list[int]]:
    """Return the file's new content (None: no file) and the offset of each hunk."""
    reason = obstacle(tree, entry["path"])
    if reason:
        raise Mismatch(reason)
    full = os.path.join(tree, entry["path"])
    content = b""
    if os.path.lexists(full):
        with open(full, "rb") as stream:
            content = stream.read()
        if entry["creates"] and content:
            raise Mismatch("the patch would create the file, which already exists")
    elif not entry["creates"]:
        raise Mismatch("there is no such file to patch")
    patched, offsets = apply_hunks(content, entry["hunks"])
    if entry["deletes"] and patched:
        raise Mismatch("not deleting the file, as its content differs from the patch")
    return (None if entry["deletes"] else patched), offsets


def _locate(
    lines: list[bytes], hunk: dict[str, Any], first: int, offset: int, frozen: int
) -> tuple[int, int]:
    """Find a hunk's old lines as GNU's ``locate_hunk`` does without fuzz.

    Returns the 1-based line, 0 if there is none, and the offset from where the patch said.
    """
    old = _without("+", hunk)
    guess = first + offset
    if not old:
        return guess, offset  # nothing to look for: it fits anywhere
    last = len(lines) - len(old) + 1
    prefix, suffix = _context(hunk["lines"]), _context(hunk["lines"][::-1])
    candidates: Iterable[int]
    if prefix < suffix and first <= 1:
        # Less context before the change than after it says that the file starts there;
        candidates = [1]
    elif suffix < prefix:
        candidates = [last] if frozen < last else []  # less after it, that the file ends there.
    else:
        candidates = _outward(guess, frozen + 1, last)
    for where in candidates:
        if lines[where - 1 : where - 1 + len(old)] == old:
            return where, where - first
    return 0, offset


def _outward(guess: int, first: int, last: int) -> Iterator[int]:
    """Yield the places from first to last, ever farther from the guess and later ones before."""
    for distance in range(max(guess - first, last - guess) + 1):
        if first <= guess + distance <= last:
            yield guess + distance
        if distance and first <= guess - distance <= last:
            yield guess - distance


def _context(lines: list[str]) -> int:
    """Count the context lines at the front."""
    return next((n for n, line in enumerate(lines) if line[0] != " "), len(lines))


def _without(sign: str, hunk: dict[str, Any]) -> list[bytes]:
    """Return the old lines (without "+") or the new ones (without "-") of a hunk."""
    return [line[1:].encode("latin-1") for line in hunk["lines"] if line[0] != sign]


def _lines(content: bytes) -> list[bytes]:
    # Not splitlines: a carriage return doesn't end a line here.
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _extend(out: list[bytes], lines: list[bytes]) -> None:
    """Append lines; what comes after a line without newline gives it one, as GNU patch does."""
    if lines and out and not out[-1].endswith(b"\n"):
        out[-1] += b"\n"
    out.extend(lines)


def _write(tree: str, path: str, content: bytes | None) -> None:
    """Replace a file in one step, which also parts it from its hard links; None removes it."""
    full = os.path.join(tree, path)
    folder = os.path.dirname(full)
    if content is None:
        if os.path.lexists(full):
            os.unlink(full)
            _remove_empty(folder, tree)
        return
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".harness-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        if os.path.lexists(full):
            shutil.copymode(full, temporary)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, full)
    except BaseException:
        os.unlink(temporary)
        raise


def _remove_empty(folder: str, tree: str) -> None:
    """Remove folders that a deletion left empty, up to the tree, as GNU patch does."""
    with contextlib.suppress(OSError):
        while os.path.abspath(folder) != os.path.abspath(tree):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
