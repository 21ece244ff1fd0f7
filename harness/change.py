"""A change as the harness takes it: its production patch, its test files, what each is about.

From a git repository everything is known. A diff alone has new test files whole; changed ones are
made of their old content, from the tree that ``--tests-from`` names.
"""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from harness.case import unsafe_path
from harness.draft import About
from harness.engines.git import Repository
from harness.engines.trees import FolderTree, GitTree
from harness.errors import BadInput
from harness.guest.hunks import Mismatch, apply_hunks
from harness.plan import TEST_FILES
from harness.record import SourceRecord
from harness.schema import loads
from harness.sources import Tree
from harness.split import LeftOut, Split, case_path, is_test, split
from harness.store import read_file
from harness.testtree import needed
from harness.touched import changed_lines, touched
from harness.unidiff import Patch, to_json
from harness.unidiff_changes import Change, parse_changes, subject, without_rename

_TESTS_FROM = (
    "Say where its content before the change is: --tests-from PATH, --tests-from REPO@REV or "
    "--tests-from sdist:NAME==VERSION; or give --git REPO --base REV --head REV."
)


#: What the top folder of a project has.
_PROJECT = (".git", "pyproject.toml", "setup.py", "setup.cfg")

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Overlay:
    """A tree with some files in their place, and some gone."""

    files: Mapping[str, bytes]
    base: Tree | None
    gone: frozenset[str] = frozenset()

    @property
    def record(self) -> SourceRecord:
        return self.base.record if self.base else SourceRecord(kind="folder", spec=".")

    def names(self) -> frozenset[str]:
        there = frozenset(self.base.names()) if self.base else frozenset()
        return (there - self.gone) | self.files.keys()

    def read(self, path: str) -> bytes:
        if path in self.files or self.base is None:
            return self.files[path]
        return self.base.read(path)

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        return {path: self.read(path) for path in paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a case is drafted from. ``tests`` are by their path in the case.

    ``about`` has the tests that the change touches, by test file; ``files`` are the test files
    proper among ``tests``. ``name`` is for a case's id, ``title`` what the author called it;
    ``dist`` is the distribution's name, where the checkout states it.
    """

    name: str
    title: str
    package: str
    source: str
    patch: bytes
    tests: Mapping[str, bytes]
    about: About
    left_out: tuple[LeftOut, ...] = ()
    dist: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that hold the tests to be run."""
        return tuple(self.about)


def from_git(repository: Path, base: str, head: str, *, package: str = "") -> Proposal:
    """The change from where ``head`` left ``base`` to ``head``, as a pull request shows it.

    Raises:
        BadInput: no such revisions, no package, a change that cannot be carried, or no tests.
    """
    after = Repository.open(repository, head)
    before = Repository.open(repository, after.merge_base(base))
    names, old_names = after.files(), before.files()
    where = f"{base}...{head}"
    changes = parse_changes(after.diff(before.commit), where=where)
    plain = list(_plain(changes, before, after))
    parts = split(plain, where=where, package=package, known=lambda p: p in names or p in old_names)

    tree = GitTree(repository=after, spec=head)
    read = _reader(tree)
    contents = {change: read(change.path) for change in parts.tests}
    name = head if head != "HEAD" else repository.resolve().name
    found = _proposal(parts, contents, tree, name=name, title=after.subject())
    return replace(found, dist=_dist(read, parts.source))


def from_diff(diff: Path, *, package: str = "", tests_from: Tree | None = None) -> Proposal:
    """The change that a diff holds; ``tests_from`` has the tests as they were before it.

    Raises:
        BadInput: as ``from_git``; or a test file's content is not known.
    """
    data = read_file(diff, "--diff")
    parts = split(parse_changes(data, where=str(diff)), where=str(diff), package=package)
    old = _reader(tests_from)
    contents = {change: _applied(change, old, str(diff)) for change in parts.tests}
    gone = frozenset(change.old for change in parts.tests)
    tree = _Overlay(
        files={change.path: data for change, data in contents.items()}, base=tests_from, gone=gone
    )
    return _proposal(parts, contents, tree, name=diff.stem, title=subject(data))


def ad_hoc(
    patch: Path, tests: Sequence[str], *, package: str = "", tests_from: Tree | None = None
) -> Proposal:
    """A patch with test files, or folders of them, from here or from ``tests_from``.

    Raises:
        BadInput: a path that is not there, or a patch that cannot be carried.
    """
    data = read_file(patch, "--patch")
    parts = split(parse_changes(data, where=str(patch)), where=str(patch), package=package)
    found: dict[str, bytes] = {}
    for path in tests:
        found.update(_tree_files(path, tests_from) if tests_from else _local_files(path))
    kept = {case_path(path, parts): data for path, data in found.items()}
    more = needed(tests_from or _here(found), [*found], package=parts.package)
    kept = {case_path(path, parts): data for path, data in more.items()} | kept
    named = {case_path(path, parts) for path in found}
    files = [path for path in named if _is_test_file(path) or path in tests]
    unused = tuple(
        LeftOut(path=change.path, why="a test file of the patch: --tests says which are run")
        for change in parts.tests
    )
    if not files:
        raise BadInput(f"--tests {', '.join(tests)}: no test file there", "Name test_*.py files.")
    return Proposal(
        name=patch.stem,
        title=subject(data),
        package=parts.package,
        source=parts.source,
        patch=parts.patch,
        tests=dict(sorted(kept.items())),
        about=dict.fromkeys(sorted(files)),
        left_out=(*parts.left_out, *unused),
    )


def _proposal(
    parts: Split, contents: Mapping[Change, bytes | None], tree: Tree, *, name: str, title: str
) -> Proposal:
    files = {change.path: data for change, data in contents.items() if data is not None}
    left_out = list(parts.left_out)
    for change, data in contents.items():
        if data is None:
            left_out.append(LeftOut(path=change.path, why="a link or submodule, not a plain file"))
    about: dict[str, frozenset[str] | None] = {}
    for change in parts.tests:
        if change.path in files and _is_test_file(change.path):
            lines = changed_lines(change.file) if change.file else frozenset[int]()
            names = None if change.creates else touched(files[change.path], lines)
            about[case_path(change.path, parts)] = names
    if not about:
        raise BadInput(
            f"{name}: changes no test file, so there is no test that could show the fix",
            "Write one, then: harness ab --patch FILE --tests tests/test_x.py --package "
            f"{parts.package}",
        )
    more = needed(tree, [*files], package=parts.package)
    tests = {case_path(path, parts): data for path, data in {**more, **files}.items()}
    return Proposal(
        name=name,
        title=title,
        package=parts.package,
        source=parts.source,
        patch=parts.patch,
        tests=dict(sorted(tests.items())),
        about=about,
        left_out=tuple(left_out),
    )


def _plain(changes: Sequence[Change], before: Repository, after: Repository) -> Iterator[Change]:
    """The changes with renamed and copied code as deleted and new files, whose content is known."""
    for change in changes:
        if not change.old or change.problem or is_test(change.path):
            yield change
            continue
        old, new = before.read(change.old), after.read(change.path)
        if b"\0" in old + new or not old or not new:
            yield change
        else:
            gone, there = without_rename(change, old, new)
            if change.old not in after.files():  # else it is a copy
                yield gone
            yield there


def _applied(change: Change, old: Callable[[str], bytes | None], where: str) -> bytes:
    """A test file after the change."""
    if change.problem:
        raise BadInput(
            f"{where}: {change.path} {change.problem}, so its content is not in the diff",
            "Give --git REPO --base REV --head REV instead of --diff.",
        )
    content = b"" if change.creates else old(change.old or change.path)
    if content is None:
        raise BadInput(
            f"{where}: {change.path} is changed, not new: the diff has it in part only", _TESTS_FROM
        )
    if change.file is None:
        return content
    entry = loads(to_json(Patch(files=(change.file,))))["files"][0]
    try:
        return apply_hunks(content, entry["hunks"])[0]
    except Mismatch as error:
        raise BadInput(
            f"{where}: {change.path}: its hunks do not fit the file of --tests-from: {error}",
            "Name the tree that the diff was made against.",
        ) from None


def _reader(tree: Tree | None) -> Read:
    names = frozenset(tree.names()) if tree else frozenset[str]()
    return lambda path: tree.read(path) if tree and path in names else None


def _here(found: Mapping[str, bytes]) -> Tree:
    """The project that the command was started in, with these files; else these alone."""
    top = Path()
    project = any((top / name).exists() for name in _PROJECT)
    return _Overlay(files=found, base=FolderTree(folder=top, spec=".") if project else None)


def _local_files(path: str) -> dict[str, bytes]:
    """The file, or those of the folder; by path from here, or by name where it lies elsewhere."""
    place = Path(path)
    if not place.exists():
        raise BadInput(f"--tests {path}: no such file or folder", "Give paths of test files.")
    outside = bool(unsafe_path(path))
    top = place.parent if outside else Path()
    found = {}
    for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if file.is_symlink() or not file.is_file() or file.suffix == ".pyc":
            continue
        name = file.relative_to(top).as_posix()
        inner = place.name if place.is_dir() else ""
        if outside and "tests" not in PurePosixPath(inner).parts:
            name = f"tests/{name}"
        found[name] = read_file(file)
    return found


def _tree_files(path: str, tree: Tree) -> dict[str, bytes]:
    wanted = path.rstrip("/")
    names = [name for name in tree.names() if name == wanted or name.startswith(f"{wanted}/")]
    if not names:
        raise BadInput(f"--tests {path}: not in the tree of --tests-from", "Correct the path.")
    return dict(tree.read_many(names))


def _dist(read: Read, source: str) -> str:
    """The distribution's name as the nearest pyproject.toml above the package states it."""
    for folder in (PurePosixPath(source), *PurePosixPath(source).parents):
        data = read(str(folder / "pyproject.toml"))
        with contextlib.suppress(UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
            project = tomllib.loads(data.decode()).get("project") if data else None
            name = project.get("name") if isinstance(project, dict) else None
            if isinstance(name, str):
                return name
    return ""


def _is_test_file(path: str) -> bool:
    return any(fnmatchcase(PurePosixPath(path).name, pattern) for pattern in TEST_FILES)
