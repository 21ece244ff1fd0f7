"""The pure-Python pytest that the harness brings along for images that have none."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from pathlib import Path, PurePosixPath

from harness.errors import HarnessError

#: pytest and what it imports; the last three only below Python 3.11.
_DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_BEFORE_311 = ("exceptiongroup", "tomli", "typing_extensions")
#: pytest imports these lexers; the other 250 (9 MB) stay at home.
_LEXERS = {"__init__.py", "_mapping.py", "python.py", "diff.py"}


@cache
def toolkit() -> dict[str, bytes]:
    """Return pytest's Python files (no compiled ones) by path relative to a folder on sys.path.

    Raises:
        HarnessError: the harness is installed without its own dependencies.
    """
    files: dict[str, bytes] = {}
    for name in _DISTRIBUTIONS + _BEFORE_311:
        files.update(_files(name))
    return files


@cache
def guest() -> dict[str, bytes]:
    """Return the programs that run inside the environment, by file name."""
    folder = Path(__file__).parent.parent / "guest"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.py"))}


def _files(name: str) -> dict[str, bytes]:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise HarnessError(
            f"the harness's own dependency {name} is not installed", "pip install ab-harness"
        ) from error
    found = {}
    for path in distribution.files or ():
        if _wanted(PurePosixPath(path.as_posix())):
            found[path.as_posix()] = Path(str(distribution.locate_file(path))).read_bytes()
    return found


def _wanted(path: PurePosixPath) -> bool:
    if path.suffix != ".py" or ".." in path.parts:
        return path.name == "METADATA"  # pytest reads versions of its needs
    if path.parts[:2] == ("pygments", "lexers"):
        return path.name in _LEXERS
    return True
