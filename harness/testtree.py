"""Which files of a tests tree some test files need, found by reading them; nothing is run.

The conftest.py and ``__init__.py`` of every level, modules of the tree that are imported, pytest
plugins of the tree, and data files that a string names: all of these in turn. What only running
could tell is not found, and that is no error: the arm will say what it lacks.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath

from harness.case import unsafe_path
from harness.errors import BadInput
from harness.sources import Tree

#: What pytest takes for a test file where nothing tells it otherwise (``python_files``).
TEST_FILES = ("test_*.py", "*_test.py")
#: Files of a data folder that a string names; a bigger one is not what the string means.
FOLDER_LIMIT = 500
#: Files that may be brought along, at most.
FILES_LIMIT = 20_000
_LONGEST = 200


def needed(tree: Tree, tests: Sequence[str], *, package: str) -> dict[str, bytes]:
    """The files that ``tests`` need, with themselves, by path; nothing of the package under test.

    ``tests`` are test files, folders (with all in them) or node IDs; those that the tree lacks
    are passed over.

    Raises:
        BadInput: more than 20,000 files, or one that cannot be read.
    """
    reader = _Reader(names=frozenset(tree.names()), package=package)
    found: dict[str, bytes] = {}
    read: set[str] = set()
    todo = {path for test in tests for path in reader.at(test.partition("::")[0])}
    while todo:
        if len(found) + len(todo) > FILES_LIMIT:
            raise BadInput(
                f"{tree.record.spec}: the tests need more than {FILES_LIMIT} files of it",
                "Name single test files instead of folders.",
            )
        new = tree.read_many(sorted(todo - found.keys()))
        found.update(new)
        read |= todo
        code, data = set[str](), set[str]()
        for path in todo:
            code.update(reader.levels(path))
            if path.endswith(".py"):
                about = _parse(found[path])
                code.update(reader.imported(path, about))
                data.update(reader.data(path, about))
        found.update(tree.read_many(sorted(data - found.keys() - code)))
        todo = code - read
    return dict(sorted(found.items()))


def import_folders(tests: Mapping[str, bytes], *, package: str) -> tuple[str, ...]:
    """Folders that must be on ``sys.path``: a file imports a module from there by its bare name.

    pytest's default import mode puts the first folder without an ``__init__.py`` there; the mode
    that the arms use does not. The root is there anyway and not among them.
    """
    reader = _Reader(names=frozenset(tests), package=package)
    found: dict[str, None] = {}
    for path in sorted(tests):
        if not path.endswith(".py"):
            continue
        for name in _parse(tests[path]).absolute:
            if name.partition(".")[0] not in sys.stdlib_module_names:
                base, _ = reader.module(path, name)
                if base:
                    found[base] = None
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    """What a Python file says: dotted names that it imports, and strings."""

    absolute: tuple[str, ...] = ()
    relative: tuple[tuple[int, str], ...] = ()
    strings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Finds files of a tree by what refers to them."""

    names: Collection[str]
    package: str

    def at(self, path: str) -> Iterator[str]:
        """The file, or all files of the folder, at a path."""
        path = str(PurePosixPath(path))
        if path in self.names:
            yield path
        elif path in self._folders:
            yield from (name for name in self._below(path) if self._outside(name))

    def levels(self, path: str) -> Iterator[str]:
        """conftest.py and ``__init__.py`` of every folder up to the root."""
        for folder in PurePosixPath(path).parents:
            for name in ("conftest.py", "__init__.py") if folder.name else ("conftest.py",):
                if (file := str(folder / name)) in self.names and self._outside(file):
                    yield file

    def imported(self, path: str, about: _About) -> Iterator[str]:
        """The tree's modules that a file imports."""
        for name in about.absolute:
            yield from self.module(path, name)[1]
        for level, name in about.relative:
            parents = PurePosixPath(path).parents
            if level <= len(parents):
                yield from self._files(str(parents[level - 1]), name)

    def module(self, path: str, name: str) -> tuple[str, tuple[str, ...]]:
        """Where on ``sys.path`` the tree's module is found, and its files; none where it isn't."""
        if name.partition(".")[0] != self.package:
            for base in self._bases(path):
                if files := tuple(self._files(base, name)):
                    return base, files
        return "", ()

    def data(self, path: str, about: _About) -> Iterator[str]:
        """Data files that a string names, from the file's folder or from any above it."""
        for text in about.strings:
            for folder in PurePosixPath(path).parents:
                place = _joined(str(folder), text)
                own = folder == PurePosixPath(path).parent
                # A test file's bare name is one of a list, for pytest's hooks say; no data.
                listed = _is_test(text) and "/" not in text
                if place in self.names and self._outside(place) and not listed:
                    yield place
                    break
                if place in self._folders and (own or "/" in text):
                    yield from self._data_folder(place)
                    break

    def _data_folder(self, folder: str) -> Iterator[str]:
        files = [name for name in self._below(folder) if self._outside(name)]
        tests = any(_is_test(name) for name in files)
        if len(files) <= FOLDER_LIMIT and not tests:
            yield from files

    def _bases(self, path: str) -> Iterator[str]:
        """The folders on ``sys.path``: the root, and what pytest's default import mode adds."""
        yield ""
        seen = {""}
        parents = PurePosixPath(path).parents
        for folder in (parents[0], *parents):
            if folder != parents[0] and str(folder / "conftest.py") not in self.names:
                continue
            while folder.name and str(folder / "__init__.py") in self.names:
                folder = folder.parent
            base = str(folder) if folder.name else ""
            if base not in seen:
                seen.add(base)
                yield base

    def _files(self, base: str, name: str) -> Iterator[str]:
        stem = _joined(base, name.replace(".", "/")) if name else base
        for file in (f"{stem}.py", f"{stem}/__init__.py"):
            if file in self.names and self._outside(file):
                yield file

    def _outside(self, path: str) -> bool:
        """Not of the package under test, wherever a checkout keeps that."""
        parts = PurePosixPath(path).parts
        first = parts[1:] if parts[0] in ("src", "lib", "python") else parts
        return first[:1] not in ((self.package,), (f"{self.package}.py",))

    def _below(self, folder: str) -> Iterator[str]:
        inside = (name for name in sorted(self.names) if name.startswith(f"{folder}/"))
        return (name for name in inside if "/.pytest_cache/" not in name)

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(
            str(folder)
            for name in self.names
            for folder in PurePosixPath(name).parents
            if folder.name
        )


def _parse(data: bytes) -> _About:
    """Read a Python file; one that isn't valid here says nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like are not ours
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _About()
    absolute: list[str] = []
    relative: list[tuple[int, str]] = []
    strings: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                absolute += [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                own = [".".join(filter(None, (module, alias.name))) for alias in names]
                found = [module or "", *own]
                absolute += [] if level else found
                relative += [(level, name) for name in found] if level else []
            case ast.Assign(targets=[ast.Name(id="pytest_plugins")], value=value):
                absolute += _constants(ast.walk(value))
            case ast.Call(args=args):
                if _called(node) == "import_module":
                    absolute += _constants(args[:1])
                strings += ["/".join(_constants(args))]
            case ast.BinOp(op=ast.Div()):
                strings.append("/".join(_constants(_operands(node))))
            case ast.Constant(value=str(text)):
                strings.append(text)
            case _:
                pass
    usable = dict.fromkeys(text.removesuffix("/").removeprefix("./") for text in strings)
    return _About(
        absolute=tuple(dict.fromkeys(filter(_is_dotted, absolute))),
        relative=tuple(dict.fromkeys(relative)),
        strings=tuple(text for text in usable if _may_be_path(text)),
    )


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of ``a / b / c`` from left to right."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield from _operands(node.left)
        yield node.right
    else:
        yield node


def _constants(nodes: Iterable[ast.AST]) -> list[str]:
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _is_dotted(name: str) -> bool:
    return bool(name) and all(part.isidentifier() for part in name.split("."))


def _may_be_path(text: str) -> bool:
    short = 0 < len(text) <= _LONGEST and text.isprintable()
    return short and text != "." and not unsafe_path(text)


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in TEST_FILES)


def _joined(folder: str, path: str) -> str:
    return str(PurePosixPath(folder, path)) if folder not in ("", ".") else str(PurePosixPath(path))
