"""Which tests of a file a change is about. Pure: the new file and the changed lines.

A test is changed where its own lines are, or those of its class outside of the class's tests, or
those of a helper, fixture or constant of its file that it names, directly or through another.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.unidiff import FilePatch

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A statement of the file, or a test in a class: its lines, the names it binds and uses."""

    name: str
    lines: range
    binds: frozenset[str]
    uses: frozenset[str]
    test: bool


def changed_lines(file: FilePatch) -> frozenset[int]:
    """The lines of the new file, from 1, that are new, or directly after which lines are gone.

    A decorator stands before what it belongs to, so one that is gone counts for the line after.
    """
    found = set()
    for hunk in file.hunks:
        line = hunk.new_start + (hunk.new_count == 0)
        for text in hunk.lines:
            if text.startswith(b"+"):
                found.add(line)
            elif text.startswith(b"-"):
                found.add(line if text[1:].lstrip().startswith(b"@") else line - 1)
            line += not text.startswith(b"-")
    return frozenset(found)


def touched(source: bytes, lines: Collection[int]) -> frozenset[str]:
    """The tests, as ``Class::test`` or ``test``, that the change of these lines is about.

    A file that is not Python has none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    parts = list(_parts(tree.body, ""))
    changed = [part for part in parts if any(line in part.lines for line in lines)]
    names = {name for part in changed if not part.test for name in part.binds}
    while more := {n for p in parts if not p.test and p.uses & names for n in p.binds} - names:
        names |= more
    return frozenset(
        part.name for part in parts if part.test and (part in changed or part.uses & names)
    )


def name_of(node_id: str) -> str:
    """``Class::test`` of a node ID, without its file and its parameters."""
    return node_id.partition("::")[2].partition("[")[0]


def _parts(body: list[ast.stmt], prefix: str) -> Iterator[_Part]:
    for statement in body:
        if isinstance(statement, ast.ClassDef) and _collected(statement):
            yield from _of_class(statement, prefix)
        else:
            yield _part(statement, prefix)


def _of_class(statement: ast.ClassDef, prefix: str) -> Iterator[_Part]:
    """The tests of a class; its other lines belong to all of them, by the name of the class."""
    own = f"{prefix}{statement.name}"
    for part in _parts(statement.body, f"{own}::"):
        yield _Part(
            name=part.name,
            lines=part.lines,
            binds=part.binds if part.test else part.binds | {own},
            uses=part.uses | {own},
            test=part.test,
        )
    first = min((d.lineno for d in statement.decorator_list), default=statement.lineno)
    head = range(first, statement.body[0].lineno)
    yield _Part(name=own, lines=head, binds=frozenset({own}), uses=_names(statement), test=False)


def _part(statement: ast.stmt, prefix: str) -> _Part:
    decorators = getattr(statement, "decorator_list", [])
    first = min((d.lineno for d in decorators), default=statement.lineno)
    name = getattr(statement, "name", "")
    return _Part(
        name=f"{prefix}{name}",
        lines=range(first, (statement.end_lineno or first) + 1),
        binds=frozenset(_bound(statement)),
        uses=_names(statement),
        test=isinstance(statement, _FUNCTIONS) and name.startswith("test"),
    )


def _collected(statement: ast.ClassDef) -> bool:
    """Whether pytest looks for tests in the class: by its name, or as unittest's."""
    unittest = any("TestCase" in ast.unparse(base) for base in statement.bases)
    return statement.name.startswith("Test") or unittest


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _names(statement: ast.stmt) -> frozenset[str]:
    """What it may use: names, arguments (fixtures), and the texts of usefixtures and the like."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return frozenset(found)
