"""What test files need beside themselves, found by reading them: conftest files and helpers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

#: Files that may be brought along, at most: a test that imports more is a project of its own.
LIMIT = 200

_FILE = re.compile(r"(?!/)(?:(?!\.\.?/)[\w.@+-]+/){0,8}[\w@+-][\w.@+-]*\.\w{1,8}")

Read = Callable[[str], bytes | None]


def neighbours(tests: Mapping[str, bytes], read: Read, *, hidden: str) -> dict[str, bytes]:
    """The files of a checkout that these tests use and that are not among them.

    ``read`` gives a file of the checkout, or None. Found are the conftest.py and ``__init__.py``
    files of every level, modules that are imported by their path or from the same folder, and
    files that a text in a test names, relative to the test's folder; never those below
    ``hidden``, the package under test.
    """
    found: dict[str, bytes] = {}
    queue = [*tests]
    while queue and len(found) < LIMIT:
        path = queue.pop()
        data = tests.get(path, found.get(path, b""))
        for name in dict.fromkeys([*_levels(path), *_imported(path, data)]):
            inside = name.startswith(f"{hidden}/")
            if inside or name in tests or name in found or (got := read(name)) is None:
                continue
            found[name] = got
            queue.append(name)
    return found


def _levels(path: str) -> Iterator[str]:
    for folder in PurePosixPath(path).parents:
        for name in ("conftest.py", "__init__.py"):
            if folder.parts or name == "conftest.py":
                yield str(folder / name)


def _imported(path: str, data: bytes) -> Iterator[str]:
    if not path.endswith(".py"):
        return
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    folder = PurePosixPath(path).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _FILE.fullmatch(node.value):  # a data file, named where it is opened
                yield str(folder / node.value)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files([""], alias.name)
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *_below(node)]
            if node.level:
                base = folder
                for _ in range(node.level - 1):
                    base = base.parent
                for name in names:
                    yield from _files([str(base)], name)
            else:
                for name in names:
                    yield from _files([""], name)


def _below(node: ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        yield f"{node.module}.{alias.name}" if node.module else alias.name


def _files(bases: Iterable[str], module: str) -> Iterator[str]:
    inner = module.replace(".", "/")
    for base in bases:
        if not inner:
            continue
        stem = str(PurePosixPath(base) / inner)
        yield f"{stem}.py"
        yield f"{stem}/__init__.py"
