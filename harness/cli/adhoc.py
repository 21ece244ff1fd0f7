"""``harness ab --patch``: no case folder; one is drafted on the way, and then run as any other."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness import change, drafting, targets
from harness.case import Role
from harness.cli import common
from harness.engines.trees import open_tree
from harness.errors import BadInput
from harness.parallel import Stop
from harness.plan import CaseFiles


def request(
    patch: Path | None,
    tests: Sequence[str],
    package: str,
    tests_from: str | None,
    cases: Sequence[str],
) -> change.Proposal | None:
    """What is to be drafted; None where cases are to be run.

    Raises:
        BadInput: the options contradict each other, or a file is not there.
    """
    if patch is None:
        if tests or package:
            raise BadInput(
                "--tests and --package go with --patch: a case says them itself",
                "Leave them out, or give --patch FILE.",
            )
        return None
    if cases:
        raise BadInput(
            f"--patch and a case ({cases[0]}): which is meant?",
            "A case has its own patch and tests: leave one of them out.",
        )
    if not tests:
        raise BadInput(
            "--patch needs --tests PATH",
            "Name the test files; harness new --diff takes them from the diff itself.",
        )
    tree = open_tree(tests_from) if tests_from else None
    return change.ad_hoc(patch, tests, package=package, tests_from=tree)


def draft(
    proposal: change.Proposal, choice: targets.Choice, root: Path
) -> tuple[CaseFiles, targets.Choice]:
    """The case that a first run makes of the proposal, and the choice with its image.

    Raises:
        BadInput: as ``drafting.scout``; or no test fails without the patch and passes with it.
        EngineError: as ``drafting.scout``.
    """
    with tempfile.TemporaryDirectory(prefix="harness-ab-") as scratch, common.Display() as display:
        choice = drafting.with_image(proposal, choice, display)
        found = drafting.scout(
            proposal,
            name=drafting.case_id(proposal),
            choice=choice,
            folder=Path(scratch),
            root=root,
            progress=display,
            stop=Stop(),
        )
        if not found.draft.of(Role.FLIP):
            lines = "\n".join(f"  - {line}" for line in drafting.summary(found))
            raise BadInput(
                f"no test fails without the patch and passes with it:\n{lines}",
                "Name the tests that show the fix, or another image (--image).",
            )
        display.step("drafted from one run, whose results are the claims; a second run checks them")
        for line in (*drafting.summary(found), *_left_out(proposal)):
            display.step(f"drafted: {line}")
    return found.files, choice


def _left_out(proposal: change.Proposal) -> list[str]:
    return [f"left out of the patch: {each.path}: {each.why}" for each in proposal.left_out]
