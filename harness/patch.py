"""What a production patch may touch, and where its lines went. Pure: bytes in, records out."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase

from harness.errors import PatchRefused
from harness.unidiff import FilePatch, Hunk, Patch, numbered, render, subset, to_json
from harness.unidiff_parser import parse_patch

__all__ = [
    "FilePatch",
    "Hunk",
    "Patch",
    "for_package",
    "moved_line",
    "numbered",
    "parse_patch",
    "render",
    "subset",
    "to_json",
    "touches",
]

_Refusal = tuple[str, str]

_TESTS = "Take it out of the patch: test files belong under the case's 'tests', equal in both arms."
_STATE_SOURCE = "State the checkout's folder above the package as 'source' in case.toml."
_TAKE_OUT = "Take it out of the patch: a production patch changes the package's own code only."

#: File names that a production patch may not have, why, and what to do.
_REFUSED_NAMES = (
    ("conftest.py", "configures pytest", _TESTS),
    ("test_*.py", "is a test file", _TESTS),
    ("*_test.py", "is a test file", _TESTS),
    ("sitecustomize.py", "runs at the start of every Python", _TAKE_OUT),
    ("usercustomize.py", "runs at the start of every Python", _TAKE_OUT),
    ("*.pth", "runs at the start of every Python", _TAKE_OUT),
    ("*pytest*plugin*", "is a pytest plugin", _TAKE_OUT),
    ("pytest.ini", "configures pytest", _TESTS),
    (".pytest.ini", "configures pytest", _TESTS),
    ("pytest.toml", "configures pytest", _TESTS),
    (".pytest.toml", "configures pytest", _TESTS),
    ("tox.ini", "configures pytest", _TESTS),
    ("setup.cfg", "configures pytest or the build", _TAKE_OUT),
    ("pyproject.toml", "configures pytest or the build", _TAKE_OUT),
    ("entry_points.txt", "registers plugins", _TAKE_OUT),
    ("*.pyc", "is compiled, not source", _TAKE_OUT),
)
_REFUSED_FOLDERS = (
    ("*.dist-info", "is an installer's record", _TAKE_OUT),
    ("*.egg-info", "is an installer's record", _TAKE_OUT),
    ("__pycache__", "is compiled, not source", _TAKE_OUT),
)
#: Folders of a checkout that hold copies of a package's layout, but never the package.
_NO_SOURCE = re.compile(r"(^|/)(tests?|testing|docs?|examples?|benchmarks?|third_party)(/|$)")


def for_package(patch: Patch, *, package: str, source: str | None, where: str) -> Patch:
    """Return the patch with paths as installed: relative to the folder that holds the package.

    ``source`` is the checkout's folder above the package (``"src"``, ``""``); None finds it.
    ``where`` is the patch file's name for errors.

    Raises:
        PatchRefused: names each path that lies outside the package or may not be patched.
    """
    problems: list[_Refusal] = []
    files: list[FilePatch] = []
    prefixes: dict[str, str] = {}
    seen: dict[str, str] = {}
    stated = None if source is None else source.strip("/").removeprefix(".")
    for file in patch.files:
        prefix = _prefix(file.path, package) if stated is None else stated
        problem = _refusal(file.path, package, prefix, stated=stated is not None)
        problem = problem or _twin(file.path, seen)
        if problem:
            problems.append((f"{file.path}: {problem[0]}", problem[1]))
            continue
        prefixes.setdefault(prefix or "", file.path)
        files.append(replace(file, path=file.path[len(f"{prefix}/") if prefix else 0 :]))
    if len(prefixes) > 1:
        found = ", ".join(f"{prefix or '(top)'!r} of {path}" for prefix, path in prefixes.items())
        problems.append((f"the package stands under several folders: {found}", _STATE_SOURCE))
    if problems:
        remedies = dict.fromkeys(remedy for _, remedy in problems)
        raise PatchRefused(
            "\n".join(f"{where}: {problem}" for problem, _ in problems), "\n  ".join(remedies)
        )
    return Patch(files=tuple(files))


def touches(patch: Patch, file: str) -> bool:
    """Whether the patch changes ``file``; whole last parts of the paths must be equal."""
    return any(_same_file(entry.path, file) for entry in patch.files)


def moved_line(patch: Patch, path: str, line: int) -> int:
    """Return where line ``line`` of the old file stands in the new one.

    A removed line gives the line that follows in its place. Paths compare as in ``touches``;
    where several files of the patch fit, the line is returned as it is.
    """
    fits = [file for file in patch.files if _same_file(file.path, path)]
    if len(fits) != 1:
        return line
    shift = 0
    for hunk in fits[0].hunks:
        # An empty range names the line before it.
        old = hunk.old_start + (hunk.old_count == 0)
        for text in hunk.lines:
            added = text.startswith(b"+")
            if old > line or (old == line and not added):
                break
            old += not added
            shift += added - text.startswith(b"-")
    return line + shift


def _prefix(path: str, package: str) -> str | None:
    """Return the folders before the package in a checkout's path; None if it is not in it."""
    *folders, name = path.split("/")
    if package in folders:
        return "/".join(folders[: folders.index(package)])
    return "/".join(folders) if name == f"{package}.py" else None


def _refusal(path: str, package: str, prefix: str | None, *, stated: bool) -> _Refusal | None:
    """Return why the path may not be patched and what to do about it."""
    *folders, name = path.split("/")
    for pattern, why, remedy in _REFUSED_NAMES:
        if fnmatchcase(name.lower(), pattern):
            return f"{why}; a production patch may not change it", remedy
    for pattern, why, remedy in _REFUSED_FOLDERS:
        if any(fnmatchcase(folder.lower(), pattern) for folder in folders):
            return f"{why}; a production patch may not change it", remedy
    if prefix is None:
        return f"is not under the package {package!r}", _TAKE_OUT
    below = f"{prefix}/" if prefix else ""
    if not path.startswith(f"{below}{package}/") and path != f"{below}{package}.py":
        return f"is not under {below + package!r}", f"{_TAKE_OUT} {_STATE_SOURCE}"
    if not stated and _NO_SOURCE.search(prefix):
        return f"is a copy of the package's layout under {prefix!r}, not its source", _STATE_SOURCE
    return None


def _twin(path: str, seen: dict[str, str]) -> _Refusal | None:
    """Return a refusal if the patch has the path already, in whatever case."""
    key = path.casefold()
    if key not in seen:
        seen[key] = path
        return None
    first = seen[key]
    if first == path:
        return "is in the patch twice", "Join its hunks under one header, as `git diff` does."
    return f"differs only in case from {first}", "Some file systems take them for one: rename one."


def _same_file(first: str, second: str) -> bool:
    one, other = first.split("/"), second.split("/")
    shared = min(len(one), len(other))
    return bool(first and second) and one[-shared:] == other[-shared:]
