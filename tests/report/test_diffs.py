from __future__ import annotations

import io
import json
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from support.pages import check_inert, pages

from harness.flips import FlipTable, diff
from harness.junit_document import Detail, Document
from harness.outcome import Outcome
from harness.report import jsondoc, markdown, terminal
from harness.report.text import GITHUB_LIMIT, size

BEFORE = {
    "A": Outcome.FAILED,
    "B": Outcome.PASSED,
    "C|d": Outcome.PASSED,
    "Dé": Outcome.SKIPPED,
    "gone": Outcome.PASSED,
}
AFTER = {
    "A": Outcome.PASSED,
    "B": Outcome.FAILED,
    "C|d": Outcome.PASSED,
    "Dé": Outcome.PASSED,
    "new": Outcome.PASSED,
}
BOOM = Detail(message="boom: a | b\nsecond line", type="ValueError")


def made(
    before: Mapping[str, Outcome] = BEFORE,
    after: Mapping[str, Outcome] = AFTER,
    **details: Detail,
) -> FlipTable:
    return diff(
        Document(where="before.xml", outcomes=dict(before), details={}),
        Document(where="after.xml", outcomes=dict(after), details=details),
    )


def printed(found: FlipTable, width: int = 80) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    terminal.render_diff(found, "before.xml", "after.xml", console)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_json_has_the_keys_of_a_report() -> None:
    doc = json.loads(jsondoc.dumps(jsondoc.diff_document(made(B=BOOM), "before.xml", "after.xml")))
    assert list(doc) == ["schema", "verdict", "rows", "nodes", "gaps", "evidence"]
    assert doc["verdict"] == "regression"
    assert doc["rows"][0]["platform"] == ""
    assert doc["rows"][0]["unpatched"] == {"passed": 3, "failed": 1, "skipped": 1}
    assert doc["rows"][0]["patched"] == {"passed": 4, "failed": 1}
    assert len(doc["nodes"]) == 6
    nodes = {node["node_id"]: node for node in doc["nodes"]}
    assert nodes["A"]["verdict"] == "fixed"
    assert nodes["B"]["verdict"] == "broke"
    assert nodes["B"]["confirmed"] is False
    assert nodes["B"]["reason"] == "ValueError: boom: a | b\nsecond line"
    assert nodes["B"]["patched_failure"]["exception"] == "ValueError"
    assert nodes["gone"]["patched"] == "missing"
    assert nodes["gone"]["confirmed"] is False
    assert nodes["new"]["confirmed"] is True
    assert doc["evidence"] == ["before.xml", "after.xml"]


def test_no_regression() -> None:
    doc = jsondoc.diff_document(made(BEFORE, BEFORE), "a", "a")
    assert doc["verdict"] == "no-regression"
    first = markdown.render_diff(made(BEFORE, BEFORE), "a", "a").splitlines()[0]
    assert first == "**No regression: 3 pass in both, 1 fail in both, 1 skipped in both.**"


def test_markdown() -> None:
    text = markdown.render_diff(made(B=BOOM), "before.xml", "after.xml")
    lines = text.splitlines()
    assert lines[0] == "**Regression: 1 broke, 1 passed before and vanished.**"
    assert "| before | `before.xml` | 1 failed, 3 passed, 1 skipped |" in lines
    assert "| `B` | passed → failed | `ValueError: boom: a \\| b second line` |" in lines
    assert "| `gone` | passed → missing | – |" in lines
    assert text.index("**Broke**") < text.index("**Vanished**") < text.index("**Fixed**")
    assert text.index("<details>") < text.index("**Appeared**") < text.index("</details>")


def test_terminal_says_what_got_worse_first_and_the_verdict_last() -> None:
    lines = printed(made(B=BOOM))
    assert lines[0] == "Broke (1):"
    assert lines[1] == "passed → failed B: ValueError: boom: a | b second line"
    assert lines[-5:] == [
        "before.xml: 1 failed, 3 passed, 1 skipped",
        "after.xml: 1 failed, 4 passed",
        "6 tests: 1 fixed, 1 broke, 1 pass in both, 1 skipped in one only, 1 appeared, 1",
        "vanished",
        "Regression: 1 broke, 1 passed before and vanished.",
    ]


def test_what_was_lost_after_a_pass_comes_before_other_absences() -> None:
    before = {f"skipped{n}": Outcome.SKIPPED for n in range(600)} | {"passed": Outcome.PASSED}
    text = markdown.render_diff(made(before, {}), "a", "b")
    assert "| `passed` | passed → missing |" in text


def test_not_measured_is_neither_fine_nor_silent() -> None:
    found = made({"a": Outcome.PASSED}, {"a": Outcome.NOT_RUN})
    text = markdown.render_diff(found, "a", "b")
    assert "No regression was seen, but tests that passed before were not measured" in text
    assert "- 1 test not measured in one of the files" in text
    assert "gap: 1 test not measured in one of the files" in printed(found)


def test_load_errors_and_flaky_tests_are_gaps() -> None:
    broken = Document(
        where="after.xml",
        outcomes={"a": Outcome.PASSED},
        details={},
        load_errors={f"tests/f{n}.py": BOOM for n in range(6)},
        flaky=("a",),
    )
    fine = Document(where="before.xml", outcomes={"a": Outcome.PASSED}, details={})
    found = jsondoc.diff_document(diff(fine, broken), "before.xml", "after.xml")["gaps"]
    assert found[0].startswith("after.xml: 6 could not be loaded, tests unknown: tests/f0.py, ")
    assert found[0].endswith(" and 1 more")
    assert found[1] == "after.xml: 1 test passed only when run again"


def test_nothing_to_compare() -> None:
    assert "Nothing to compare" in markdown.render_diff(made({}, {}), "a", "b")
    assert printed(made({}, {}))[-1] == "Nothing to compare: neither file has a test."


def test_very_many_tests_fit_and_are_counted() -> None:
    before = {f"tests/test_many.py::test_{n}[{'x' * 50}]": Outcome.PASSED for n in range(20_000)}
    after = dict.fromkeys(before, Outcome.FAILED)
    found = made(before, after)
    text = markdown.render_diff(found, "a", "b")
    assert size(text) <= GITHUB_LIMIT
    assert "more of 20,000 tests are not shown here" in text
    lines = printed(found)
    assert len(lines) < 1500
    assert "[cut] 19,800 more; --json has them all" in lines


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1), st.sampled_from(["", "|", "`", "</details>", "@octocat ", "\n# "]))
def test_hostile_keys_and_messages(text: str, start: str) -> None:
    bad = start + text
    hostile, harmless = (
        made({key: Outcome.PASSED}, {key: Outcome.FAILED}, **{key: Detail(message=key, type=key)})
        for key in (bad, "x")
    )
    rendered = (markdown.render_diff(found, key, key) for found, key in
                ((hostile, bad), (harmless, "x")))  # fmt: skip
    for page, other in zip(*map(pages, rendered), strict=True):
        assert [tag for tag in page.tags if tag != "code"] == [
            tag for tag in other.tags if tag != "code"
        ]
        check_inert(page)
    assert all(char.isprintable() for line in printed(hostile) for char in line)
