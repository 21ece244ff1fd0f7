"""Tests that a case folder lacks, taken from another tree with all that they need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.case import unsafe_path
from harness.errors import BadInput
from harness.plan import BaseTests, CaseFiles, sha256
from harness.record import SourceRecord
from harness.sources import Tree
from harness.testtree import needed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Overlay:
    """A tree with the case's own files over it."""

    own: Mapping[str, bytes]
    tree: Tree

    @property
    def record(self) -> SourceRecord:
        """The tree's."""
        return self.tree.record

    def names(self) -> Collection[str]:
        """The paths of both."""
        return {*self.own, *self.tree.names()}

    def read(self, path: str) -> bytes:
        """The case's own file, else the tree's."""
        return self.own[path] if path in self.own else self.tree.read(path)

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Several of them by path."""
        theirs = self.tree.read_many([path for path in paths if path not in self.own])
        return {**theirs, **{path: self.own[path] for path in paths if path in self.own}}


def complete(
    own: Mapping[str, bytes], tests: Sequence[str], tree: Tree, *, package: str, where: str
) -> tuple[dict[str, bytes], SourceRecord]:
    """All test files of a case: its ``own``, and those of ``tree`` that they or ``tests`` need.

    Where both have a file, the case's own wins. The record names the files that were taken.

    Raises:
        BadInput: one of ``tests`` is in neither; ``where`` names the case.
    """
    overlay = _Overlay(own=own, tree=tree)
    names = overlay.names()
    for test in tests:
        if test not in names and not any(name.startswith(f"{test}/") for name in names):
            raise BadInput(
                f"{where}: tests: {test!r} is neither in the case's folder nor in "
                f"{tree.record.spec}",
                "Correct the path: it is relative to the top of that tree.",
            )
    found = needed(overlay, tests, package=package) | dict(own)
    taken = {path: sha256(data) for path, data in sorted(found.items()) if path not in own}
    return found, replace(tree.record, files=taken)


def base_tests(files: CaseFiles, tree: Tree) -> BaseTests:
    """The case's tests as ``tree`` has them, with all that they need there.

    Test files that the tree lacks are simply absent: they are new.

    Raises:
        BadInput: it has none of them.
    """
    found = needed(tree, files.case.tests, package=files.case.package)
    if not found:
        raise BadInput(
            f"--base-tests: {tree.record.spec} has none of the case's tests "
            f"({', '.join(files.case.tests)})",
            "Name the top of the tree that these paths are relative to, before the change.",
        )
    digests = {path: sha256(data) for path, data in found.items()}
    return BaseTests(tests=found, source=replace(tree.record, files=digests))


def check_taken(source: SourceRecord, where: str) -> tuple[str, ...]:
    """The paths that a record says were taken, made sure to be harmless.

    Raises:
        BadInput: one leads out of the folder.
    """
    for path in source.files:
        if problem := unsafe_path(path):
            raise BadInput(f"{where}: tests_from: {path!r} {problem}")
    return tuple(source.files)
