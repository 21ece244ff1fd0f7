"""What a JUnit file's suites claim of themselves (``tests="5" failures="1"``), against the count.

A claim that disagrees points to a file that was cut, edited or forged. Tools count differently,
so each number is checked against a range, not a value: pytest counts a test twice when its call
passes and its teardown fails, and once when both fail (then in two ``<testcase>`` elements);
googletest and ctest leave disabled tests out of ``skipped``; some tools leave nested suites out of
the outer one's numbers; surefire (no file of its own was at hand) counts a test once for all tries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.junit_dialects import RED
from harness.junit_document import Totals
from harness.outcome import Outcome


class Counts(NamedTuple):
    """What was counted. The first of a pair is what a tool counts at least, by test.

    ``cases`` are ``<testcase>`` elements; ``tests`` leaves out those with a key that stood
    already, and those that stand for a file; ``..._elements`` are the children with a result.
    """

    cases: int = 0
    tests: int = 0
    red: int = 0
    skipped: int = 0
    red_elements: int = 0
    error_elements: int = 0
    skipped_elements: int = 0

    def plus(self, other: Counts) -> Counts:
        """Add two counts, number by number."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Counts) -> Counts:
        """Subtract a count, number by number."""
        return Counts(*(a - b for a, b in zip(self, other, strict=True)))


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was met so far, but for the ``<testcase>`` elements, which the reader counts itself."""

    merged: int = 0
    no_tests: int = 0
    red: int = 0
    skipped: int = 0
    red_elements: int = 0
    error_elements: int = 0
    skipped_elements: int = 0

    def add_element(self, outcome: Outcome) -> None:
        """Count an element (or a test's attribute) that tells a result."""
        if outcome in RED:
            self.red_elements += 1
            self.error_elements += outcome is Outcome.ERROR
        else:
            self.skipped_elements += 1

    def add_test(self, outcome: Outcome, by_element: bool) -> None:
        """Count a test's outcome; ``by_element`` says whether an element told it."""
        if outcome in RED:
            self.red += 1
        elif by_element:
            self.skipped += 1

    def counts(self, cases: int) -> Counts:
        """Everything counted so far, with the number of ``<testcase>`` elements."""
        return Counts(
            cases=cases,
            tests=cases - self.merged - self.no_tests,
            red=self.red,
            skipped=self.skipped,
            red_elements=self.red_elements,
            error_elements=self.error_elements,
            skipped_elements=self.skipped_elements,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """A suite's attributes; None where it has none, or where it is not a number."""

    tests: int | None
    failures: int | None
    errors: int | None
    skipped: int | None
    disabled: int | None

    def totals(self) -> Totals | None:
        """The claims as totals, or None where not even the number of tests is claimed."""
        if self.tests is None:
            return None
        return Totals(
            tests=self.tests,
            failures=self.failures or 0,
            errors=self.errors or 0,
            skipped=self.skipped or 0,
        )

    def complaint(self, found: Counts) -> str:
        """Say where the claims disagree with what was found; empty where they don't."""
        wrong = []
        if self.tests is not None:
            most = found.cases + found.error_elements
            if not found.tests <= self.tests <= most:
                wrong.append(f"{self.tests} tests, found {found.cases}")
        if self.failures is not None or self.errors is not None:
            red = (self.failures or 0) + (self.errors or 0)
            if not found.red <= red <= found.red_elements:
                wrong.append(f"{red} failures and errors, found {found.red_elements}")
        if self.skipped is not None:
            enough = found.skipped <= self.skipped + (self.disabled or 0)
            if not (enough and self.skipped <= found.skipped_elements):
                wrong.append(f"{self.skipped} skipped, found {found.skipped_elements}")
        return "; ".join(wrong)


def _claims_of(attributes: Mapping[str, str]) -> Claims:
    return Claims(
        tests=_number(attributes.get("tests")),
        failures=_number(attributes.get("failures")),
        errors=_number(attributes.get("errors")),
        skipped=_number(attributes.get("skipped", attributes.get("skips"))),
        disabled=_number(attributes.get("disabled")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 19 else None


_NOTHING: Final = Counts()


@dataclass(slots=True, kw_only=True)
class _Suite:
    """An open suite: what was counted when it began, and what its inner suites came to.

    ``path`` are the names of the enclosing ``<testsuite>`` elements and its own, joined by ``/``.
    ``totals`` are its claims or, where it makes none, those of its inner suites.
    """

    path: str
    depth: int
    claims: Claims
    start: Counts
    nested: Counts = _NOTHING
    totals: Totals | None = None

    def close(self, now: Counts, outer: _Suite | None) -> str:
        """Hand the numbers to the outer suite; return a warning where claims and counts differ."""
        whole = now.minus(self.start)
        own = whole.minus(self.nested)
        self.totals = self.claims.totals() or self.totals
        if outer is not None:
            outer.nested = outer.nested.plus(whole)
            if self.totals is not None:
                outer.totals = self.totals.plus(outer.totals)
        complaint = self.claims.complaint(whole)
        if not complaint or not self.claims.complaint(own):
            return ""
        return f"suite {self.path or '(all)'!r} claims {complaint}"


_SHOWN: Final = 10


class Suites:
    """The open suites of a file, their path, and what the closed ones claimed.

    ``path`` are the names of the open ``<testsuite>`` elements, joined by ``/``, and ``depth`` is
    the innermost's; ``claimed`` is what the suite that closed last claims (in the end, the
    outermost), or its inner ones where it claims nothing.
    """

    __slots__ = ("_complaints", "_open", "claimed", "depth", "path", "tally")

    def __init__(self) -> None:
        """Begin a file."""
        self.tally = Tally()
        self.path, self.depth = "", 0
        self.claimed: Totals | None = None
        self._open: list[_Suite] = []
        self._complaints: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str], *, depth: int, cases: int) -> None:
        """Take the start of a suite at a depth, after so many ``<testcase>`` elements."""
        self.path = "/".join(filter(None, (self.path, name)))
        suite = _Suite(
            path=self.path,
            depth=depth,
            claims=_claims_of(attributes),
            start=self.tally.counts(cases),
        )
        self._open.append(suite)
        self.depth = depth

    def end(self, *, depth: int, cases: int) -> None:
        """Take the end of all suites that are deeper than ``depth``."""
        while self._open and self._open[-1].depth > depth:
            suite = self._open.pop()
            outer = self._open[-1] if self._open else None
            complaint = suite.close(self.tally.counts(cases), outer)
            self.path, self.depth = (outer.path, outer.depth) if outer else ("", 0)
            self.claimed = suite.totals
            if complaint:
                self._complaints.append(complaint if len(self._complaints) < _SHOWN else "")

    def warnings(self) -> Iterator[str]:
        """Say which suites claim what was not found: the first few, and how many more."""
        yield from self._complaints[:_SHOWN]
        more = len(self._complaints) - _SHOWN
        if more > 0:
            yield f"{more} more suites claim what was not found"
