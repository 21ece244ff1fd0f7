"""Which hunks each flip needs: from what every node ID did under some of the hunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.outcome import Outcome
from harness.patch import Patch, numbered
from harness.record import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkName:
    """One hunk: its number through the whole patch, its file, and its first changed line."""

    number: int
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """One set of hunks as it was run: ``arm`` is the folder, by node ID what the test did.

    ``problem`` says why nothing can be told of it: the hunks cannot be applied apart, say.
    """

    hunks: tuple[int, ...]
    arm: str
    outcomes: Mapping[str, Outcome]
    failures: Mapping[str, Failure]
    problem: str = ""
    apart: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AblatedNode:
    """What a flip needs. Hunks by their numbers.

    ``needed``: without this one, but with all others, it does not pass. ``alone``: with this
    one and no other it passes. ``minimal``: the sets with which it passes and of which no smaller
    one is enough; where not every set was run, only those of one hunk. ``unknown``: hunks without
    which nothing was measured.
    """

    node_id: str
    needed: tuple[int, ...]
    alone: tuple[int, ...]
    minimal: tuple[tuple[int, ...], ...]
    unknown: tuple[int, ...]

    @property
    def used(self) -> frozenset[int]:
        """The hunks that it needs, or that are a way to pass; and those of which nothing is known.

        Where not every set was run, hunks that can stand in for each other are not among them.
        """
        return frozenset((*self.needed, *self.unknown)).union(*self.minimal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The matrix hunk × node ID of one row.

    ``complete`` says that every subset was planned, and not only one hunk alone and all but one.
    ``broken`` are node IDs that pass unpatched and patched, but not with these hunks: a patch
    that is half there breaks them.
    """

    hunks: tuple[HunkName, ...]
    subsets: tuple[Subset, ...]
    nodes: tuple[AblatedNode, ...]
    broken: tuple[tuple[str, tuple[int, ...]], ...]
    complete: bool

    @property
    def unneeded(self) -> tuple[HunkName, ...]:
        """The hunks that no flip of this row needs; none where there is no flip to ask."""
        if not self.nodes:
            return ()
        used = frozenset().union(*(node.used for node in self.nodes))
        return tuple(hunk for hunk in self.hunks if hunk.number not in used)


def names(patch: Patch) -> tuple[HunkName, ...]:
    """The patch's hunks by number; the line is the first that changes, in the old file (or 1)."""
    found = []
    for number, file, hunk in numbered(patch):
        context = 0
        for line in hunk.lines:
            if not line.startswith(b" "):
                break
            context += 1
        found.append(HunkName(number=number, file=file, line=max(1, hunk.old_start + context)))
    return tuple(found)


def analyse(
    patch: Patch, subsets: Sequence[Subset], flips: Iterable[str], controls: Iterable[str]
) -> Ablation:
    """Derive the matrix. ``flips`` fail without and pass with all hunks, ``controls`` always pass.

    A subset of which nothing is known leaves its hunks unknown.
    """
    hunks = names(patch)
    everything = tuple(hunk.number for hunk in hunks)
    usable = {subset.hunks: subset.outcomes for subset in subsets if not subset.problem}
    complete = len(subsets) >= 2 ** len(everything) - 2
    nodes = tuple(_ablated(node, everything, usable, complete=complete) for node in flips)
    broken = tuple(
        (node, subset)
        for node in controls
        for subset, outcomes in usable.items()
        if _tells(outcomes, node) and not _passes(outcomes, node)
    )
    return Ablation(
        hunks=hunks,
        subsets=tuple(subsets),
        nodes=nodes,
        broken=broken,
        complete=complete,
    )


def _ablated(
    node: str,
    everything: tuple[int, ...],
    usable: Mapping[tuple[int, ...], Mapping[str, Outcome]],
    *,
    complete: bool,
) -> AblatedNode:
    measured = {hunks: outcomes for hunks, outcomes in usable.items() if _tells(outcomes, node)}
    without = {n: tuple(m for m in everything if m != n) for n in everything}
    passing = {hunks for hunks, outcomes in measured.items() if _passes(outcomes, node)}
    passing.add(everything)
    minimal = [
        hunks
        for hunks in passing
        if (complete or len(hunks) == 1)
        and not any(set(smaller) < set(hunks) for smaller in passing)
    ]
    return AblatedNode(
        node_id=node,
        needed=tuple(n for n in everything if without[n] in measured.keys() - passing),
        alone=tuple(n for n in everything if (n,) in passing),
        minimal=tuple(sorted(minimal, key=lambda hunks: (len(hunks), hunks))),
        unknown=tuple(n for n in everything if without[n] not in measured),
    )


def _tells(outcomes: Mapping[str, Outcome], node: str) -> bool:
    """Whether the test ran there, or could not be loaded; a skip says nothing about hunks."""
    unmeasured = (Outcome.SKIPPED, Outcome.NOT_RUN, Outcome.TIMEOUT)
    return outcomes.get(node, Outcome.NOT_RUN) not in unmeasured


def _passes(outcomes: Mapping[str, Outcome], node: str) -> bool:
    """An unexpected pass is one, as in the pair: the fix of a test that was marked xfail."""
    return outcomes.get(node) in (Outcome.PASSED, Outcome.XPASSED)
