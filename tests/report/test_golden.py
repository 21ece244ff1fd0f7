"""Whole reports, byte for byte. HARNESS_UPDATE_GOLDEN=1 writes the files again: read the diff."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from support import asked, reports

from harness.report import jsondoc, markdown, terminal
from harness.verdict import Report

DATA = Path(__file__).parents[1] / "data" / "report"
REPORTS = {
    "confirmed": reports.confirmed,
    "not-confirmed": reports.not_confirmed,
    "refused": reports.refused,
    "everything": asked.everything,
}


def check(name: str, text: str) -> None:
    path = DATA / name
    if os.environ.get("HARNESS_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def printed(report: Report, width: int, **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, **options)  # type: ignore[arg-type]
    terminal.render(report, console)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("name", REPORTS)
def test_markdown(name: str) -> None:
    check(f"{name}.md", markdown.render(REPORTS[name]()))


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", REPORTS)
def test_terminal(name: str, width: int) -> None:
    text = printed(REPORTS[name](), width)
    check(f"{name}.{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("name", REPORTS)
def test_json(name: str) -> None:
    check(f"{name}.json", jsondoc.dumps(jsondoc.document(REPORTS[name]())))
