"""Two outcomes of one key to a flip, and two JUnit documents to a table of flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from itertools import chain, repeat
from operator import eq
from typing import Final, NamedTuple, assert_never

from harness.junit_document import Detail, Document
from harness.outcome import Outcome


class Flip(StrEnum):
    """What became of one key from the first arm to the second."""

    FIXED = "fixed"
    BROKE = "broke"
    BOTH_PASS = "both-pass"
    BOTH_FAIL = "both-fail"
    BOTH_SKIP = "both-skip"
    SKIP_CHANGED = "skip-changed"
    APPEARED = "appeared"
    VANISHED = "vanished"
    ABSENT = "absent"
    UNMEASURED = "unmeasured"


class _Kind(Enum):
    """What an outcome counts as in a comparison."""

    GREEN = auto()
    RED = auto()
    SKIP = auto()
    UNMEASURED = auto()
    ABSENT = auto()


def _kind(outcome: Outcome) -> _Kind:
    """Sort an outcome.

    An expected failure is red: the assertion does fail. An unexpected pass is green, also since
    pytest's JUnit can't tell it from a pass.
    """
    match outcome:
        case Outcome.PASSED | Outcome.XPASSED:
            return _Kind.GREEN
        case Outcome.FAILED | Outcome.ERROR | Outcome.CRASHED | Outcome.XFAILED:
            return _Kind.RED
        case Outcome.SKIPPED:
            return _Kind.SKIP
        case Outcome.TIMEOUT | Outcome.NOT_RUN:
            return _Kind.UNMEASURED
        case Outcome.MISSING:
            return _Kind.ABSENT
        case _:
            assert_never(outcome)


def _flip(before: _Kind, after: _Kind) -> Flip:
    """Compare two kinds, in order of precedence: absence, no measurement, skip, red and green.

    Absence comes first, since it is about the test itself: a timeout before and no such test
    after is a test that vanished. No measurement comes next: nothing is said about a test that
    was stopped, whatever the other arm says. A skip in just one arm is neither fix nor breakage.
    """
    match before, after:
        case _Kind.ABSENT, _Kind.ABSENT:
            return Flip.ABSENT
        case _Kind.ABSENT, _:
            return Flip.APPEARED
        case _, _Kind.ABSENT:
            return Flip.VANISHED
        case (_Kind.UNMEASURED, _) | (_, _Kind.UNMEASURED):
            return Flip.UNMEASURED
        case _Kind.SKIP, _Kind.SKIP:
            return Flip.BOTH_SKIP
        case (_Kind.SKIP, _) | (_, _Kind.SKIP):
            return Flip.SKIP_CHANGED
        case _Kind.RED, _Kind.RED:
            return Flip.BOTH_FAIL
        case _Kind.RED, _:
            return Flip.FIXED
        case _, _Kind.RED:
            return Flip.BROKE
        case _:
            return Flip.BOTH_PASS


_FLIPS: Final = {(b, a): _flip(_kind(b), _kind(a)) for b in Outcome for a in Outcome}


def classify(before: Outcome, after: Outcome) -> Flip:
    """Compare one key's outcomes in two arms; total, and the only place where this is decided."""
    return _FLIPS[before, after]


def is_regression(before: Outcome, after: Outcome) -> bool:
    """Say whether a key got worse: it broke, or it vanished after it had passed."""
    flip = classify(before, after)
    return flip is Flip.BROKE or (flip is Flip.VANISHED and _kind(before) is _Kind.GREEN)


class Node(NamedTuple):
    """One line of a table: a key with both outcomes. A detail is None where there is none."""

    key: str
    before: Outcome
    after: Outcome
    flip: Flip
    before_detail: Detail | None
    after_detail: Detail | None

    @property
    def is_regression(self) -> bool:
        """Whether the key got worse."""
        return is_regression(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipTable:
    """All keys of two documents: those of the first in its order, then what only the second has.

    Lines are made while iterating, since there may be 200,000. ``pairs`` counts keys by their two
    outcomes; ``added`` are the keys that only the second document has.
    """

    before: Document
    after: Document
    pairs: dict[tuple[Outcome, Outcome], int]
    added: tuple[str, ...]

    def __len__(self) -> int:
        """How many keys the two documents have together."""
        return len(self.before.outcomes) + len(self.added)

    def __iter__(self) -> Iterator[Node]:
        """Every key, with its outcomes and details."""
        return map(self.node, chain(self.before.outcomes, self.added))

    def node(self, key: str) -> Node:
        """One key's line; a key that neither document has is missing in both."""
        before = self.before.outcomes.get(key, Outcome.MISSING)
        after = self.after.outcomes.get(key, Outcome.MISSING)
        return Node(
            key,
            before,
            after,
            classify(before, after),
            self.before.details.get(key),
            self.after.details.get(key),
        )

    def of(self, *flips: Flip) -> Iterator[Node]:
        """Only the lines with one of these flips."""
        return (node for node in self if node.flip in flips)

    @property
    def counts(self) -> dict[Flip, int]:
        """How many keys have each flip, in the order of ``Flip``, without the zeros."""
        found = Counter[Flip]()
        for (before, after), number in self.pairs.items():
            found[classify(before, after)] += number
        return {flip: found[flip] for flip in Flip if found[flip]}

    @property
    def totals_before(self) -> dict[Outcome, int]:
        """How many keys have each outcome in the first document, for ``outcome.totals``."""
        return dict(Counter(self.before.outcomes.values()))

    @property
    def totals_after(self) -> dict[Outcome, int]:
        """How many keys have each outcome in the second document, for ``outcome.totals``."""
        return dict(Counter(self.after.outcomes.values()))

    @property
    def worse(self) -> bool:
        """Whether any key broke, or vanished after it had passed: the command then exits with 1."""
        return any(is_regression(before, after) for before, after in self.pairs)

    @property
    def inconclusive(self) -> bool:
        """Whether any key that had passed was not measured in the second document."""
        return any(
            _kind(before) is _Kind.GREEN and _kind(after) is _Kind.UNMEASURED
            for before, after in self.pairs
        )

    @property
    def regressions(self) -> tuple[Node, ...]:
        """The lines that make it worse."""
        if not self.worse:
            return ()
        return tuple(node for node in self if node.is_regression)

    @property
    def new_load_errors(self) -> dict[str, Detail]:
        """What failed to load in the second document only.

        ``worse`` doesn't ask for it: the tests that are lost by it, and had passed, vanished.
        """
        old = self.before.load_errors
        return {name: it for name, it in self.after.load_errors.items() if name not in old}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of both documents, each with its file, and of the two together."""
        return tuple(_warnings(self))


def diff(before: Document, after: Document) -> FlipTable:
    """Compare two documents, key by key."""
    old, new = before.outcomes, after.outcomes
    if len(old) == len(new) and all(map(eq, old, new)):
        # The same keys in the same order, as usual: much cheaper than to look each of them up.
        pairs = Counter(zip(old.values(), new.values(), strict=True))
        return FlipTable(before=before, after=after, pairs=dict(pairs), added=())
    found = map(new.get, old, repeat(Outcome.MISSING))
    pairs = Counter(zip(old.values(), found, strict=True))
    added = tuple(key for key in new if key not in old)
    pairs.update((Outcome.MISSING, new[key]) for key in added)
    return FlipTable(before=before, after=after, pairs=dict(pairs), added=added)


def _warnings(table: FlipTable) -> Iterator[str]:
    for document in (table.before, table.after):
        for warning in document.warnings:
            yield f"{document.where}: {warning}"
    before, after = table.before, table.after
    if not before.outcomes or not after.outcomes:
        return
    if before.exact != after.exact:
        one = before if before.exact else after
        yield f"only {one.where} has exact node IDs: the same test has two keys"
    elif len(table.added) == len(after.outcomes):
        yield f"{before.where} and {after.where} have no key in common"
