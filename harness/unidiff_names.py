"""How git writes file names: as they are, or as C string literals."""

from __future__ import annotations

import re

_LETTERS = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def unquoted(name: bytes) -> bytes:
    """A file name as it is, where git put it in quotes; any other is returned unchanged.

    Format: git's quote.c, which has seven letters of C and three octal digits.
    """
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name

    def byte(found: re.Match[bytes]) -> bytes:
        escape = found[1]
        return bytes([int(escape, 8)]) if len(escape) == 3 else _LETTERS.get(escape, escape)

    return re.sub(rb"\\([0-3][0-7]{2}|.)", byte, name[1:-1])


def git_names(names: bytes) -> tuple[bytes, bytes]:
    """The two names of a ``diff --git`` line, unquoted, with their ``a/`` and ``b/``.

    Names without quotes may have spaces: then both must be as long, as for one path they are.
    """
    if names.startswith(b'"') and (found := re.match(rb'("(?:[^"\\]|\\.)*") ', names)):
        return unquoted(found[1]), unquoted(names[found.end() :])
    if names.endswith(b'"') and b' "' in names:
        first, _, second = names.rpartition(b' "')
        return first, unquoted(b'"' + second)
    half = len(names) // 2
    if names[half : half + 1] == b" " and len(names) % 2:
        return names[:half], names[half + 1 :]
    first, _, second = names.partition(b" ")
    return first, second
