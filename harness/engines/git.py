"""A git checkout or a bare repository, read with the git program; nothing of it is run or changed.

The repository is not trusted: its hooks, filters, drivers and remotes are left alone, and the
work tree is neither read nor touched. Paths are relative to the folder that was given.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.engines.commands import plain
from harness.errors import BadInput

MIB = 1 << 20
FILE_LIMIT = 64 * MIB
TOTAL_LIMIT = 512 * MIB
LIST_LIMIT = 256 * MIB
_TIME_LIMIT = 300.0
#: Regular files; links are 120000, submodules 160000 (git's object model, "Tree Objects").
_REGULAR = ("100644", "100755", "100664")
_KINDS = {"120000": "a link", "160000": "a submodule"}
#: Settings of a repository that start programs or change the form of what is printed.
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.quotePath=true",
    "diff.suppressBlankEmpty=false",
    "protocol.allow=never",
)
_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "-M", "-U3",
    "--inter-hunk-context=0", "--diff-algorithm=myers", "--no-indent-heuristic",
    "--submodule=short", "--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/",
    "--relative", "-O/dev/null",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    mode: str
    object_id: str
    size: int


def blob_id(data: bytes, object_format: str = "sha1") -> str:
    """The ID that git gives a file of these bytes (git's object model, "Git Objects").

    ``object_format`` is the repository's; IDs of the two formats can't be compared.
    """
    return hashlib.new(object_format, b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository at one revision. Files are those at or below ``path``."""

    path: Path
    revision: str
    commit: str
    object_format: str

    @classmethod
    def open(cls, path: Path | str, rev: str) -> Repository:
        """The repository at ``path``, at a branch, tag, commit or whatever git knows for one.

        Raises:
            BadInput: git is lacking, there is no repository, or it knows no such revision.
        """
        folder = Path(path).expanduser().absolute()
        if not folder.is_dir():
            raise BadInput(f"{folder}: no such folder", "Give the folder of a git checkout.")
        object_format = _text(_git(folder, ["rev-parse", "--show-object-format"]))
        commit = _commit(folder, rev)
        return cls(path=folder, revision=rev, commit=commit, object_format=object_format)

    def describe(self) -> str:
        """The commit in short, by the nearest tag where there is one."""
        with contextlib.suppress(BadInput):
            return _text(_git(self.path, ["describe", "--tags", "--always", self.commit]))
        return self.commit[:12]

    def files(self) -> Mapping[str, str]:
        """Path and blob ID of every regular file; no links and no submodules."""
        return {p: e.object_id for p, e in self._entries.items() if e.mode in _REGULAR}

    def read(self, path: str) -> bytes:
        """The bytes of one file.

        Raises:
            BadInput: there is none, it is a link or a submodule, or it has more than 64 MiB.
        """
        return self.read_many([path])[path]

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The bytes of several files by path, with one process of git.

        Raises:
            BadInput: as for ``read``, or all have more than 512 MiB.
        """
        wanted = {path: self._entry(path) for path in paths}
        if sum(entry.size for entry in wanted.values()) > TOTAL_LIMIT:
            raise BadInput(f"{self._name}: more than {TOTAL_LIMIT // MIB} MiB asked for at once")
        if not wanted:
            return {}
        names = "".join(f"{entry.object_id}\n" for entry in wanted.values()).encode()
        limit = TOTAL_LIMIT + 200 * len(wanted)
        output = _git(self.path, ["cat-file", "--batch"], given=names, limit=limit)
        found, position = {}, 0
        for path, entry in wanted.items():
            end = output.find(b"\n", position)
            if output[position:end].split() != [
                entry.object_id.encode(),
                b"blob",
                b"%d" % entry.size,
            ]:
                raise BadInput(
                    f"{self._name}: {path}: git does not have the object {entry.object_id}",
                    "A partial or damaged clone: fetch it whole, and check with git fsck.",
                )
            found[path] = output[end + 1 : end + 1 + entry.size]
            position = end + 2 + entry.size
        return found

    def diff(self, base_rev: str) -> bytes:
        """The unified diff from another revision to this one, renames found.

        Raises:
            BadInput: no such revision, or the diff has more than 64 MiB.
        """
        base = _commit(self.path, base_rev)
        return _git(self.path, [*_DIFF, base, self.commit, "--"], limit=FILE_LIMIT)

    def merge_base(self, rev: str) -> str:
        """The commit where this revision left another: a pull request's change begins there.

        Raises:
            BadInput: no such revision, or the two have no commit in common.
        """
        other = _commit(self.path, rev)
        try:
            return _text(_git(self.path, ["merge-base", other, self.commit])).split()[0]
        except _GitFailed:
            raise BadInput(
                f"{self.path}: {rev} and {self.revision} have no commit in common",
                "Fetch more of the history, or name other revisions.",
            ) from None

    def subject(self) -> str:
        """The first line of the commit's message."""
        argv = ["log", "-1", "--no-show-signature", "--format=%s", self.commit]
        return _text(_git(self.path, argv))

    @property
    def _name(self) -> str:
        return f"{self.path}@{self.revision}"

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        output = _git(self.path, ["ls-tree", "-r", "-l", "-z", self.commit], limit=LIST_LIMIT)
        return dict(_listed(output))

    def _entry(self, path: str) -> _Entry:
        entry = self._entries.get(path)
        if entry is None:
            raise BadInput(f"{self._name}: no file {path!r} there", "See git ls-tree -r.")
        if entry.mode not in _REGULAR:
            kind = _KINDS.get(entry.mode, f"of mode {entry.mode}")
            raise BadInput(f"{self._name}: {path} is {kind}: only plain files are read")
        if entry.size > FILE_LIMIT:
            raise BadInput(f"{self._name}: {path} has more than {FILE_LIMIT // MIB} MiB")
        return entry


def _listed(output: bytes) -> Iterator[tuple[str, _Entry]]:
    """``mode type object size<TAB>path``, each ended by a NUL (git-ls-tree, "Output Format")."""
    for line in output.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        if tab:
            mode, _, object_id, size = head.decode("ascii").split()
            # "-" is a submodule's, BAD one that is not there.
            entry = _Entry(mode=mode, object_id=object_id, size=int(size) if size.isdigit() else -1)
            yield path.decode("utf-8", "surrogateescape"), entry


def _commit(folder: Path, rev: str) -> str:
    try:
        argv = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}"]
        return _text(_git(folder, argv)) if rev else _text(_git(folder, [*argv[:-1], "HEAD"]))
    except _GitFailed as error:
        if error.words:
            raise
        raise BadInput(
            f"{folder}: git knows no revision {rev!r} there",
            "Give a branch, a tag or a commit that was fetched (git fetch --tags).",
        ) from None


class _GitFailed(BadInput):
    """git ended with an error; ``words`` are its own."""

    def __init__(self, problem: str, remedy: str, words: str) -> None:
        super().__init__(problem, remedy)
        self.words = words


def _git(folder: Path, arguments: Sequence[str], *, given: bytes = b"", limit: int = MIB) -> bytes:
    """Run git in a folder and return what it prints, ``limit`` bytes at most."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    argv = ["git", "--no-pager", "--literal-pathspecs", *settings, *arguments]
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        try:
            child = subprocess.Popen(
                argv, cwd=folder, env=_environment(), stdin=stdin,
                stdout=subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        except FileNotFoundError:
            raise BadInput("the git program is not installed", "Install git.") from None
        timer = threading.Timer(_TIME_LIMIT, child.kill)
        timer.start()
        try:
            assert child.stdout is not None
            with child.stdout:
                output = child.stdout.read(limit + 1)
            if len(output) > limit:
                raise BadInput(f"{folder}: git {arguments[0]} prints more than {limit // MIB} MiB")
            code = child.wait()
        finally:
            timer.cancel()
            child.kill()
            child.wait()
        stderr.seek(0)
        words = stderr.read(MIB).decode("utf-8", "replace").strip()
    if code:
        raise _failed(folder, arguments[0], words)
    return output


def _failed(folder: Path, command: str, words: str) -> _GitFailed:
    said = " ".join(map(plain, words.splitlines()[:3]))
    if "dubious ownership" in words:
        return _GitFailed(
            f"{folder}: git does not read it, since it belongs to another user",
            f"If you trust it: git config --global --add safe.directory {folder}",
            said,
        )
    if "not a git repository" in words:
        return _GitFailed(
            f"{folder}: not a git repository",
            "Give the folder of a checkout or of a bare repository; a plain folder has no '@REV'.",
            said,
        )
    return _GitFailed(f"{folder}: git {command} failed: {said}", "Check it with git fsck.", said)


def _environment() -> dict[str, str]:
    """The user's, less what points git elsewhere; no locks, no fetching, no replaced objects."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ATTR_NOSYSTEM": "1",
    }


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()
