"""Exact statistics of small counts: what some runs of two arms can prove, and what they cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Halvings of [0, 1]: more than a double can tell apart.
_HALVINGS = 60


def fisher(a: int, b: int, c: int, d: int) -> float:
    """The two-sided p-value of Fisher's exact test of the table ``((a, b), (c, d))``.

    It is the probability, with all four margins fixed, of every table that is not more probable
    than the observed one (Fisher, 1922; Agresti, Categorical Data Analysis, on 2 × 2 tables).
    Tables are weighed as integers, so that a table exactly as probable always counts; R and SciPy
    weigh them as floats and forgive a relative difference (1e-7, 1e-14) to the same end.
    An empty row or column says nothing: 1.

    Raises:
        ValueError: a count is negative.
    """
    _counts(a, b, c, d)
    first, second, column = a + b, c + d, a + c
    observed = math.comb(first, a) * math.comb(second, c)
    weights = (
        math.comb(first, k) * math.comb(second, column - k)
        for k in range(max(0, column - second), min(first, column) + 1)
    )
    return sum(w for w in weights if w <= observed) / math.comb(first + second, column)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """The p-values corrected by Holm's step-down method, each in its given place, 1 at most.

    The family-wise error stays at the level whatever the tests' dependence (Holm, 1979, A simple
    sequentially rejective multiple test procedure). A larger p-value is never corrected to a
    smaller one than another's.
    """
    corrected = [1.0] * len(ps)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = highest
    return tuple(corrected)


def best(runs: int) -> float:
    """The smallest p-value that ``runs`` runs of each arm can give in ``fisher``.

    That is of all failed against none: 2 / C(2 runs, runs); 1 where nothing ran.

    Raises:
        ValueError: the number is negative.
    """
    return fisher(runs, 0, 0, runs)


def upper(k: int, n: int, confidence: float = 0.95) -> float:
    """The one-sided upper bound of a rate, after it showed ``k`` times in ``n``.

    The largest rate at which ``k`` or fewer of ``n`` still have a probability of
    1 − ``confidence`` (Clopper and Pearson, 1934, The use of confidence or fiducial limits
    illustrated in the case of the binomial), found by halving the interval. 1 where ``k`` is
    ``n``, so also where nothing was measured.

    Raises:
        ValueError: ``k`` is negative or above ``n``, or ``confidence`` is not between 0 and 1.
    """
    _counts(k, n - k)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1")
    if k == n:
        return 1.0
    whole = math.lgamma(n + 1)
    ways = [whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(k + 1)]
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        hit, miss = math.log(rate), math.log1p(-rate)
        # As logarithms: C(n, i) alone is beyond a float from about n = 1030.
        chance = math.fsum(math.exp(w + i * hit + (n - i) * miss) for i, w in enumerate(ways))
        low, high = (rate, high) if chance > 1 - confidence else (low, rate)
    return high


def _counts(*counts: int) -> None:
    if any(count < 0 for count in counts):
        raise ValueError(f"not counts: {counts}")
