"""Every pair of outcomes, and tables of two documents."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.flips import Flip, classify, diff, is_regression
from harness.junit import Detail, Document
from harness.outcome import Outcome

_SHORT = {
    "fix": Flip.FIXED,
    "BRK": Flip.BROKE,
    "ok": Flip.BOTH_PASS,
    "bad": Flip.BOTH_FAIL,
    "skp": Flip.BOTH_SKIP,
    "chg": Flip.SKIP_CHANGED,
    "app": Flip.APPEARED,
    "van": Flip.VANISHED,
    "abs": Flip.ABSENT,
    "unm": Flip.UNMEASURED,
}
#: Written out by hand, so that a change of any pair shows here. Rows: before; columns: after.
_GRID = """
          passed failed error skipped xfailed xpassed missing crashed timeout not-run
passed    ok     BRK    BRK   chg     BRK     ok      van     BRK     unm     unm
failed    fix    bad    bad   chg     bad     fix     van     bad     unm     unm
error     fix    bad    bad   chg     bad     fix     van     bad     unm     unm
skipped   chg    chg    chg   skp     chg     chg     van     chg     unm     unm
xfailed   fix    bad    bad   chg     bad     fix     van     bad     unm     unm
xpassed   ok     BRK    BRK   chg     BRK     ok      van     BRK     unm     unm
missing   app    app    app   app     app     app     abs     app     app     app
crashed   fix    bad    bad   chg     bad     fix     van     bad     unm     unm
timeout   unm    unm    unm   unm     unm     unm     van     unm     unm     unm
not-run   unm    unm    unm   unm     unm     unm     van     unm     unm     unm
"""
_HEAD, *_ROWS = [line.split() for line in _GRID.strip().splitlines()]
PAIRS = {
    (Outcome(before), Outcome(after)): _SHORT[flip]
    for before, *flips in _ROWS
    for after, flip in zip(_HEAD, flips, strict=True)
}


def document(where: str = "x.xml", /, **outcomes: str) -> Document:
    values = {key: Outcome(value) for key, value in outcomes.items()}
    details = {
        key: Detail(message=f"{key} in {where}")
        for key, outcome in values.items()
        if outcome is not Outcome.PASSED
    }
    return Document(where=where, outcomes=values, details=details)


def test_the_grid_has_every_pair() -> None:
    assert set(PAIRS) == {(before, after) for before in Outcome for after in Outcome}
    assert set(PAIRS.values()) == set(Flip)


@pytest.mark.parametrize(("before", "after"), sorted(PAIRS))
def test_classify(before: Outcome, after: Outcome) -> None:
    assert classify(before, after) is PAIRS[before, after]


@pytest.mark.parametrize(("before", "after"), sorted(PAIRS))
def test_turning_the_arms_round_turns_the_flip_round(before: Outcome, after: Outcome) -> None:
    turned = {Flip.FIXED: Flip.BROKE, Flip.APPEARED: Flip.VANISHED}
    turned |= {after: before for before, after in turned.items()}
    flip = classify(before, after)
    assert classify(after, before) is turned.get(flip, flip)


def test_only_what_broke_or_vanished_after_passing_is_a_regression() -> None:
    green = {Outcome.PASSED, Outcome.XPASSED}
    red = {Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.XFAILED}
    found = {pair for pair in PAIRS if is_regression(*pair)}
    assert found == {(one, two) for one in green for two in red | {Outcome.MISSING}}


def test_diff_has_every_key_in_a_stable_order() -> None:
    before = document("b", z="failed", a="passed", gone="passed", was_red="failed", s="skipped")
    after = document("a", new2="passed", a="failed", z="passed", new1="failed", s="passed")
    table = diff(before, after)
    assert [(node.key, node.flip) for node in table] == [
        ("z", Flip.FIXED),
        ("a", Flip.BROKE),
        ("gone", Flip.VANISHED),
        ("was_red", Flip.VANISHED),
        ("s", Flip.SKIP_CHANGED),
        ("new2", Flip.APPEARED),
        ("new1", Flip.APPEARED),
    ]
    assert len(table) == 7
    assert table.counts == {
        Flip.FIXED: 1,
        Flip.BROKE: 1,
        Flip.SKIP_CHANGED: 1,
        Flip.APPEARED: 2,
        Flip.VANISHED: 2,
    }
    assert list(table.counts) == [flip for flip in Flip if flip in table.counts]
    assert [node.key for node in table.regressions] == ["a", "gone"]
    assert [node.key for node in table.of(Flip.FIXED, Flip.APPEARED)] == ["z", "new2", "new1"]
    assert table.worse
    assert table.totals_before[Outcome.PASSED] == 2 and table.totals_after[Outcome.FAILED] == 2
    assert list(table) == list(table)


def test_nodes_have_both_messages() -> None:
    table = diff(document("b", t="failed"), document("a", t="passed"))
    node = table.node("t")
    assert node.before_detail == Detail(message="t in b") and node.after_detail is None
    assert table.node("nowhere").flip is Flip.ABSENT


@pytest.mark.parametrize(
    ("before", "after", "worse", "inconclusive"),
    [
        ({"a": "passed"}, {"a": "passed"}, False, False),
        ({"a": "failed"}, {"a": "failed"}, False, False),
        ({"a": "failed"}, {}, False, False),
        ({"a": "passed"}, {}, True, False),
        ({"a": "xpassed"}, {"b": "passed"}, True, False),
        ({"a": "passed"}, {"a": "skipped"}, False, False),
        ({"a": "passed"}, {"a": "not-run"}, False, True),
        ({"a": "failed"}, {"a": "timeout"}, False, False),
        ({}, {"a": "failed"}, False, False),
        ({}, {}, False, False),
    ],
)
def test_worse(
    before: dict[str, str], after: dict[str, str], worse: bool, inconclusive: bool
) -> None:
    table = diff(document(**before), document(**after))
    assert (table.worse, table.inconclusive) == (worse, inconclusive)
    assert bool(table.regressions) == worse


def test_new_load_errors() -> None:
    old, new = Detail(message="old"), Detail(message="new")
    before = Document(where="b", outcomes={}, load_errors={"t": old})
    after = Document(where="a", outcomes={}, load_errors={"t": new, "u": new})
    assert diff(before, after).new_load_errors == {"u": new}


def test_warnings() -> None:
    passed = {"k": Outcome.PASSED}
    plain = Document(where="p", outcomes=passed, warnings=("odd",))
    exact = Document(where="e", outcomes=passed, exact=True)
    other = Document(where="o", outcomes={"l": Outcome.PASSED})
    empty = Document(where="0", outcomes={}, exact=True)
    assert diff(plain, plain).warnings == ("p: odd", "p: odd")
    assert diff(plain, exact).warnings == (
        "p: odd",
        "only e has exact node IDs: the same test has two keys",
    )
    assert diff(other, plain).warnings == ("p: odd", "o and p have no key in common")
    assert diff(empty, other).warnings == diff(other, empty).warnings == ()


_outcomes = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(list(Outcome)))


@given(_outcomes, _outcomes)
def test_counts_and_regressions_agree_with_the_lines(
    before: dict[str, Outcome], after: dict[str, Outcome]
) -> None:
    table = diff(Document(where="b", outcomes=before), Document(where="a", outcomes=after))
    nodes = list(table)
    assert [node.key for node in nodes] == list(dict.fromkeys([*before, *after]))
    assert len(nodes) == len(table) == sum(table.counts.values())
    assert Counter(node.flip for node in nodes) == Counter(table.counts)
    assert table.regressions == tuple(node for node in nodes if node.is_regression)
    assert table.worse == bool(table.regressions)
