"""Outcomes: merging and wording."""

from __future__ import annotations

import itertools

import pytest

from harness.outcome import Outcome, totals, worst


def test_worst_is_an_order_over_all_outcomes() -> None:
    for a, b, c in itertools.product(Outcome, repeat=3):
        assert worst(a, b) in (a, b)
        assert worst(a, b) is worst(b, a)
        assert worst(worst(a, b), c) is worst(a, worst(b, c))


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.PASSED])
def test_nothing_is_hidden_by_a_pass(outcome: Outcome) -> None:
    assert worst(Outcome.PASSED, outcome) is outcome


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, "no tests ran"),
        ({Outcome.PASSED: 2}, "2 passed"),
        (
            {Outcome.SKIPPED: 1, Outcome.PASSED: 1, Outcome.FAILED: 1},
            "1 failed, 1 passed, 1 skipped",
        ),
        ({Outcome.ERROR: 1}, "1 error"),
        (
            {Outcome.ERROR: 2, Outcome.XFAILED: 1, Outcome.XPASSED: 3},
            "1 xfailed, 3 xpassed, 2 errors",
        ),
        (
            {Outcome.TIMEOUT: 1, Outcome.NOT_RUN: 2, Outcome.CRASHED: 1},
            "1 crashed, 1 timed out, 2 not run",
        ),
    ],
)
def test_totals_are_worded_as_pytest_does(counts: dict[Outcome, int], text: str) -> None:
    assert totals(counts) == text
