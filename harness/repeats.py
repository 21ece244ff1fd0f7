"""What several runs of one arm say together: counts, chance, and how often A differs from A."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.outcome import Outcome
from harness.stats import fisher, holm, upper

#: Above this p-value a difference may well be chance; the field's usual level.
LEVEL = 0.05
#: As the pair is judged: an expected failure is red, an unexpected pass green.
_RED = frozenset((Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.TIMEOUT, Outcome.XFAILED))
_GREEN = frozenset((Outcome.PASSED, Outcome.XPASSED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """All runs of one node ID on one row, in their order; none is left out.

    ``failed`` counts the red ones unpatched and patched. ``p`` is Fisher's two-sided exact test
    of these counts, ``p_holm`` with Holm's correction over the row's node IDs; both are None
    where a run gave no result.
    """

    unpatched: tuple[Outcome, ...]
    patched: tuple[Outcome, ...]
    failed: tuple[int, int]
    p: float | None = None
    p_holm: float | None = None

    @property
    def words(self) -> tuple[str, str]:
        """``failed:runs`` of each arm."""
        arms = zip(self.failed, (self.unpatched, self.patched), strict=True)
        before, after = (f"{failed}:{len(runs)}" for failed, runs in arms)
        return before, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The unpatched arm against itself.

    ``comparisons`` counts node IDs that ran in an arm of a pair, over all ``pairs``;
    ``differing`` names a node ID for each difference. ``rate`` is the false-flip rate, ``upper``
    the bound that it stays below with 95 % confidence (Clopper and Pearson, 1934).
    """

    pairs: int
    comparisons: int
    differing: tuple[str, ...]
    refused: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Differences by comparisons; 0 where nothing was compared."""
        return len(self.differing) / self.comparisons if self.comparisons else 0.0

    @property
    def upper(self) -> float:
        """The one-sided upper bound of the rate; 1 where nothing was compared."""
        return upper(len(self.differing), self.comparisons) if self.comparisons else 1.0


def is_red(outcome: Outcome, *, load_error: bool = False) -> bool:
    """Whether a run of a test counts as failed; a file that cannot be loaded fails its tests."""
    return outcome in _RED or (load_error and outcome is Outcome.MISSING)


def measured(outcome: Outcome, *, load_error: bool = False) -> bool:
    """Whether a run of a test counts at all: a skip says neither yes nor no."""
    return outcome in _GREEN or is_red(outcome, load_error=load_error)


def p_value(failed: tuple[int, int], runs: int) -> float:
    """Fisher's exact test, two-sided, of ``failed`` in ``runs`` runs of each arm."""
    return fisher(failed[0], runs - failed[0], failed[1], runs - failed[1])


def corrected(values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction over those that are there, in the given order."""
    found = iter(holm([value for value in values if value is not None]))
    return [None if value is None else next(found) for value in values]
