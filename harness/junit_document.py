"""A JUnit file as read: frozen types, and as little memory as 200,000 tests allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers of tests, as a file's suites claim them."""

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0

    def plus(self, other: Totals | None) -> Totals:
        """Add the numbers of another suite, which may have none."""
        if other is None:
            return self
        return Totals(
            tests=self.tests + other.tests,
            failures=self.failures + other.failures,
            errors=self.errors + other.errors,
            skipped=self.skipped + other.skipped,
        )


MAX_TYPE: Final = 200
MAX_MESSAGE: Final = 2_000
MAX_BODY: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What a test that didn't pass says; capped, with ``…`` where it was cut."""

    message: str = ""
    type: str = ""
    body: str = ""


def detail(message: str, kind: str, body: str, *, keep_body: bool) -> Detail:
    """Make a capped detail; where the tool gives no message, the body's first line is one."""
    if body and not message:
        message = next((line.strip() for line in body.splitlines() if line.strip()), "")
    if len(message) > MAX_MESSAGE:
        message = cut(message, MAX_MESSAGE)
    if len(kind) > MAX_TYPE:
        kind = cut(kind, MAX_TYPE)
    return Detail(message=message, type=kind, body=cut(body, MAX_BODY) if keep_body else "")


def cut(text: str, limit: int) -> str:
    """Return the text, or as much of it as the limit allows and ``…``."""
    return text if len(text) <= limit else text[:limit] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JUnit file as read.

    ``outcomes`` has every key in the file's order, ``details`` only those that didn't pass.
    ``load_errors`` are by file, class or suite: what went wrong outside of the tests, with its
    text. Of the keys, ``module_skips`` stand for a whole file or class, and ``flaky`` passed only
    when run again; ``merged`` counts the ``<testcase>`` elements whose key stood already.
    ``exact`` says whether all keys but ``module_skips`` are exact node IDs. ``claimed`` is what
    the suites' attributes say, None where they say nothing.
    """

    where: str
    outcomes: dict[str, Outcome]
    details: dict[str, Detail] = field(default_factory=dict)
    load_errors: dict[str, Detail] = field(default_factory=dict)
    module_skips: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    merged: int = 0
    exact: bool = False
    claimed: Totals | None = None
    warnings: tuple[str, ...] = ()


def doubts(
    document: Document, *, exact: int, unknown: Mapping[str, int], dropped: int
) -> Iterator[str]:
    """Say what a reader of the document should know.

    ``exact`` is how many tests have an exact node ID, ``unknown`` how often an element stood in a
    test that isn't known, and ``dropped`` how many details were left out.
    """
    if not document.outcomes and not document.load_errors:
        yield "there is no test in it"
    if document.flaky:
        yield f"{_count(len(document.flaky), 'test')} passed only when run again"
    if exact and not document.exact:
        yield f"only {_count(exact, 'test')} of {len(document.outcomes)} with an exact node ID"
    if document.merged and not document.exact:
        number = _count(document.merged, "result")
        yield f"{number} under a name that stood already: the worst of a name counts"
    for name, times in unknown.items():
        yield f"<{cut(name, 40)}> in {_count(times, 'place')} was not understood"
    if dropped:
        yield f"the details of {_count(dropped, 'test')} were left out: too much text"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
