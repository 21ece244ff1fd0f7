"""What can happen to a test and to an arm: two types that must never be mixed up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Outcome(StrEnum):
    """What one node ID did in one arm."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    MISSING = "missing"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    NOT_RUN = "not-run"


class ArmStatus(StrEnum):
    """What an arm as a whole did."""

    RAN = "ran"
    PATCH_REJECTED = "patch-rejected"
    TIMED_OUT = "timed-out"
    KILLED = "killed"
    ENGINE_FAILED = "engine-failed"
    INTERRUPTED = "interrupted"


class Arm(StrEnum):
    """What an arm has of the patch: nothing, all of it, or some of its hunks."""

    UNPATCHED = "unpatched"
    PATCHED = "patched"
    PARTLY = "partly"


class Series(StrEnum):
    """What an arm is run for.

    ``pair`` arms are compared with each other; ``aa`` arms are the unpatched one once more;
    ``base`` arms have the tests as they were before the change; ``ablation`` arms have some hunks.
    """

    PAIR = "pair"
    AA = "aa"
    BASE = "base"
    ABLATION = "ablation"


#: From harmless to worst; several results for one node ID merge to the worst.
#: An absence ranks above a pass, so that it can never be hidden by one.
_SEVERITY = (
    Outcome.PASSED,
    Outcome.XPASSED,
    Outcome.XFAILED,
    Outcome.SKIPPED,
    Outcome.MISSING,
    Outcome.NOT_RUN,
    Outcome.FAILED,
    Outcome.ERROR,
    Outcome.TIMEOUT,
    Outcome.CRASHED,
)
_RANK = {outcome: rank for rank, outcome in enumerate(_SEVERITY)}

#: The order and the words of pytest's last line; what pytest has no word for comes after.
_WORDS = (
    (Outcome.FAILED, "failed"),
    (Outcome.PASSED, "passed"),
    (Outcome.SKIPPED, "skipped"),
    (Outcome.XFAILED, "xfailed"),
    (Outcome.XPASSED, "xpassed"),
    (Outcome.ERROR, "error"),
    (Outcome.CRASHED, "crashed"),
    (Outcome.TIMEOUT, "timed out"),
    (Outcome.NOT_RUN, "not run"),
    (Outcome.MISSING, "missing"),
)


def worst(first: Outcome, second: Outcome) -> Outcome:
    """Return the worse of two outcomes of one node ID."""
    return first if _RANK[first] >= _RANK[second] else second


def totals(counts: Mapping[Outcome, int]) -> str:
    """Word counts as pytest's last line does, for example ``1 failed, 2 passed``."""
    parts = []
    for outcome, word in _WORDS:
        n = counts.get(outcome, 0)
        if n:
            plural = "s" if outcome is Outcome.ERROR and n > 1 else ""
            parts.append(f"{n} {word}{plural}")
    return ", ".join(parts) or "no tests ran"
