"""A pull request's diff: what the package runs, what tests it, and all the rest. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from harness.case import unsafe_path
from harness.errors import BadInput, PatchRefused
from harness.patch import Patch, for_package, render
from harness.unidiff import FilePatch
from harness.unidiff_changes import Change, empty_file

#: Names of test files, whatever folder they stand in.
_TEST_NAMES = ("test_*.py", "*_test.py", "conftest.py")
_TEST_FOLDER = re.compile(r"tests|testsuite|.+[_-]tests")
#: Folders that hold tests at the top of a checkout; inside of a package they are code.
_TOP_TEST_FOLDERS = ("test", "testing")
#: Folders above packages, never packages themselves.
_ROOTS = ("src", "lib", "python", "py", "packages", "projects", "libs", "apps", "components")
_PROJECTS = ("packages", "projects", "libs", "apps", "components")
#: Folders and top-level modules of a checkout that are no package.
_NO_PACKAGE = re.compile(
    r"docs?|examples?|samples?|benchmarks?|scripts?|tools?|utils|bin|ci|docker|requirements|"
    r"third_party|vendor|cmake|csrc|changes|changelog(\.d)?|news(fragments)?|notebooks?|asv_bench|"
    r"setup|noxfile|tasks|fabfile|versioneer|manage|conf|build|dodo"
)
_COMPILED = re.compile(r".*\.(c|cc|cpp|cxx|cu|cuh|h|hh|hpp|pyx|pxd|rs|go|f|f90|m|mm|hip|so|pyd)")
_WHY_LEFT_OUT = (
    (r"(.*/)?(docs?|changes|changelog\.d|news|newsfragments)/.*", "documentation"),
    (r"(.*/)?(changes|changelog|history|news|authors|contributors|readme)[^/]*", "documentation"),
    (r".*\.(md|rst)", "documentation"),
    (r"\.(github|circleci|buildkite|gitlab|travis|azure)[^/]*(/.*)?", "continuous integration"),
    (r"(\.pre-commit|tox|noxfile|\.git)[^/]*", "the project's tools"),
    (r"(.*/)?([^/]+\.(egg|dist)-info/.*|PKG-INFO|MANIFEST[^/]*)", "packaging"),
    (r"(.*/)?(pyproject\.toml|setup\.(py|cfg)|requirements[^/]*|.*\.lock)", "packaging"),
)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")

Known = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file, or part of its change, that neither arm gets, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A change in its parts; ``source`` is the checkout's folder above ``package``.

    ``production`` has the paths of the checkout; ``tests`` are the changed test files that are
    there after the change.
    """

    package: str
    source: str
    production: Patch
    tests: tuple[Change, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def patch(self) -> bytes:
        """The production hunks as a patch file."""
        return render(self.production)


def split(
    changes: Sequence[Change], *, where: str, package: str = "", known: Known | None = None
) -> Split:
    """Split a change; ``package`` is found from the paths where it is not given.

    ``known`` says whether a path is in the checkout, where there is one.

    Raises:
        BadInput: no package, or several, with the candidates.
        PatchRefused: a production file whose change a patch cannot carry, by name.
    """
    code = [change for change in changes if not is_test(change.path)]
    roots = [(change, root) for change in code if (root := _root(change.path, package, known))]
    python = {root for change, root in roots if change.path.endswith(".py")}
    package, source = _one(python or {root for _, root in roots}, package, where)
    own = [change for change, root in roots if root == (source, package)]
    files, left_out = _production(own, package, source, where)
    tests = tuple(c for c in changes if is_test(c.path) and not c.deletes)
    _refuse_twins([*own, *tests], where)
    others = {root for _, root in roots if root != (source, package)}
    taken = {id(change) for change in (*own, *tests)}
    for change in changes:
        if id(change) not in taken:
            left_out.append(LeftOut(path=change.path, why=_why(change, package, others)))
    production = Patch(files=tuple(files))
    for_package(production, package=package, source=source, where=where)  # refuses by name
    return Split(
        package=package,
        source=source,
        production=production,
        tests=tests,
        left_out=tuple(left_out),
    )


def is_test(path: str) -> bool:
    """Whether a checkout's file belongs to its tests: a test file, or beside them (data, helpers).

    ``django/test/client.py`` and ``numpy/testing/utils.py`` are code of their packages.
    """
    *folders, name = path.split("/")
    if any(fnmatchcase(name, pattern) for pattern in _TEST_NAMES):
        return True
    if any(_TEST_FOLDER.fullmatch(folder) for folder in folders):
        return True
    return bool(folders) and folders[0] in _TOP_TEST_FOLDERS


def case_path(path: str, split: Split) -> str:
    """Where a test file stands in a case: where the checkout has it, but never in the package.

    A case's tests must not hide the package under test: ``pkg/tests/x.py`` is ``tests/x.py``.

    Raises:
        BadInput: an unsafe path.
    """
    if reason := unsafe_path(path):
        raise BadInput(f"{path!r}: {reason}", "Give the diff with the paths of a checkout.")
    below = f"{split.source}/" if split.source else ""
    inside = path.startswith(f"{below}{split.package}/")
    if not inside and PurePosixPath(path).parts[0] != split.package:
        return path
    parts = list(PurePosixPath(path.removeprefix(below)).parts)
    named = next((n for n, part in enumerate(parts) if _TEST_FOLDER.fullmatch(part)), 0)
    return "/".join(["tests", *parts[named + 1 :]])


def _root(path: str, package: str, known: Known | None) -> tuple[str, str] | None:
    """The source folder and the package that a file is of; None where it is of none."""
    if unsafe_path(path):
        return None
    if package:
        return _stated(path, package)
    found = _by_init(path, known) if known else None
    return found or _by_layout(path)


def _stated(path: str, package: str) -> tuple[str, str] | None:
    *folders, name = path.split("/")
    places = [n for n, folder in enumerate(folders) if folder == package]
    if places:
        place = places[0]
        if len(places) > 1 and place and folders[place - 1] in _PROJECTS:
            place = places[1]  # packages/foo/foo/x.py
        place = next((n for n in places if n and folders[n - 1] == "src"), place)
        return "/".join(folders[:place]), package
    return ("/".join(folders), package) if name == f"{package}.py" else None


def _by_init(path: str, known: Known | None) -> tuple[str, str] | None:
    """By the ``__init__.py`` files of the checkout: the topmost folder that has one."""
    folders = path.split("/")[:-1]
    assert known is not None
    top = None
    for n in range(len(folders), 0, -1):
        if not known("/".join([*folders[:n], "__init__.py"])):
            break
        top = n - 1
    if top is None or _NO_PACKAGE.fullmatch(folders[top]):
        return None
    return "/".join(folders[:top]), folders[top]


def _by_layout(path: str) -> tuple[str, str] | None:
    """By the usual layouts: ``src/pkg``, ``lib/python/pkg``, ``packages/NAME/src/pkg``, flat."""
    *folders, name = path.split("/")
    if path.startswith("."):
        return None
    module = name.removesuffix(".py") if name.endswith(".py") else ""
    parts = [*folders, module]
    start = 0
    if "src" in folders:
        start = folders.index("src") + 1
    else:
        while start < len(folders) and folders[start] in _ROOTS:
            project = folders[start] in _PROJECTS
            start += 1
            if project and len(folders) - start > 1:
                start += 1
    candidate = parts[start]
    if start < len(folders) and not _IDENTIFIER.fullmatch(candidate) and start + 1 < len(folders):
        start, candidate = start + 1, parts[start + 1]  # my-project/my_project/x.py
    if not _IDENTIFIER.fullmatch(candidate) or _NO_PACKAGE.fullmatch(candidate.lower()):
        return None
    return "/".join(parts[:start]), candidate


def _one(roots: set[tuple[str, str]], package: str, where: str) -> tuple[str, str]:
    """The only package with its source folder."""
    if len(roots) == 1:
        ((source, name),) = roots
        return name, source
    if package and not roots:
        raise BadInput(
            f"{where}: changes no file of the package {package!r}",
            "Correct --package: it is the import name.",
        )
    if package:
        found = ", ".join(sorted(source or "(top)" for source, _ in roots))
        raise BadInput(
            f"{where}: the package {package!r} stands under several folders: {found}",
            "Give the diff of one of them.",
        )
    if not roots:
        raise BadInput(
            f"{where}: changes no package's code, so there is nothing that a test could show",
            "Name the package by its import name: --package NAME.",
        )
    names = ", ".join(sorted(f"{name} (in {source or 'the top folder'})" for source, name in roots))
    raise BadInput(
        f"{where}: changes several packages: {names}",
        "A case is about one: name it with --package NAME; the others are left out.",
    )


def _production(
    own: Sequence[Change], package: str, source: str, where: str
) -> tuple[list[FilePatch], list[LeftOut]]:
    """The package's own hunks; what an installed package does not have is left out."""
    files: list[FilePatch] = []
    left_out: list[LeftOut] = []
    refused: list[tuple[str, str]] = []
    for change in own:
        path = change.path
        if _COMPILED.fullmatch(path.lower()):
            left_out.append(LeftOut(path=path, why="compiled: an image's compiled part stays"))
        elif change.problem:
            refused.append((f"{path}: {change.problem}", change.remedy))
        elif change.old:
            refused.append(
                (
                    f"{path}: is renamed from {change.old}, which a patch does not carry",
                    "Use `git diff --no-renames`, or give --git REPO --base REV --head REV.",
                )
            )
        elif change.file is not None:
            files.append(change.file)
        elif change.creates and path.endswith(".py"):
            files.append(empty_file(path))
            left_out.append(LeftOut(path=path, why="is empty: gets one comment line instead"))
        elif change.creates or change.deletes:
            left_out.append(LeftOut(path=path, why="an empty file, which a patch cannot carry"))
        if change.mode:
            left_out.append(LeftOut(path=path, why="its change of mode"))
    if refused:
        remedies = dict.fromkeys(remedy for _, remedy in refused)
        raise PatchRefused(
            "\n".join(f"{where}: {problem}" for problem, _ in refused), "\n  ".join(remedies)
        )
    if not files:
        raise PatchRefused(
            f"{where}: no change of the package {package!r} that a patch could carry",
            "A case needs a fix in the package's own Python files.",
        )
    return files, left_out


def _refuse_twins(changes: Sequence[Change], where: str) -> None:
    seen: set[str] = set()
    for change in changes:
        if change.path in seen:
            raise PatchRefused(
                f"{where}: {change.path} is in it twice, as in a series of commits",
                "Give one diff of all of them: `git diff BASE...HEAD`, or a pull request's .diff.",
            )
        seen.add(change.path)


def _why(change: Change, package: str, others: set[tuple[str, str]]) -> str:
    path = change.path
    if is_test(path):
        return "a test file that the change deletes"
    for pattern, why in _WHY_LEFT_OUT:
        if re.fullmatch(pattern, path, re.IGNORECASE):
            return why
    for source, other in others:
        if path.startswith(f"{source}/{other}/" if source else f"{other}/"):
            return f"of another package, {other}"
    return f"not under the package {package}"


def renamed(change: Change) -> FilePatch | None:
    """The hunks of a test file, with the path that it had before the change."""
    return replace(change.file, path=change.old or change.path) if change.file else None
