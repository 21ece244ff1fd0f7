"""The report in a terminal: readable at 80 columns, coloured where that is wanted."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.flips import Flip, FlipTable, Node
from harness.outcome import Arm, Outcome
from harness.report import diffs, sections
from harness.report import text as texts
from harness.report.section import Section
from harness.report.summary import (
    Group,
    arm_totals,
    failure_words,
    groups,
    headline,
    image,
    image_note,
    named_rows,
    outcomes,
    patch_words,
    skipped,
    tally,
)
from harness.verdict import NodeVerdict, Overall, Report, Row

#: From this width on the rows are a table, below they are stacked.
WIDE = 120
_MOST = 200
_FOLDED = 20
_FLIP_STYLES = {Flip.BROKE: "bold red", Flip.VANISHED: "bold red", Flip.FIXED: "bold green"}
_STYLES = {
    Overall.CONFIRMED: "bold green",
    Overall.NOT_CONFIRMED: "bold red",
    Overall.INCONCLUSIVE: "bold yellow",
}


def render(report: Report, console: Console) -> None:
    """Print the report; the last lines are the totals, the verdict and where the evidence is."""
    out = Printer(console)
    several = len({row.case.id for row in report.rows}) > 1
    for group in groups(report):
        if several:
            out.line(f"{group.case.id}: {texts.oneline(group.case.title)}", style="bold underline")
        if group.file:
            out.line(f"In node IDs below, … stands for {group.file}", style="dim")
        for label, row in zip(group.labels, group.rows, strict=True):
            _row(out, group, label, row)
    out.line("Gaps, not measured here:" if report.gaps else "Gaps: none known to the tool.")
    out.items(((("-", ""), (texts.oneline(gap, 500), "")) for gap in report.gaps), len(report.gaps))
    out.line("")
    _totals(out, report, several=several)
    style = _STYLES[report.overall]
    out.line(headline(report), style=style)
    nodes = [node for row in report.rows for node in row.nodes]
    out.line(f"{report.overall.value}: {tally(nodes)}", style=style)
    for folder in dict.fromkeys(row.folder for row in report.rows):
        out.line(f"evidence: {folder}", wrap=False)


def render_diff(found: FlipTable, before_name: str, after_name: str, console: Console) -> None:
    """Print two compared JUnit files: what changed, then the counts and the verdict."""
    out = Printer(console)
    for section in diffs.sections(found, _MOST):
        style = _FLIP_STYLES.get(section.flip, "")
        out.line(f"{section.title} ({section.total:,}):", style=style or "bold")
        most = _MOST if section.flip in diffs.OPEN else _FOLDED
        cells = [_diff_cells(node, style) for node in section.nodes]
        out.items(cells, section.total, most=most)
        out.line("")
    for gap in diffs.gaps(found):
        out.line(f"gap: {texts.oneline(gap, 500)}", style="yellow")
    for name, words in zip((before_name, after_name), diffs.both_totals(found), strict=True):
        out.line(f"{name}: {words}", wrap=False)
    out.line(f"{texts.count(len(found), 'test')}: {diffs.counts(found) or 'none'}")
    colour = "red" if found.worse else "yellow" if found.inconclusive else "green"
    out.line(diffs.headline(found), style=f"bold {colour}")


def _diff_cells(node: Node, style: str) -> tuple[tuple[str, str], ...]:
    said = texts.oneline(diffs.reason(node))
    name = texts.shown(node.key, 500)
    return (
        (f"{node.before.value} → {node.after.value}", style),
        (f"{name}: {said}" if said else name, ""),
    )


class Printer:
    """Prints untrusted text: no markup, no control characters, nothing it cannot encode."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = console.width

    def text(self, words: str, style: str = "") -> Text:
        """Inert text in one style."""
        return Text(texts.terminal(texts.shown(words, 5000), self.console.encoding), style=style)

    def line(self, words: str, *, style: str = "", wrap: bool = True) -> None:
        """Print one line; ``wrap=False`` leaves long paths in one piece."""
        self.console.print(self.text(words, style), soft_wrap=not wrap)

    def items(
        self, rows: Iterable[tuple[tuple[str, str], ...]], total: int, *, most: int = _MOST
    ) -> None:
        """Print (text, style) cells under each other, the last column wrapped in itself."""
        grid = Table.grid(padding=(0, 1))
        for number, cells in enumerate(rows):
            if number >= most:
                break
            if number == 0:
                for _ in cells[:-1]:
                    grid.add_column(no_wrap=True)
                grid.add_column(overflow="fold")
            grid.add_row(*(self.text(words, style) for words, style in cells))
        if grid.row_count:
            self._print(grid)
        if total > most:
            self.line(f"{texts.CUT} {total - most:,} more; --json has them all", style="dim")

    def _print(self, grid: Table) -> None:
        """A grid is padded to its width, which is of no use in a file."""
        if self.console.is_terminal:
            self.console.print(grid)
            return
        with self.console.capture() as captured:
            self.console.print(grid)
        for line in captured.get().splitlines():
            self.console.out(line.rstrip(), highlight=False)


def _row(out: Printer, group: Group, label: str, row: Row) -> None:
    target = row.evidence.target
    out.line(f"{label}: engine {target.engine}, {texts.oneline(target.engine_note)}", style="bold")
    for reason in row.refused:
        out.line(f"refused: {texts.oneline(reason, 1000)}", style="bold red")
    if not row.refused:
        # What did not stand comes first: it must not be what is cut off.
        nodes = sorted(row.nodes, key=lambda node: node.confirmed)
        cells = [cell for node in nodes[:_MOST] for cell in _node(group, node)]
        out.items(cells, len(cells), most=len(cells))
        if len(nodes) > _MOST:
            out.line(f"{texts.CUT} {len(nodes) - _MOST:,} more node IDs; --json has them all")
    for section in sections.of_row(group, row):
        _section(out, section)
    out.line(f"patch: {patch_words(row)}")
    out.line("")


def _section(out: Printer, section: Section) -> None:
    """One thing that was asked for; a table's row is its first cell, the others below it."""
    out.line(f"{section.title}: {texts.oneline(section.sentence, 3000)}")
    items = ((("-", ""), (texts.oneline(item, 500), "")) for item in section.items)
    out.items(items, len(section.items))
    lines: list[tuple[tuple[str, str], ...]] = []
    for first, *rest in section.rows[:_MOST]:
        named = zip(section.header[1:], rest, strict=True)
        words = "; ".join(f"{name}: {texts.oneline(cell, 500)}" for name, cell in named)
        lines += [(("-", ""), (texts.shown(first, 500), "")), (("", ""), (words, "dim"))]
    out.items(lines, len(lines), most=len(lines))
    if len(section.rows) > _MOST:
        out.line(f"{texts.CUT} {len(section.rows) - _MOST:,} more; --json has them all")


def _node(group: Group, node: NodeVerdict) -> Iterable[tuple[tuple[str, str], ...]]:
    style = "green" if node.confirmed else "bold red"
    mark = "✓" if node.confirmed else "✗"
    if skipped(node) and node.confirmed:
        style, mark = "yellow", "-"
    name = texts.shown(group.shorten(node.node_id), 500)
    yield ((mark, style), (node.verdict.value, style), (name, ""))
    yield (("", ""), ("", ""), (_why(node), "dim" if node.confirmed else ""))


def _why(node: NodeVerdict) -> str:
    if skipped(node):
        how = "as declared" if node.confirmed else "not as declared"
        return f"skipped {how}: {texts.oneline(node.skip_reason or 'no reason given')}"
    if not node.confirmed:
        return f"{outcomes(node)}: {texts.oneline(node.reason, 1000)}"
    if node.failure is None or node.unpatched is Outcome.PASSED:
        return outcomes(node)
    at = f" at {node.failure.place}" if node.failure.place else ""
    return f"{outcomes(node)}: {texts.oneline(failure_words(node.failure), 500)}{at}"


def _totals(out: Printer, report: Report, *, several: bool) -> None:
    """One entry for each row: what both arms did, in pytest's words."""
    if out.width < WIDE:
        for name, row in named_rows(report)[:_MOST]:
            case = f"{row.case.id}: " if several else ""
            out.line(f"{case}{texts.oneline(name)}, {_image(row)}")
            out.line(f"  {_both(row)}", style="bold red" if row.refused else "bold")
    else:
        table = Table(header_style="bold")
        for column in (*(["case"] if several else []), "platform", "image"):
            table.add_column(column, overflow="fold")
        table.add_column(out.text("unpatched  →  patched"), no_wrap=True)
        for name, row in named_rows(report)[:_MOST]:
            cells = [texts.oneline(name), _image(row), _both(row)]
            named = [row.case.id, *cells] if several else cells
            table.add_row(*(out.text(cell) for cell in named))
        out.console.print(table)
    if len(report.rows) > _MOST:
        out.line(f"{texts.CUT} {len(report.rows) - _MOST:,} more rows; --json has them all")


def _image(row: Row) -> str:
    identity, note = image(row), image_note(row)
    words = f"{identity.name} {texts.short(identity.digest)}".strip()
    return texts.oneline(f"{texts.short(words)} ({note})" if note else words)


def _both(row: Row) -> str:
    words = f"{arm_totals(row, Arm.UNPATCHED)}  →  {arm_totals(row, Arm.PATCHED)}"
    return f"refused ({words})" if row.refused else words
