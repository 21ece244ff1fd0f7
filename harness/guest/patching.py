"""How the patch fits the package's tree, and doing or undoing it: whole, or not at all.

Runs inside the environment: standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from typing import Any, NamedTuple

FLAGS = ("-p1", "--forward", "--batch", "--fuzz=0", "--no-backup-if-mismatch")
BUILT_IN = "harness built-in"
TIME_LIMIT = 120.0
_CHECKING = re.compile(r"(?:checking|patching) file (.*)")
_OFFSET = re.compile(r"Hunk #(\d+) succeeded at \d+ \(offset (-?\d+) lines?\)\.")
_STANDING = {
    "": "does not fit",
    "added": "does not fit, though the lines that it adds are there",
    "there": "is there already",
    "file": "is there already",
}
_NEWER = "the image may already contain a later version of the fix"
_OTHER = (
    "the image's code is older or newer than what the patch was made for; "
    "it may already contain a later version of the fix"
)
_NOISE = re.compile(r"\|.*|-{20,}|\d+ out of \d+ hunks? .*|\s*|The text leading up to this was:.*")


class Result(NamedTuple):
    """Whether the whole patch applies, ``(file, hunk, offset)`` of each hunk, or why it doesn't."""

    applies: bool
    hunks: list[tuple[str, int, int]]
    message: str

    @property
    def exact(self) -> bool:
        """Whether it applies with every hunk where the patch says."""
        return self.applies and not any(offset for _, _, offset in self.hunks)


class Fit(NamedTuple):
    """How the patch fits the tree as it came: the fields of ``harness.record.Staging``."""

    state: str
    hunks: list[tuple[str, int, int]]
    message: str


class Patcher:
    """One patch, one folder, and the tool that applies the one to the other.

    ``hunks`` is the module hunks.py, ``files`` what harness.unidiff.to_json wrote.
    """

    def __init__(self, tree: str, patch: str, files: list[dict[str, Any]], hunks: Any) -> None:
        self.tree, self.patch, self.files, self._hunks = tree, patch, files, hunks
        version = gnu_patch()
        self.tool = f"patch {version}" if version else BUILT_IN

    @property
    def paths(self) -> list[str]:
        """The files that the patch touches."""
        return [entry["path"] for entry in self.files]

    def fit(self) -> Fit:
        """Try the patch forward and in reverse, without writing."""
        if not self.files:
            return Fit("empty", [], "")
        for entry in self.files:
            problem = self._problem(entry)
            if problem:
                return Fit("rejected", [], f"{entry['path']}: {problem}")
        forward = self.run(reverse=False, write=False)
        reverse = self.run(reverse=True, write=False)
        return self._judged(forward, reverse)

    def run(self, reverse: bool, write: bool) -> Result:
        """Apply the patch, or see whether it would apply; nothing is left half patched."""
        if self.tool == BUILT_IN:
            return Result(*self._hunks.apply(self.tree, self.files, reverse, write))
        if not write:
            return self._gnu(reverse, "--dry-run")
        try:
            with self._hunks.restored_on_error(self.tree, self.paths):
                result = self._gnu(reverse, "--reject-file=-")  # no .rej in the tree
                if not result.applies:
                    raise _Failed(result)
        except _Failed as failed:
            return failed.result
        return result

    def _problem(self, entry: dict[str, Any]) -> str:
        """What stands in the way before any tool is asked."""
        problem: str = self._hunks.obstacle(self.tree, entry["path"])
        exists = os.path.lexists(os.path.join(self.tree, entry["path"]))
        if not problem and not exists and not entry["creates"] and not entry["deletes"]:
            problem = "there is no such file to patch"  # GNU patch would create it in some cases
        return problem

    def _judged(self, forward: Result, reverse: Result) -> Fit:
        if forward.applies and reverse.applies:
            if forward.exact == reverse.exact:
                if not all(map(self._hunks.changes_nothing, self.files)):
                    return Fit("rejected", [], "ambiguous: applies both forward and in reverse")
            elif reverse.exact:
                return Fit("already-applied", reverse.hunks, "")
        elif reverse.applies:
            return Fit("already-applied", reverse.hunks, "")
        elif not forward.applies:
            return Fit("rejected", [], self._why() or forward.message)
        return Fit("clean" if forward.exact else "offset", forward.hunks, "")

    def _why(self) -> str:
        """Which hunks do not fit, and what that may mean; the tool names the first ones at best."""
        found = [item for entry in self.files for item in self._misfits(entry)]
        if not found:
            return ""  # each fits alone
        told = "; ".join(f"{place} {_STANDING[word]}" for word, place in found)
        newer = any(word for word, _ in found)
        return f"{told[:1700]}: {_NEWER if newer else _OTHER}"

    def _misfits(self, entry: dict[str, Any]) -> list[tuple[str, str]]:
        """How each hunk that does not fit stands to the file, and where it belongs."""
        content = b""
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.tree, entry["path"]), "rb") as stream:
                content = stream.read()
        if entry["creates"] and content:
            return [("file", f"{entry['path']}, which the patch creates,")]
        hunks = entry["hunks"]
        of = f" of {len(hunks)}" if len(hunks) > 1 else ""
        found = [
            (self._hunks.standing(content, hunk), f"hunk {number}{of} (line {hunk['old_start']})")
            for number, hunk in enumerate(hunks, 1)
        ]
        return [(word, f"{entry['path']}: {place}") for word, place in found if word != "fits"]

    def _gnu(self, reverse: bool, *more: str) -> Result:
        argv = ["patch", *FLAGS, *more, "-i", self.patch]
        argv += ["--reverse"] if reverse else []
        # Other variables (POSIXLY_CORRECT, PATCH_GET, QUOTING_STYLE) change what patch does.
        variables = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        done = subprocess.run(
            argv,
            cwd=self.tree,
            env={**variables, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIME_LIMIT,
        )
        output = done.stdout.decode("utf-8", "replace")
        if done.returncode > 1:  # 1 says that a hunk does not fit, more that the tool has trouble
            raise Trouble(f"the patch tool failed: {' '.join(output.split())[:500]}")
        return self._read(done.returncode == 0, output)

    def _read(self, applies: bool, output: str) -> Result:
        offsets: dict[tuple[int, int], int] = {}
        complaints: list[str] = []
        position, name = -1, ""
        for line in output.splitlines():
            checking, offset = _CHECKING.fullmatch(line), _OFFSET.fullmatch(line)
            if checking:
                position, name = position + 1, checking[1]
            elif offset:
                offsets[position, int(offset[1])] = int(offset[2])
            elif not _NOISE.fullmatch(line):
                complaints.append(f"{name}: {line}" if line.startswith("Hunk") else line)
        if not applies:
            return Result(False, [], " ".join(complaints)[:2000] or "patch failed without a word")
        hunks = [
            (entry["path"], number, offsets.get((position, number), 0))
            for position, entry in enumerate(self.files)
            for number in range(1, len(entry["hunks"]) + 1)
        ]
        return Result(True, hunks, "")


class Trouble(Exception):
    """The tool could not do its work, whatever the patch says."""


class _Failed(Exception):
    def __init__(self, result: Result) -> None:
        super().__init__(result.message)
        self.result = result


def gnu_patch() -> str:
    """Return the version of the GNU patch on PATH, from 2.7 on; else an empty string."""
    if not shutil.which("patch"):
        return ""
    try:
        done = subprocess.run(
            ["patch", "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.match(rb"GNU patch (\d+)\.(\d+)([.\d]*)", done.stdout)
    if not found or (int(found[1]), int(found[2])) < (2, 7):
        return ""
    return (found[0][len(b"GNU patch ") :]).decode()
