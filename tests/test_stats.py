"""Statistics, against SciPy over all small tables and against their definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from harness.stats import best, fisher, holm, upper

#: All tables of which no row sum is above this: 3,025 of them, balanced or not.
LARGEST = 9
PS = st.floats(min_value=0.0, max_value=1.0)


def tables(first: int, second: int) -> list[tuple[int, int, int, int]]:
    """All tables with these row sums."""
    return [(a, first - a, c, second - c) for a in range(first + 1) for c in range(second + 1)]


@pytest.mark.parametrize("first", range(LARGEST + 1))
def test_fisher_agrees_with_scipy_over_all_small_tables(first: int) -> None:
    for second in range(LARGEST + 1):
        for a, b, c, d in tables(first, second):
            theirs = scipy_stats.fisher_exact([[a, b], [c, d]]).pvalue
            assert fisher(a, b, c, d) == pytest.approx(theirs, rel=1e-10), (a, b, c, d)


@pytest.mark.parametrize("runs", [12, 20, 30])
def test_fisher_agrees_with_scipy_over_all_tables_of_many_runs(runs: int) -> None:
    for a, b, c, d in tables(runs, runs):
        theirs = scipy_stats.fisher_exact([[a, b], [c, d]]).pvalue
        assert fisher(a, b, c, d) == pytest.approx(theirs, rel=1e-9), (a, b, c, d)


def test_fisher_forgives_no_less_than_the_usual_tolerance() -> None:
    """No two tables of up to 40 runs an arm are within 1e-7 of each other without being equal, so
    that counting exact ties and forgiving that much, as R does, select the same tables."""
    for runs, column in product(range(1, 41), range(81)):
        if column > 2 * runs:
            continue
        span = range(max(0, column - runs), min(runs, column) + 1)
        weights = sorted({comb(runs, k) * comb(runs, column - k) for k in span})
        for low, high in pairwise(weights):
            assert Fraction(high, low) > 1 + Fraction(1, 10**7)


def test_fisher_counts_the_table_that_is_exactly_as_probable() -> None:
    # Row sums 5 and 10, 3 failures: weights 120, 225, 100 and 10 of 455; 100 and less count.
    assert fisher(2, 3, 1, 9) == 110 / 455
    # Equal rows: each table has a twin on the other side, exactly as probable.
    assert fisher(0, 7, 3, 4) == fisher(3, 4, 0, 7) == 70 / 364


@given(a=st.integers(0, 60), b=st.integers(0, 60), c=st.integers(0, 60), d=st.integers(0, 60))
def test_fisher_does_not_depend_on_how_the_table_is_turned(a: int, b: int, c: int, d: int) -> None:
    p = fisher(a, b, c, d)
    assert p == fisher(c, d, a, b) == fisher(b, a, d, c) == fisher(a, c, b, d)
    assert 0 < p <= 1


def test_fisher_of_a_perfect_flip_as_published() -> None:
    assert [round(fisher(n, 0, 0, n), 3) for n in (3, 4, 5)] == [0.1, 0.029, 0.008]
    assert fisher(5, 0, 0, 5) == 2 / 252


def test_fisher_of_many_runs_is_still_exact() -> None:
    assert fisher(400, 0, 0, 400) == 2 / comb(800, 400)


@pytest.mark.parametrize("table", [(0, 0, 0, 0), (0, 0, 3, 4), (3, 0, 5, 0)])
def test_fisher_of_an_empty_row_or_column_says_nothing(table: tuple[int, int, int, int]) -> None:
    assert fisher(*table) == 1.0


def by_definition(ps: tuple[float, ...]) -> tuple[float, ...]:
    """Holm's adjusted p-values, straight from their definition: the maximum over all that rank
    before, of (m - rank + 1) times the p-value."""
    order = sorted(ps)
    steps = [min(1.0, (len(ps) - rank) * p) for rank, p in enumerate(order)]
    return tuple(max(step for step, q in zip(steps, order, strict=True) if q <= p) for p in ps)


@given(st.lists(PS, max_size=12))
def test_holm_is_its_definition(ps: list[float]) -> None:
    assert holm(ps) == by_definition(tuple(ps))


@given(st.lists(PS, min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(ps: list[float], level: float) -> None:
    rejected = set()
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        if (len(ps) - rank) * ps[place] > level:
            break
        rejected.add(place)
    assert {i for i, p in enumerate(holm(ps)) if p <= level} == rejected


def test_holm_keeps_the_order_that_it_was_given() -> None:
    worked = {0.01: 0.04, 0.04: 0.06, 0.03: 0.06, 0.02: 0.06}  # 4p, 1p, 2p, 3p, made monotone
    for ps in permutations(worked):
        assert holm(ps) == pytest.approx([worked[p] for p in ps])
    assert holm(()) == ()
    assert holm((0.4, 0.9, 0.7)) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("runs", range(1, 9))
def test_best_is_the_smallest_of_all_tables(runs: int) -> None:
    assert best(runs) == min(fisher(*table) for table in tables(runs, runs))
    assert best(runs) == (2 / comb(2 * runs, runs))


def test_best_of_no_run_at_all() -> None:
    assert best(0) == 1.0


@pytest.mark.parametrize("n", [*range(31), 100, 1500, 51_000])
@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_upper_agrees_with_scipy(n: int, confidence: float) -> None:
    for k in range(n) if n <= 30 else (0, 1, 2, 17, n // 50, n - 1):
        # The bound is a quantile of the beta distribution (Clopper and Pearson, 1934).
        theirs = scipy_stats.beta.ppf(confidence, k + 1, n - k)
        assert upper(k, n, confidence) == pytest.approx(theirs, rel=1e-8), (k, n)
    assert upper(n, n, confidence) == 1.0


def test_upper_of_nothing_seen_is_the_rule_of_three() -> None:
    assert upper(0, 1000) == pytest.approx(1 - 0.05 ** (1 / 1000), rel=1e-12)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_upper_refuses_what_are_no_counts(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="not counts"):
        upper(k, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_upper_refuses_a_confidence_that_is_none(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        upper(1, 3, confidence)


def test_fisher_and_best_refuse_negative_counts() -> None:
    with pytest.raises(ValueError, match="not counts"):
        fisher(1, -1, 2, 3)
    with pytest.raises(ValueError, match="not counts"):
        best(-1)
