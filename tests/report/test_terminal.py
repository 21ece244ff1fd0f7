from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from support import reports
from support.reports import CASE, CPU_NODES, PROBE, cpu_row, cuda_row

from harness.case import Node, Role
from harness.report import terminal
from harness.verdict import Report, Verdict


def printed(report: Report, width: int = 80, **options: object) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, **options)  # type: ignore[arg-type]
    terminal.render(report, console)
    return out.getvalue().splitlines()


def test_ends_with_totals_verdict_and_evidence() -> None:
    assert printed(reports.report(cpu_row()))[-4:] == [
        "  1 failed, 1 passed, 1 skipped  →  2 passed, 1 skipped",
        "Confirmed: 1 test on CPU fails unpatched as declared and passes with the patch.",
        "confirmed: 1 flip, 1 control, 1 skipped as declared",
        "evidence: reports/example-1/20260102T030405Z-0a1b2c",
    ]


def test_colours_only_on_a_terminal() -> None:
    assert "\x1b" not in "".join(printed(reports.confirmed()))
    assert "\x1b[1;32m" in "".join(printed(reports.confirmed(), force_terminal=True))


def test_a_long_evidence_path_stays_in_one_piece() -> None:
    path = "reports/" + "x" * 200
    assert f"evidence: {path}" in printed(reports.report(cpu_row(folder=path)))


@settings(max_examples=100, deadline=None)
@given(
    st.text(min_size=1) | st.sampled_from(["[red]x[/red]", "\x1b[31m", "\x9b1m", "a\nconfirmed: 9"])
)
def test_untrusted_text_is_shown_not_obeyed(text: str) -> None:
    nodes = (reports.verdict(f"t.py::{text}", Verdict.WRONG_RED, confirmed=False, reason=text),)
    case = replace(
        CASE, title=text, owed=(text,), nodes=(Node(id=f"t.py::{text}", role=Role.FLIP),)
    )
    row = cpu_row(nodes, case=case, probe=replace(PROBE, device=text))
    lines = printed(reports.report(row, cuda_row(nodes, case=case, refused=(text,))), 140)
    assert all(char.isprintable() for line in lines for char in line)
    assert sum(line.startswith(("confirmed:", "not-confirmed:")) for line in lines) == 1


def test_markup_is_shown_as_it_is() -> None:
    nodes = (
        reports.verdict("t.py::t[red]", Verdict.NOT_FIXED, confirmed=False, reason="[b]no[/b]"),
    )
    text = "\n".join(printed(reports.report(cpu_row(nodes))))
    assert "t.py::t[red]" in text
    assert "[b]no[/b]" in text


def test_many_nodes_are_cut_and_the_bad_ones_come_first() -> None:
    bad = replace(CPU_NODES[0], node_id="t.py::bad", verdict=Verdict.NOT_FIXED, confirmed=False)
    good = [replace(CPU_NODES[0], node_id=f"t.py::good[{n}]") for n in range(1000)]
    lines = printed(reports.report(cpu_row((*good, bad))))
    assert len(lines) < 1500
    assert "bad" in lines[3]
    assert "[cut] 801 more node IDs; --json has them all" in lines


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode(encoding: str) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    terminal.render(reports.confirmed(), Console(file=out, width=140, highlight=False))
    out.flush()
    assert b"1 failed, 1 passed, 1 skipped  ->  2 passed, 1 skipped" in raw.getvalue()


def test_several_cases_and_a_refused_row() -> None:
    other = cuda_row(case=replace(CASE, id="example-2"), refused=("image differs: a and b",))
    text = "\n".join(printed(reports.report(cpu_row(), other), 140))
    assert "example-2: An unset group_size" in text
    assert "refused: image differs: a and b" in text
    assert "refused (2 failed, 1 passed  →  3 passed)" in text
