"""What changed between two JUnit files: the words for every format, and the Markdown block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.flips import Flip, FlipTable, Node, is_regression
from harness.junit_document import Detail
from harness.outcome import Outcome, totals
from harness.report.text import GITHUB_LIMIT, clipped, code, count, cut_note, prose, size, table

#: What is listed, in this order; what is only counted is not here.
SECTIONS = (
    (Flip.BROKE, "Broke"),
    (Flip.VANISHED, "Vanished"),
    (Flip.FIXED, "Fixed"),
    (Flip.UNMEASURED, "Not measured in one of the files"),
    (Flip.SKIP_CHANGED, "Skipped in one of the files only"),
    (Flip.APPEARED, "Appeared"),
    (Flip.BOTH_FAIL, "Fail in both"),
)
#: The sections that a reader must see without unfolding anything.
OPEN = (Flip.BROKE, Flip.VANISHED, Flip.FIXED)
_LIMITS = (500, 150, 50, 15, 5, 1)
_WORDS = {
    Flip.FIXED: "fixed",
    Flip.BROKE: "broke",
    Flip.BOTH_PASS: "pass in both",
    Flip.BOTH_FAIL: "fail in both",
    Flip.BOTH_SKIP: "skipped in both",
    Flip.SKIP_CHANGED: "skipped in one only",
    Flip.APPEARED: "appeared",
    Flip.VANISHED: "vanished",
    Flip.ABSENT: "absent from both",
    Flip.UNMEASURED: "not measured",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Some of the keys with one flip, and how many there are."""

    flip: Flip
    title: str
    nodes: tuple[Node, ...]
    total: int


def render_diff(found: FlipTable, before_name: str, after_name: str) -> str:
    """Return the Markdown block of two compared files, at most as long as GitHub allows."""
    all_sections = sections(found, _LIMITS[0])
    for limit in _LIMITS:
        lines = _lines(found, before_name, after_name, all_sections, limit)
        text = "\n".join(lines) + "\n"
        if size(text) <= GITHUB_LIMIT:
            break
    return clipped(text)


def headline(found: FlipTable) -> str:
    """What the comparison says, and no more than that."""
    if not len(found):
        return "Nothing to compare: neither file has a test."
    lost = sum(
        number
        for (before, after), number in found.pairs.items()
        if after is Outcome.MISSING and is_regression(before, after)
    )
    broke = found.counts.get(Flip.BROKE, 0)
    if found.worse:
        parts = [f"{broke:,} broke"] if broke else []
        parts += [f"{lost:,} passed before and vanished"] if lost else []
        return f"Regression: {', '.join(parts)}."
    if found.inconclusive:
        return "No regression was seen, but tests that passed before were not measured afterwards."
    return f"No regression: {counts(found)}."


def counts(found: FlipTable) -> str:
    """How many keys have each flip, in words."""
    return ", ".join(f"{number:,} {_WORDS[flip]}" for flip, number in found.counts.items())


def both_totals(found: FlipTable) -> tuple[str, str]:
    """Both files' outcomes as pytest words them."""
    return totals(found.totals_before), totals(found.totals_after)


def sections(found: FlipTable, limit: int) -> tuple[Section, ...]:
    """The keys that are worth a line, at most ``limit`` of each kind, what got worse first."""
    kept: dict[Flip, list[Node]] = {flip: [] for flip, _ in SECTIONS}
    lost: list[Node] = []
    for node in found:
        nodes = kept.get(node.flip)
        if nodes is None:
            continue
        if node.flip is Flip.VANISHED and node.is_regression:
            nodes = lost
        if len(nodes) < limit:
            nodes.append(node)
    kept[Flip.VANISHED] = [*lost, *kept[Flip.VANISHED]][:limit]
    numbers = found.counts
    return tuple(
        Section(flip=flip, title=title, nodes=tuple(kept[flip]), total=numbers[flip])
        for flip, title in SECTIONS
        if flip in numbers
    )


def reason(node: Node) -> str:
    """What the file says of a test that did not pass, the second file first."""
    for detail in (node.after_detail, node.before_detail):
        if detail is not None and (detail.message or detail.type):
            return message(detail)
    return ""


def message(detail: Detail) -> str:
    """``Type: message``, where the message does not begin with its type already."""
    if not detail.type or detail.message.startswith(detail.type):
        return detail.message
    return f"{detail.type}: {detail.message}" if detail.message else detail.type


def gaps(found: FlipTable) -> tuple[str, ...]:
    """What the two files do not show."""
    return tuple(_gaps(found))


def _gaps(found: FlipTable) -> Iterator[str]:
    yield from found.warnings
    for document in (found.before, found.after):
        if document.load_errors:
            number = len(document.load_errors)
            names = ", ".join(list(document.load_errors)[:5])
            more = f" and {number - 5} more" if number > 5 else ""
            yield f"{document.where}: {number} could not be loaded, tests unknown: {names}{more}"
        if document.flaky:
            tests = count(len(document.flaky), "test")
            yield f"{document.where}: {tests} passed only when run again"
    unmeasured = found.counts.get(Flip.UNMEASURED, 0)
    if unmeasured:
        yield f"{count(unmeasured, 'test')} not measured in one of the files"


def _lines(
    found: FlipTable, before: str, after: str, all_sections: tuple[Section, ...], limit: int
) -> list[str]:
    first, second = both_totals(found)
    lines = [f"**{prose(headline(found), 1000)}**", ""]
    lines += table(
        ("", "file", "outcomes"),
        [("before", code(before), first), ("after", code(after), second)],
    )
    lines += ["", f"{count(len(found), 'test')}: {counts(found)}."] if len(found) else []
    folded: list[str] = []
    for section in all_sections:
        body = ["", f"**{section.title}** ({section.total:,}):", "", *_table(section, limit)]
        if section.flip in OPEN:
            lines += body
        else:
            folded += body
    notes = gaps(found)
    if notes:
        items = [f"- {prose(note, 500)}" for note in notes[: max(limit, 20)]]
        more = cut_note(len(items), len(notes), "gaps")
        lines += ["", "**Gaps**, not measured here:", "", *items, *more]
    if folded:
        summary = "<details><summary>What is neither better nor worse</summary>"
        lines += ["", summary, *folded, "", "</details>"]
    return lines


def _table(section: Section, limit: int) -> list[str]:
    rows = [
        (code(node.key), f"{node.before.value} → {node.after.value}", _cell(node))
        for node in section.nodes[:limit]
    ]
    lines = table(("test", "before → after", "it says"), rows)
    return lines + cut_note(len(rows), section.total, "tests")


def _cell(node: Node) -> str:
    said = " ".join(reason(node)[:2000].split())
    return code(said, 200) if said else "–"
