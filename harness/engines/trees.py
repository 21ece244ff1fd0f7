"""Opens what ``--tests-from`` and ``--base-tests`` name, as a tree of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.case import unsafe_path
from harness.engines import sdist
from harness.engines.git import FILE_LIMIT, Repository
from harness.errors import BadInput
from harness.record import SourceRecord
from harness.sources import Tree, parse_sdist

_SKIPPED = {".git", ".hg", "__pycache__", ".pytest_cache", ".venv", ".tox", "node_modules"}
_FILES_LIMIT = 500_000
_HELP = "Write PATH, PATH@REV (a git checkout) or sdist:NAME==VERSION."


@dataclass(frozen=True, kw_only=True)
class FolderTree:
    """The plain files at or below a folder, as they are now."""

    folder: Path
    spec: str

    @property
    def record(self) -> SourceRecord:
        """The folder's name as it was given."""
        return SourceRecord(kind="folder", spec=self.spec)

    def names(self) -> tuple[str, ...]:
        """The paths of all files but those of caches and of git; links are no files."""
        return self._names

    @cached_property
    def _names(self) -> tuple[str, ...]:
        found: list[str] = []
        for path in self._walk():
            found.append(path)
            if len(found) > _FILES_LIMIT:
                raise BadInput(f"{self.folder}: more than {_FILES_LIMIT} files", _HELP)
        return tuple(sorted(found))

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.folder):
            folders[:] = sorted(set(folders) - _SKIPPED)
            for name in files:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
                    yield path.relative_to(self.folder).as_posix()

    def read(self, path: str) -> bytes:
        """The bytes of one file.

        Raises:
            BadInput: there is none, or it has more than 64 MiB.
        """
        if unsafe_path(path) or path not in self.names():
            raise BadInput(f"{self.folder}: no plain file {path!r} in it")
        try:
            with Path(self.folder, path).open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
        except OSError as error:
            raise BadInput(f"{self.folder / path}: cannot be read: {error.strerror}") from error
        if len(data) > FILE_LIMIT:
            raise BadInput(f"{self.folder / path}: more than {FILE_LIMIT >> 20} MiB")
        return data

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of several files by path."""
        return {path: self.read(path) for path in paths}


@dataclass(frozen=True, kw_only=True)
class GitTree:
    """The files of a git repository at a revision."""

    repository: Repository
    spec: str

    @property
    def record(self) -> SourceRecord:
        """What was asked for, and the commit that it is."""
        return SourceRecord(kind="git", spec=self.spec, revision=self.repository.commit)

    def names(self) -> tuple[str, ...]:
        """The paths of all regular files."""
        return self._names

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(path for path in self.repository.files() if not unsafe_path(path))

    def read(self, path: str) -> bytes:
        """The bytes of one file; BadInput where there is none."""
        return self.repository.read(path)

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of several files by path, with one process."""
        return self.repository.read_many(paths)


def cache_folder() -> Path:
    """Where what was fetched for this user is kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ab-harness"))


def open_tree(text: str, *, cache: Path | None = None, where: str = "--tests-from") -> Tree:
    """The tree that ``PATH``, ``PATH@REV`` or ``sdist:NAME==VERSION`` names.

    ``cache`` is where fetched archives are kept, by default the user's cache folder; ``where``
    names the option in complaints.

    Raises:
        BadInput: it names nothing that is there.
        EngineError: an archive cannot be fetched.
    """
    if (release := parse_sdist(text, where=where)) is not None:
        return sdist.fetch(release, cache or cache_folder())
    if text and Path(text).expanduser().is_dir():
        return FolderTree(folder=Path(text).expanduser(), spec=_short(text))
    for position in (n for n, letter in enumerate(text) if letter == "@"):
        folder, revision = text[:position], text[position + 1 :]
        if folder and Path(folder).expanduser().is_dir():
            repository = Repository.open(folder, revision)
            return GitTree(repository=repository, spec=f"{_short(folder)}@{revision}")
    raise BadInput(f"{where}: {text!r} is no folder, no git revision and no release", _HELP)


def _short(path: str) -> str:
    """A folder's own name: evidence for others does not tell where this machine keeps things."""
    return Path(path).expanduser().resolve().name
