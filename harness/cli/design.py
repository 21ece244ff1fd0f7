"""The options that ask for more arms than two, and what they mean for each case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from harness import testsfrom
from harness.engines.trees import open_tree
from harness.plan import CaseFiles, Design, specs
from harness.progress import Progress

F = TypeVar("F", bound=Callable[..., object])
_MOST_REPEATS = 1000

_OPTIONS = (
    click.option(
        "--repeat",
        metavar="N",
        type=click.IntRange(1, _MOST_REPEATS),
        default=1,
        help="Run each arm N times in turn (A B A B …): counted as failed:runs, with p-values. "
        "Arms of one kind that disagree make a test unstable.",
    ),
    click.option(
        "--aa",
        is_flag=True,
        help="Also run the unpatched arm against itself, once a repeat: the false-flip rate.",
    ),
    click.option(
        "--ablate",
        is_flag=True,
        help="Also run with only some of the patch's hunks: which of them each flip needs.",
    ),
    click.option(
        "--whole-files",
        is_flag=True,
        help="Run every test of the case's files and folders, not only the declared node IDs.",
    ),
    click.option(
        "--base-tests",
        metavar="SPEC",
        help="Also run the tests as they were before the change, whole, from PATH, REPO@REV or "
        "sdist:NAME==VERSION: what fails with them too is drift.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options as they were given."""

    repeat: int
    aa: bool
    ablate: bool
    whole_files: bool
    base_tests: str | None

    def designs(self, cases: Sequence[CaseFiles], progress: Progress) -> list[Design]:
        """Which arms each case gets; what that means is told, where it is more than two.

        Raises:
            BadInput: the old tests are nowhere, or have none of a case's tests.
        """
        tree = open_tree(self.base_tests, where="--base-tests") if self.base_tests else None
        found = []
        for files in cases:
            design = Design(
                repeat=self.repeat,
                aa=self.aa,
                ablate=self.ablate,
                whole_files=self.whole_files,
                base=testsfrom.base_tests(files, tree) if tree else None,
            )
            if self.ablate and files.patch.hunk_count < 2:
                hunks = "one hunk" if files.patch.hunk_count else "no hunks"
                progress.step(
                    f"--ablate: the patch of {files.case.id} has {hunks}: none to leave out"
                )
            arms = len(specs(design, files.patch))
            if arms > 2:
                progress.step(f"arms: {arms} a row of {files.case.id}, one after the other")
            found.append(design)
        return found


def options(command: F) -> F:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
