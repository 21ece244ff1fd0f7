from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from support import asked, reports
from support.asked import ABLATION, DRIFT, FILE, F, P, everything_row
from support.pages import check_inert, pages
from support.reports import MARLIN, TRITON, cpu_row

from harness.ablation import AblatedNode
from harness.drift import DriftNode
from harness.flips import Flip
from harness.others import Finding, OtherNode, Others
from harness.report import jsondoc, markdown, sections, terminal
from harness.report.section import Section
from harness.report.summary import groups, headline
from harness.report.text import GITHUB_LIMIT, size
from harness.verdict import Overall, Row

EVIL = (
    "<img src=x> @everyone [a](https://x.example) |\n| `",
    "``` \n# title\n\n- #1 GH-2 |x|",
    "</details><script>alert(1)</script>",
    "a|b|c\\|d",
)


def found(row: Row) -> dict[str, Section]:
    (group,) = groups(reports.report(row))
    return {section.title: section for section in sections.of_row(group, row)}


def test_a_plain_row_has_no_sections() -> None:
    assert found(cpu_row()) == {}


def test_a_refused_row_has_none_either() -> None:
    assert found(replace(everything_row(), refused=("image differs",))) == {}


def test_repeats_say_what_their_number_can_prove() -> None:
    section = found(everything_row())["Repeats"]
    assert "2 runs of each arm give p = 0.33 at best, 0.67 after the correction" in section.sentence
    assert section.rows[0][1:5] == ("2:2", "0:2", "0.33", "0.67")
    assert section.rows[1][1:5] == ("2 skipped", "2 skipped", "–", "–")


def node(*, needed: tuple[int, ...] = (), **sets: tuple[object, ...]) -> AblatedNode:
    given: dict[str, tuple[object, ...]] = {"alone": (), "minimal": (), "unknown": ()} | sets
    return AblatedNode(node_id=MARLIN, needed=needed, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ablated", "cells", "told"),
    [
        (
            node(needed=(1, 2, 3), minimal=((1, 2, 3),)),
            ("needed", "needed", "needed", "hunks 1+2+3"),
            "each hunk has a flip that needs it",
        ),
        (
            node(needed=(1,), minimal=((1, 2), (1, 3))),
            ("needed", "in one of the ways", "in one of the ways", "hunks 1+2 or 1+3"),
            "each hunk has a flip that needs it",
        ),
        (
            node(alone=(1, 2), minimal=((1,), (2,))),
            ("enough alone", "enough alone", "not needed", "hunks 1 or 2"),
            "no flip of this row needs hunk 3",
        ),
        (
            node(needed=(1,), minimal=((1, 2, 3),), unknown=(2, 3)),
            ("needed", "not known", "not known", "hunks 1+2+3"),
            "not every hunk could be left out",
        ),
    ],
)
def test_what_each_hunk_is_to_a_flip(
    ablated: AblatedNode, cells: tuple[str, ...], told: str
) -> None:
    section = found(replace(everything_row(), ablation=replace(ABLATION, nodes=(ablated,))))
    assert section["Hunks"].rows == (("…::test_oracle[MARLIN]", *cells),)
    assert told in section["Hunks"].sentence


def test_many_hunks_get_no_column_each() -> None:
    hunks = tuple(replace(ABLATION.hunks[0], number=n) for n in range(1, 10))
    many = replace(ABLATION, hunks=hunks, complete=False)
    section = found(replace(everything_row(), ablation=many))["Hunks"]
    assert section.header == ("node ID", "passes with")
    assert "Each of the 9 hunks was tried alone, and all but each" in section.sentence


def test_no_confirmed_flip_leaves_hunks_untold() -> None:
    section = found(replace(everything_row(), ablation=replace(ABLATION, nodes=())))["Hunks"]
    assert "no flip was confirmed" in section.sentence
    assert section.rows == ()


def test_old_tests_that_change_state_are_counted_and_shown() -> None:
    changed = DriftNode(
        node_id=f"{FILE}::test_x", base_unpatched=P, base_patched=F, unpatched=P, patched=F
    )
    section = found(replace(everything_row(), drift=replace(DRIFT, changed=(changed,))))
    assert (
        "1 pre-existing test changed state (12 old tests checked" in section["Old tests"].sentence
    )
    assert section["Old tests"].rows[0][1:4] == ("passed → failed", "passed → failed", "changed")


def test_the_checked_line_needs_every_old_test_measured() -> None:
    section = found(replace(everything_row(), drift=replace(DRIFT, unmeasured=1)))["Old tests"]
    assert "no pre-existing test changes state" not in section.sentence
    assert "1 gave no result" in section.sentence


def test_an_undeclared_regression_is_in_the_headline() -> None:
    broke = OtherNode(node_id=f"{FILE}::test_y", finding=Finding.REGRESSION, unpatched=P, patched=F)
    others = Others(total=1, counts={Flip.BROKE: 1}, nodes=(broke,))
    report = reports.report(replace(everything_row(), others=others))
    assert report.overall is Overall.NOT_CONFIRMED
    assert headline(report) == "Not confirmed: the patch breaks 1 undeclared test."


def test_json_has_all_of_it_uncut() -> None:
    doc = json.loads(jsondoc.dumps(jsondoc.document(asked.everything())))
    row = doc["rows"][0]
    assert row["repeats"] == 2
    assert row["ablation"]["unneeded"] == [2, 3]
    assert row["ablation"]["nodes"][0]["minimal"] == [[1]]
    assert row["ablation"]["subsets"][0]["outcomes"] == {MARLIN: "passed", TRITON: "passed"}
    assert row["old_tests"]["pre_existing"] == 12
    assert row["a_a"]["comparisons"] == 6
    assert row["a_a"]["rate"] == 0
    assert 0.39 < row["a_a"]["upper"] < 0.4
    assert row["undeclared"]["counts"] == {"both-pass": 11, "both-fail": 1, "fixed": 2}
    assert row["upstream"]["files"][0]["match"] == "identical"
    assert list(row["provenance"]["arms"])[:4] == ["unpatched", "patched", "aa", "unpatched-2"]
    assert row["provenance"]["arms"]["aa-2"] is None
    assert doc["nodes"][0]["runs"] == {
        "unpatched": ["failed", "failed"],
        "patched": ["passed", "passed"],
        "failed": [2, 0],
        "p": pytest.approx(1 / 3),
        "p_holm": pytest.approx(2 / 3),
    }


def test_the_flip_table_is_that_of_a_plain_run() -> None:
    def flips(row: Row) -> str:
        text = markdown.render(reports.report(row))
        return text[text.index("**Flips**") : text.index("**Controls**")]

    assert flips(everything_row()) == flips(cpu_row())


def test_a_huge_comparison_is_cut_and_says_so() -> None:
    nodes = tuple(
        OtherNode(
            node_id=f"{FILE}::test_{n}[{'x' * 50}]", finding=Finding.FAILS, unpatched=F, patched=F
        )
        for n in range(5000)
    )
    others = Others(total=5000, counts={Flip.BOTH_FAIL: 5000}, nodes=nodes)
    report = reports.report(replace(everything_row(), others=others))
    text = markdown.render(report)
    assert size(text) <= GITHUB_LIMIT
    assert "more of 5,000 node IDs are not shown here" in text
    out = io.StringIO()
    terminal.render(report, Console(file=out, width=100))
    assert "[cut] 4,800 more; --json has them all" in out.getvalue()
    assert len(jsondoc.document(report)["rows"][0]["undeclared"]["nodes"]) == 5000


@pytest.mark.parametrize("evil", EVIL)
def test_texts_of_tests_stay_inert(evil: str) -> None:
    node = replace(DRIFT.drifted[0], node_id=f"{FILE}::test_{evil}")
    assert node.failure is not None
    node = replace(node, failure=replace(node.failure, message=evil))
    subset = replace(ABLATION.subsets[1], problem=evil)
    row = replace(
        everything_row(),
        drift=replace(DRIFT, drifted=(node,)),
        ablation=replace(ABLATION, subsets=(subset,), broken=((evil, (1,)),)),
    )
    for page in pages(markdown.render(reports.report(row))):
        check_inert(page)
        assert page.tags.count("table") == 8
