"""Is a measured failure the declared one? Type, message and place, each levelled as needed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.case import Signature
from harness.patch import Patch, moved_line, touches
from harness.record import Failure

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_TEMPORARY = re.compile(
    r"(?:\$ARM)?(?:/[^\s/'\":,;()<>]+)*/(?:te?mp|pytest-of-[^\s/'\":]+|var/folders)(?:/[^\s'\":,;()<>]*)*"
)
#: A number that stands alone: the digits of int4, float16 and sm90 are part of a name.
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w)")


def mismatch(
    signature: Signature, failure: Failure, patch: Patch, offsets: Mapping[str, set[int]]
) -> str:
    """Say how ``failure`` differs from what was declared; an empty string when it doesn't.

    ``offsets`` are by how many lines the hunks of a patched file were found elsewhere.
    """
    if signature.while_loading != (failure.phase == "collect"):
        when = "while its file was loaded" if failure.phase == "collect" else "when it ran"
        return f"it failed {when}, which is not declared"
    if not same_type(signature.exception, failure.exception):
        return f"raised {failure.exception}, declared {signature.exception}"
    if signature.message and level(signature.message) not in level(failure.message):
        return f"its message is {failure.message!r}, declared {signature.message!r}"
    if signature.message_regex and not re.search(signature.message_regex, failure.message):
        return f"its message {failure.message!r} does not match {signature.message_regex!r}"
    if signature.at and not _same_place(signature, failure, patch, offsets):
        return f"raised at {failure.place or 'an unknown place'}, declared {signature.at}"
    return ""


def same_failure(before: Failure, after: Failure, patch: Patch) -> bool:
    """Whether the patched arm fails as the unpatched one does, lines moved by the patch aside."""
    if before.exception != after.exception or level(before.message) != level(after.message):
        return False
    if before.file != after.file:
        return False
    return after.line in (before.line, moved_line(patch, before.file, before.line))


def same_type(declared: str, measured: str) -> bool:
    """Whether a declared type name, bare or dotted, is the measured dotted one."""
    declared = declared.removeprefix("builtins.")
    return measured == declared or measured.endswith("." + declared)


def level(text: str) -> str:
    """Replace what varies from run to run: addresses, temporary paths, numbers, white space."""
    text = _ADDRESS.sub("<address>", text)
    text = _TEMPORARY.sub("<path>", text)
    return " ".join(_NUMBER.sub("<n>", text).split())


def _same_file(declared: str, measured: str) -> bool:
    """Whether one path ends with the other: declared in short, or as in a checkout (``src/…``)."""
    short, long = sorted((f"/{declared.removeprefix('./').lstrip('/')}", f"/{measured}"), key=len)
    return long.endswith(short)


def _same_place(
    signature: Signature, failure: Failure, patch: Patch, offsets: Mapping[str, set[int]]
) -> bool:
    if not _same_file(signature.file, failure.file):
        return False
    if failure.line == signature.line:
        return True
    if not touches(patch, failure.file):
        return False
    shifts = {
        shift for file, found in offsets.items() if failure.file.endswith(file) for shift in found
    }
    moved = moved_line(patch, failure.file, failure.line) == signature.line
    return moved or failure.line - signature.line in shifts
