"""Which hunks each flip needs, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.ablation import AblatedNode, Ablation, HunkName, Subset
from harness.report.section import Section
from harness.report.summary import Group
from harness.report.text import count, listed

#: With more hunks than this a column for each is too many.
_COLUMNS = 8


def hunks(group: Group, found: Ablation) -> Section:
    """The matrix hunk × node ID, and what half a patch does to controls."""
    total = len(found.hunks)
    if found.complete:
        ran = f"All {len(found.subsets)} ways of applying only some of the {total} hunks were tried"
    else:
        ran = f"Each of the {total} hunks was tried alone, and all but each"
    if not found.nodes:
        told = "no flip was confirmed whose hunks could be told"
    elif found.unneeded:
        no_flip = f"no flip of this row needs {_hunk_words(found.unneeded)}{_one_by_one(found)}"
        told = no_flip if len(found.unneeded) < total else "no flip was found to need any"
    elif any(node.unknown for node in found.nodes):
        told = "not every hunk could be left out"
    else:
        told = "each hunk has a flip that needs it"
    columns = tuple(f"hunk {hunk.number}" for hunk in found.hunks)
    wide = total > _COLUMNS
    return Section(
        title="Hunks",
        sentence=f"{ran}: {told}.",
        items=(
            *(f"hunk {h.number} is at {h.file}:{h.line}" for h in found.hunks),
            *_problems(found.subsets),
            *_broken(group, found),
        ),
        header=("node ID", *(() if wide else columns), "passes with"),
        rows=tuple(
            (
                group.shorten(node.node_id),
                *(() if wide else (_part(node, h.number) for h in found.hunks)),
                _minimal(node),
            )
            for node in found.nodes
        ),
    )


def _one_by_one(found: Ablation) -> str:
    """What has to be said where not every set of hunks was run."""
    return "" if found.complete or len(found.unneeded) < 2 else ", each left out on its own"


def _hunk_words(hunks: Sequence[HunkName]) -> str:
    """``hunk 2``, ``hunks 2 and 3``."""
    return _numbers([hunk.number for hunk in hunks])


def _numbers(numbers: Sequence[int]) -> str:
    words = listed([str(number) for number in numbers])
    return f"hunk {words}" if len(numbers) == 1 else f"hunks {words}"


def _problems(subsets: Sequence[Subset]) -> Iterator[str]:
    """What could not be tried, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for subset in subsets:
        if subset.problem:
            own = by_reason.setdefault(subset.problem, [])
            own.append("+".join(map(str, subset.hunks)))
    for reason, names in by_reason.items():
        word = "hunk" if len(names) == 1 and "+" not in names[0] else "hunks"
        yield f"{word} {listed(names)} without the others: {reason}"


def _broken(group: Group, found: Ablation) -> Iterator[str]:
    """Which controls half a patch breaks."""
    by_hunks: dict[tuple[int, ...], list[str]] = {}
    for node_id, hunks in found.broken:
        by_hunks.setdefault(hunks, []).append(group.shorten(node_id))
    alike: dict[tuple[str, ...], list[str]] = {}
    for hunks, nodes in by_hunks.items():
        alike.setdefault(tuple(nodes), []).append("+".join(map(str, hunks)))
    for controls, sets in alike.items():
        verb, such = ("does", "") if len(controls) == 1 else ("do", "such as ")
        word = "hunk" if len(sets) == 1 and "+" not in sets[0] else "hunks"
        only = f"with only {word} {_either(sets)}"
        yield f"{only}, {count(len(controls), 'control')} {verb} not pass: {such}{controls[0]}"


def _either(sets: Sequence[str]) -> str:
    """``1``, ``1 or 1+2``."""
    return " or ".join([", ".join(sets[:-1]), sets[-1]] if len(sets) > 1 else sets)


def _part(node: AblatedNode, hunk: int) -> str:
    """What one hunk is to one flip."""
    needed, alone = hunk in node.needed, hunk in node.alone
    if needed:
        return "needed and enough alone" if alone else "needed"
    if alone:
        return "enough alone"
    if hunk in node.unknown:
        return "not known"
    return "in one of the ways" if hunk in node.used else "not needed"


def _minimal(node: AblatedNode) -> str:
    """The smallest sets of hunks with which it passes."""
    ways = ["+".join(map(str, hunks)) for hunks in node.minimal]
    if not ways:  # not every set was run
        return f"{_numbers(node.needed)} and more" if node.needed else "several together"
    single = len(node.minimal) == 1 and len(node.minimal[0]) == 1
    return f"{'hunk' if single else 'hunks'} {_either(ways)}"
