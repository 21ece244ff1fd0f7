"""Which hunks a flip needs, from what it did under some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ablation import Ablation, HunkName, Subset, analyse, names
from harness.outcome import Outcome
from harness.patch import Patch, parse_patch
from harness.plan import ablations

FLIP, OTHER, CONTROL = "t.py::test_flip", "t.py::test_other", "t.py::test_control"
P, F = Outcome.PASSED, Outcome.FAILED


def patch_of(count: int) -> Patch:
    """A patch with so many hunks, one below the other."""
    hunks = "".join(
        f"@@ -{10 * n},2 +{10 * n},2 @@\n line\n-old {n}\n+new {n}\n" for n in range(1, count + 1)
    )
    return parse_patch(f"--- a/pkg/m.py\n+++ b/pkg/m.py\n{hunks}".encode(), where="p")


def ran(hunks: tuple[int, ...], states: Mapping[str, Outcome]) -> Subset:
    return Subset(hunks=hunks, arm=f"hunks-{hunks}", outcomes=states, failures={})


def lost(hunks: tuple[int, ...], *, apart: bool = True) -> Subset:
    """A set of hunks of which nothing is known; outcomes that stand there all the same are lies."""
    return Subset(hunks=hunks, arm="x", outcomes={FLIP: P}, failures={}, problem="no", apart=apart)


def with_passing(count: int, *passing: tuple[int, ...]) -> Ablation:
    """All planned sets were run, and the flip passes with just these."""
    subsets = [ran(h, {FLIP: P if h in passing else F, CONTROL: P}) for h in ablations(count)]
    return analyse(patch_of(count), subsets, [FLIP], [CONTROL])


def test_hunks_are_numbered_through_the_files_and_told_by_their_first_changed_line() -> None:
    patch = parse_patch(
        b"--- a/pkg/m.py\n+++ b/pkg/m.py\n"
        b"@@ -5,4 +5,4 @@\n one\n two\n-a\n+b\n three\n"
        b"@@ -20,0 +21 @@\n+c\n"
        b"--- /dev/null\n+++ b/pkg/n.py\n@@ -0,0 +1 @@\n+n\n"
        b"--- a/pkg/o.py\n+++ b/pkg/o.py\n@@ -3,2 +3,3 @@\n one\n+added\n two\n",
        where="p",
    )
    assert names(patch) == (
        HunkName(number=1, file="pkg/m.py", line=7),
        HunkName(number=2, file="pkg/m.py", line=20),
        HunkName(number=3, file="pkg/n.py", line=1),
        HunkName(number=4, file="pkg/o.py", line=4),
    )


def test_one_hunk_is_enough_and_needed() -> None:
    found = with_passing(3, (1,), (1, 2), (1, 3))
    (node,) = found.nodes
    assert (node.node_id, node.needed, node.alone, node.minimal, node.unknown) == (
        FLIP,
        (1,),
        (1,),
        ((1,),),
        (),
    )
    assert [hunk.number for hunk in found.unneeded] == [2, 3]
    assert (found.complete, found.broken) == (True, ())


def test_two_hunks_are_needed_together() -> None:
    (node,) = (found := with_passing(3, (1, 3))).nodes
    assert (node.needed, node.alone, node.minimal) == ((1, 3), (), ((1, 3),))
    assert [hunk.number for hunk in found.unneeded] == [2]


def test_all_hunks_are_needed() -> None:
    (node,) = (found := with_passing(3)).nodes
    assert (node.needed, node.alone, node.minimal) == ((1, 2, 3), (), ((1, 2, 3),))
    assert found.unneeded == ()


def test_hunks_that_stand_in_for_each_other_are_all_ways_and_none_is_needed() -> None:
    (node,) = (found := with_passing(3, (1,), (2,), (1, 2), (1, 3), (2, 3))).nodes
    assert (node.needed, node.alone, node.minimal) == ((), (1, 2), ((1,), (2,)))
    assert [hunk.number for hunk in found.unneeded] == [3]


def test_alternatives_of_two_hunks_each_come_in_order_of_size_and_number() -> None:
    (node,) = with_passing(4, (4,), (1, 3), (2, 3), (1, 2, 3), *_with(4, 4)).nodes
    assert node.minimal == ((4,), (1, 3), (2, 3))


def _with(number: int, count: int) -> list[tuple[int, ...]]:
    return [hunks for hunks in ablations(count) if number in hunks]


def test_a_hunk_that_undoes_another_is_no_way_and_not_hidden() -> None:
    """Not every set that holds a sufficient one suffices: what was measured is what is said."""
    (node,) = with_passing(3, (1,), (1, 3)).nodes  # with hunks 1 and 2 it fails
    assert (node.needed, node.alone, node.minimal) == ((1, 3), (1,), ((1,),))


def test_a_hunk_is_unneeded_only_where_no_flip_needs_it() -> None:
    subsets = [ran(h, {FLIP: P if 1 in h else F, OTHER: P if 3 in h else F}) for h in ablations(3)]
    found = analyse(patch_of(3), subsets, [FLIP, OTHER], [])
    assert [(node.node_id, node.minimal) for node in found.nodes] == [
        (FLIP, ((1,),)),
        (OTHER, ((3,),)),
    ]
    assert [hunk.number for hunk in found.unneeded] == [2]


def test_without_a_flip_nothing_is_called_unneeded() -> None:
    found = analyse(patch_of(2), [ran((1,), {}), ran((2,), {})], [], [])
    assert (found.nodes, found.unneeded) == ((), ())


def test_what_was_not_measured_leaves_its_hunk_unknown_and_in_use() -> None:
    subsets = [ran(h, {FLIP: P if 1 in h else F}) for h in ablations(3) if h != (1, 3)]
    found = analyse(patch_of(3), [*subsets, lost((1, 3))], [FLIP], [])
    (node,) = found.nodes
    assert (node.needed, node.alone, node.minimal, node.unknown) == ((1,), (1,), ((1,),), (2,))
    assert [hunk.number for hunk in found.unneeded] == [3]
    assert found.complete  # every set was planned, whatever became of it


def test_hunks_that_cannot_be_applied_apart_are_kept_and_tell_nothing() -> None:
    subsets = [
        lost(h, apart=False) if h == (2,) else ran(h, {FLIP: P if {1, 2} <= {*h} else F})
        for h in ablations(3)
    ]
    found = analyse(patch_of(3), subsets, [FLIP], [CONTROL])
    (node,) = found.nodes
    assert (node.needed, node.alone, node.minimal, node.unknown) == ((1, 2), (), ((1, 2),), ())
    assert found.subsets == tuple(subsets)
    assert not found.subsets[1].apart


@pytest.mark.parametrize(
    ("outcome", "tells"),
    [
        (Outcome.FAILED, True),
        (Outcome.ERROR, True),
        (Outcome.CRASHED, True),
        (Outcome.MISSING, True),
        (Outcome.XFAILED, True),
        (Outcome.SKIPPED, False),
        (Outcome.TIMEOUT, False),
        (Outcome.NOT_RUN, False),
    ],
)
def test_only_a_pass_is_one_and_a_skip_or_a_lost_run_says_nothing(
    outcome: Outcome, tells: bool
) -> None:
    subsets = [ran((1,), {FLIP: P}), ran((2,), {FLIP: outcome, CONTROL: outcome})]
    found = analyse(patch_of(2), subsets, [FLIP], [CONTROL])
    (node,) = found.nodes
    assert (node.needed, node.unknown) == (((1,), ()) if tells else ((), (1,)))
    assert (node.alone, node.minimal) == ((1,), ((1,),))
    assert found.broken == (((CONTROL, (2,)),) if tells else ())


def test_an_unexpected_pass_is_one_as_it_is_in_the_pair() -> None:
    found = {Outcome.XFAILED: F, Outcome.XPASSED: P}
    subsets = [ran(h, {FLIP: Outcome.XPASSED if 2 in h else Outcome.XFAILED}) for h in ablations(3)]
    (node,) = analyse(patch_of(3), subsets, [FLIP], []).nodes
    same = [ran(s.hunks, {FLIP: found[s.outcomes[FLIP]]}) for s in subsets]
    assert node == analyse(patch_of(3), same, [FLIP], []).nodes[0]
    assert node.needed == node.alone == (2,)


def test_a_node_that_an_arm_does_not_have_was_not_measured_there() -> None:
    (node,) = analyse(patch_of(2), [ran((1,), {FLIP: P}), ran((2,), {})], [FLIP], []).nodes
    assert node.unknown == (1,)


def test_controls_that_half_a_patch_breaks_are_named_by_the_hunks() -> None:
    subsets = [
        ran(h, {FLIP: P if 1 in h else F, CONTROL: F if 2 in h and 1 not in h else P})
        for h in ablations(3)
    ]
    found = analyse(patch_of(3), [*subsets[:-1], lost((2, 3))], [FLIP], [OTHER, CONTROL])
    assert found.broken == ((CONTROL, (2,)),)
    found = analyse(patch_of(3), subsets, [FLIP], [OTHER, CONTROL])
    assert found.broken == ((CONTROL, (2,)), (CONTROL, (2, 3)))


def test_a_patch_of_one_hunk_has_nothing_to_leave_out() -> None:
    found = analyse(patch_of(1), [], [FLIP], [CONTROL])
    (node,) = found.nodes
    assert node.minimal == ((1,),)
    assert (found.unneeded, found.broken, found.complete) == ((), (), True)


def test_of_many_hunks_one_alone_and_all_but_one_tell_what_is_needed() -> None:
    passing = {h for h in ablations(6) if {2, 5} <= {*h}}
    (node,) = (found := with_passing(6, *passing)).nodes
    assert (node.needed, node.alone, node.minimal, node.unknown) == ((2, 5), (), (), ())
    assert [hunk.number for hunk in found.unneeded] == [1, 3, 4, 6]
    assert not found.complete


def test_of_many_hunks_one_that_is_enough_is_the_only_known_way() -> None:
    (node,) = (found := with_passing(5, *_with(3, 5))).nodes
    assert (node.needed, node.alone, node.minimal) == ((3,), (3,), ((3,),))
    assert [hunk.number for hunk in found.unneeded] == [1, 2, 4, 5]


def test_of_many_hunks_those_that_stand_in_for_each_other_alone_are_in_use() -> None:
    either = [h for h in ablations(5) if {1, 2} & {*h}]
    (node,) = (found := with_passing(5, *either)).nodes
    assert (node.needed, node.alone, node.minimal) == ((), (1, 2), ((1,), (2,)))
    assert [hunk.number for hunk in found.unneeded] == [3, 4, 5]


def subsets_of(numbers: Iterable[int]) -> list[frozenset[int]]:
    pool = tuple(numbers)
    return [frozenset(c) for size in range(len(pool) + 1) for c in combinations(pool, size)]


@st.composite
def needs(draw: st.DrawFn) -> tuple[int, list[frozenset[int]], set[tuple[int, ...]]]:
    """A number of hunks, ways to pass (each a set of hunks that is enough), and lost arms."""
    count = draw(st.integers(1, 7))
    hunk_sets = st.frozensets(st.integers(1, count), min_size=1)
    ways = draw(st.lists(hunk_sets, min_size=1, max_size=4))
    planned = ablations(count)
    gone = draw(st.sets(st.sampled_from(planned))) if planned else set()
    return count, ways, gone


@given(needs())
def test_against_every_set_of_a_monotone_model(
    model: tuple[int, list[frozenset[int]], set[tuple[int, ...]]],
) -> None:
    """The flip passes with a set exactly where some way is in it; the rest is by definition."""
    count, ways, gone = model
    everything = frozenset(range(1, count + 1))

    def passes(hunks: frozenset[int]) -> bool:
        return any(way <= hunks for way in ways)

    known = [frozenset(h) for h in ablations(count) if h not in gone]
    subsets = [
        lost(h) if h in gone else ran(h, {FLIP: P if passes(frozenset(h)) else F})
        for h in ablations(count)
    ]
    found = analyse(patch_of(count), subsets, [FLIP], [])
    (node,) = found.nodes
    for n in everything:
        rest = everything - {n}
        measured = rest in known
        assert (n in node.needed) is (measured and not passes(rest))
        assert (n in node.unknown) is not measured
        only = frozenset({n})
        assert (n in node.alone) is (passes(only) and (only in known or only == everything))
    if count <= 4 and not gone:
        least = [s for s in subsets_of(everything) if passes(s)]
        least = [s for s in least if not any(t < s for t in least)]
        assert {frozenset(m) for m in node.minimal} == set(least)
        assert {h.number for h in found.unneeded} == everything - frozenset().union(
            *least, node.unknown
        )
    assert not {h.number for h in found.unneeded} & {*node.needed, *node.unknown, *node.alone}
    assert found.complete is (count <= 4)
