"""The block for a pull request: GitHub's Markdown, safe to paste whatever the tests printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.case import Role
from harness.outcome import Arm
from harness.report import provenance, sections
from harness.report.diffs import render_diff
from harness.report.section import NONE
from harness.report.summary import (
    Group,
    arm_totals,
    by_row,
    failure_words,
    groups,
    headline,
    image,
    image_note,
    named_rows,
    outcomes,
    patch_words,
    same_tests,
    skipped,
)
from harness.report.text import (
    ALL,
    CUT,
    GITHUB_LIMIT,
    clipped,
    code,
    count,
    cut_note,
    oneline,
    prose,
    short,
    size,
    table,
)
from harness.verdict import NodeVerdict, Report, Row, Verdict

__all__ = ["render", "render_diff"]

#: How many items a list or a table may have, from the first attempt to the last.
_LIMITS = (1000, 300, 100, 30, 10, 3, 1)


def render(report: Report) -> str:
    """Return the block, at most as long as GitHub allows; it says what was cut to fit."""
    for limit in _LIMITS:
        text = _document(report, limit, details=True)
        if size(text) <= GITHUB_LIMIT:
            return text
    return clipped(_document(report, _LIMITS[-1], details=False))


def _document(report: Report, limit: int, *, details: bool) -> str:
    several = len({row.case.id for row in report.rows}) > 1
    lines = [f"**{prose(headline(report), 1000)}**"]
    lines += ["", _second_line(report, limit), "", *_platforms(report, limit, several=several)]
    found = groups(report)
    for group in found[:limit]:
        if several:
            lines += ["", f"### {code(group.case.id)}: {prose(group.case.title)}"]
        for section in _SECTIONS:
            body = section(group, limit)
            lines += ["", *body] if body else []
    lines += [*cut_note(limit, len(found), "cases"), "", *_gaps(report, limit)]
    if details:
        lines += ["", *provenance.lines(report, limit)]
    else:
        lines += ["", f"{CUT} The provenance did not fit; {ALL}."]
    return "\n".join(lines) + "\n"


def _second_line(report: Report, limit: int) -> str:
    words = by_row(report)
    more = f"; {CUT} {len(words) - limit:,} more rows" if len(words) > limit else ""
    return f"{prose('; '.join(words[:limit]), 2000)}{more}. {count(len(report.gaps), 'gap')} below."


def _platforms(report: Report, limit: int, *, several: bool) -> list[str]:
    header = (*(["case"] if several else []), "platform", "image", "unpatched", "patched")
    rows = [
        (
            *([code(row.case.id)] if several else []),
            prose(name),
            _image_cell(row),
            _totals_cell(row, Arm.UNPATCHED),
            _totals_cell(row, Arm.PATCHED),
        )
        for name, row in named_rows(report)[:limit]
    ]
    return table(header, rows) + cut_note(len(rows), len(report.rows), "rows")


def _image_cell(row: Row) -> str:
    identity, note = image(row), image_note(row)
    digest = f" {code(short(identity.digest))}" if identity.digest else ""
    return f"{code(short(identity.name))}{digest}" + (f" ({prose(note)})" if note else "")


def _totals_cell(row: Row, arm: Arm) -> str:
    words = arm_totals(row, arm)
    return f"**refused** ({words})" if row.refused else words


def _refused(group: Group, limit: int) -> list[str]:
    refused = [(label, row) for label, row in _rows(group) if row.refused]
    if not refused:
        return []
    lines = ["**Refused**: the two arms cannot be compared, so their outcomes say nothing:", ""]
    for label, row in refused[:limit]:
        lines.append(f"- {prose(label)}: {prose('; '.join(row.refused), 1000)}")
    return lines + cut_note(limit, len(refused), "refused rows")


def _flips(group: Group, limit: int) -> list[str]:
    nodes = group.of_role(Role.FLIP)
    if not nodes:
        return []
    lines = [f"**Flips** ({_same(group)}):", ""]
    labels = group.labels[:limit]
    header = ("node ID", *(prose(label) for label in labels), "fails unpatched with")
    rows = []
    for node_id in nodes[:limit]:
        found = {label: (row, verdict) for label, row, verdict in group.found[node_id]}
        on = [_flip_cell(*found[label]) if label in found else "–" for label in labels]
        rows.append((code(group.shorten(node_id)), *on, _red(group, node_id)))
    lines += table(header, rows) + cut_note(len(rows), len(nodes), "node IDs")
    return lines + cut_note(len(labels), len(group.labels), "columns of rows")


def _same(group: Group) -> str:
    """What was equal in both arms of every row that counts."""
    if all(row.refused for row in group.rows):
        return "no row can be compared"
    patches = dict.fromkeys(row.run.patch_sha256 for row in group.rows)
    digests = ", ".join(code(f"sha256:{digest[:12]}…") for digest in list(patches)[:3])
    tests = same_tests(group)
    named = ", ".join(
        f"{code(path)}{' (… below)' if path == group.file else ''} {code(f'sha256:{digest[:12]}…')}"
        for path, digest in list(tests.items())[:3]
    )
    more = f" and {count(len(tests) - 3, 'more file')}" if len(tests) > 3 else ""
    return (
        f"same image and same test {'file' if len(tests) == 1 else 'files'} in both arms: "
        f"{named}{more}; only the production hunks of {code(group.case.patch)} {digests} differ"
    )


def _flip_cell(row: Row, verdict: NodeVerdict) -> str:
    if row.refused:
        return "refused"
    if skipped(verdict):
        suffix = "" if verdict.confirmed else " (**not as declared**)"
        return f"skipped: {prose(verdict.skip_reason or 'no reason given', 120)}{suffix}"
    word = verdict.verdict.value if verdict.confirmed else f"**{verdict.verdict.value}**"
    return f"{outcomes(verdict)} ({word})"


def _red(group: Group, node_id: str) -> str:
    """The unpatched failure; by row only where rows differ."""
    by_failure: dict[str, list[str]] = {}
    for label, row, verdict in group.found[node_id]:
        if verdict.failure is not None and not row.refused:
            place = verdict.failure.place.rpartition("/")[2]
            at = f" at {code(place)}" if place else ""
            text = code(oneline(failure_words(verdict.failure), 200)) + at
            by_failure.setdefault(text, []).append(label)
    if len(by_failure) == 1:
        return next(iter(by_failure))
    return "; ".join(f"{prose(', '.join(on))}: {text}" for text, on in by_failure.items()) or "–"


def _controls(group: Group, limit: int) -> list[str]:
    nodes = group.of_role(Role.CONTROL)
    if not nodes:
        return []
    held = []
    for node_id in nodes:
        on = [n for n, _, v in group.found[node_id] if v.verdict is Verdict.CONTROL_HELD]
        if on:
            held.append(f"- {code(group.shorten(node_id))} on {prose(', '.join(on), 1000)}")
    if not held:
        return ["**Controls**: none held."]
    note = cut_note(limit, len(held), "controls")
    return ["**Controls** that held (they pass in both arms):", "", *held[:limit], *note]


def _not_confirmed(group: Group, limit: int) -> list[str]:
    found = [
        (label, verdict)
        for node_id in group.node_ids
        for label, row, verdict in group.found[node_id]
        if not verdict.confirmed and not row.refused
    ]
    if not found:
        return []
    header = ("node ID", "platform", "unpatched → patched", "verdict", "why")
    rows = [
        (
            code(group.shorten(verdict.node_id)),
            prose(label),
            outcomes(verdict),
            f"**{verdict.verdict.value}**",
            prose(verdict.reason, 500),
        )
        for label, verdict in found[:limit]
    ]
    lines = ["**Not confirmed**:", "", *table(header, rows)]
    return lines + cut_note(len(rows), len(found), "claims")


def _skips(group: Group, limit: int) -> list[str]:
    lines = []
    for node_id in group.node_ids:
        for label, row, verdict in group.found[node_id]:
            if skipped(verdict) and not row.refused:
                how = "as declared" if verdict.confirmed else "**not as declared**"
                reason = prose(verdict.skip_reason or "no reason given")
                where = f"{code(group.shorten(node_id))} on {prose(label)}"
                lines.append(f"- {where}, {how}: {reason}")
    if not lines:
        return []
    return ["**Skipped**:", "", *lines[:limit], *cut_note(limit, len(lines), "skips")]


def _asked(group: Group, limit: int) -> list[str]:
    """What was asked for beside the two arms: repeats, hunks, old tests and the like."""
    lines: list[str] = []
    several = len(group.rows) > 1
    for label, section in sections.of_group(group):
        title = f"**{section.title}**" + (f" on {prose(label)}" if several else "")
        lines += ["", f"{title}: {prose(section.sentence, 3000)}"]
        if section.items:
            items = [f"- {prose(item, 500)}" for item in section.items[:limit]]
            lines += ["", *items, *cut_note(limit, len(section.items), "items")]
        if section.rows:
            shown = section.rows[:limit]
            cells = [(code(first), *map(_asked_cell, rest)) for first, *rest in shown]
            lines += ["", *table(section.header, cells)]
            lines += cut_note(limit, len(section.rows), "node IDs")
    return lines[1:]


def _asked_cell(text: str) -> str:
    return text if text == NONE else prose(text, 500)


def _patch(group: Group, limit: int) -> list[str]:
    by_words: dict[str, list[str]] = {}
    for label, row in _rows(group):
        by_words.setdefault(prose(patch_words(row), 3000), []).append(label)
    if len(by_words) == 1:
        return [f"**Patch**: {next(iter(by_words))}."]
    lines = [f"- {prose(', '.join(on), 1000)}: {words}" for words, on in by_words.items()]
    return ["**Patch**:", "", *lines[:limit], *cut_note(limit, len(lines), "ways it applied")]


def _gaps(report: Report, limit: int) -> list[str]:
    if not report.gaps:
        return ["**Gaps**: none known to the tool."]
    room = max(limit, 20)
    items = [f"- {prose(gap, 500)}" for gap in report.gaps[:room]]
    return ["**Gaps**, not measured here:", "", *items, *cut_note(room, len(report.gaps), "gaps")]


def _rows(group: Group) -> Iterable[tuple[str, Row]]:
    return zip(group.labels, group.rows, strict=True)


_SECTIONS: tuple[Callable[[Group, int], list[str]], ...] = (
    _refused,
    _flips,
    _controls,
    _not_confirmed,
    _skips,
    _asked,
    _patch,
)
