"""What each arm will do, before any is started."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.reports import CASE, FILE, MARLIN, TRITON

from harness.outcome import Arm, Series
from harness.patch import Patch, numbered, parse_patch, render, to_json
from harness.plan import (
    PYTEST_INI,
    ArmPlan,
    BaseTests,
    CaseFiles,
    Design,
    ablations,
    plan_arms,
    specs,
    whole_files,
)
from harness.record import PAIR, ArmSpec, SourceRecord

THREE = (
    b"--- a/example/oracle.py\n+++ b/example/oracle.py\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n"
    b"--- a/example/moe.py\n+++ b/example/moe.py\n@@ -1 +1 @@\n-e\n+f\n"
)
PATCH = parse_patch(THREE, where="p")
HELPER = "tests/quantization/helper.py"
OTHER = "tests/test_other.py"
BASE = BaseTests(tests={FILE: b"old"}, source=SourceRecord(kind="folder", spec="old"))
FILES = CaseFiles(
    case=replace(CASE, tests=("tests/quantization", OTHER), plugins=("pytest-asyncio==1.0",)),
    folder="cases/example-1",
    toml=b"",
    patch_bytes=THREE,
    patch=PATCH,
    tests={FILE: b"new", HELPER: b"helper", OTHER: b"other"},
)


def patch_of(count: int) -> Patch:
    hunks = "".join(f"@@ -{9 * n} +{9 * n} @@\n-a\n+b\n" for n in range(1, count + 1))
    return parse_patch(f"--- a/pkg/m.py\n+++ b/pkg/m.py\n{hunks}".encode(), where="p")


def names(**design: Any) -> list[str]:
    return [spec.name for spec in specs(Design(**design), PATCH)]


def plans(**design: Any) -> dict[str, ArmPlan]:
    """The plans of a row's arms, by name, in their order."""
    made = plan_arms(FILES, nodes=(MARLIN, TRITON), time_limit=9.0, design=Design(**design))
    return {plan.spec.name: plan for plan in made}


def request(plan: ArmPlan) -> dict[str, Any]:
    found = json.loads(plan.request("/arm", disposable=True, package_path=""))
    assert isinstance(found, dict)
    return found


def test_a_row_has_one_pair_unless_more_is_asked_for() -> None:
    assert specs(Design(), PATCH) == PAIR
    assert [plan.spec for plan in plan_arms(FILES, nodes=(), time_limit=1.0)] == [*PAIR]


def test_repeats_are_interleaved_and_numbered_from_the_second_on() -> None:
    assert names(repeat=3) == [
        *("unpatched", "patched"),
        *("unpatched-2", "patched-2"),
        *("unpatched-3", "patched-3"),
    ]
    found = specs(Design(repeat=3), PATCH)
    assert [spec.repeat for spec in found] == [1, 1, 2, 2, 3, 3]
    assert [spec.arm for spec in found] == [Arm.UNPATCHED, Arm.PATCHED] * 3
    assert {spec.series for spec in found} == {Series.PAIR}
    assert {spec.hunks for spec in found} == {None}


def test_everything_at_once_in_its_order() -> None:
    found = specs(Design(repeat=2, aa=True, ablate=True, base=BASE), PATCH)
    assert [(spec.name, spec.arm, spec.series, spec.repeat, spec.hunks) for spec in found] == [
        ("unpatched", Arm.UNPATCHED, Series.PAIR, 1, None),
        ("aa", Arm.UNPATCHED, Series.AA, 1, None),
        ("patched", Arm.PATCHED, Series.PAIR, 1, None),
        ("unpatched-2", Arm.UNPATCHED, Series.PAIR, 2, None),
        ("aa-2", Arm.UNPATCHED, Series.AA, 2, None),
        ("patched-2", Arm.PATCHED, Series.PAIR, 2, None),
        ("base-unpatched", Arm.UNPATCHED, Series.BASE, 1, None),
        ("base-patched", Arm.PATCHED, Series.BASE, 1, None),
        ("hunks-1", Arm.PARTLY, Series.ABLATION, 1, (1,)),
        ("hunks-2", Arm.PARTLY, Series.ABLATION, 1, (2,)),
        ("hunks-3", Arm.PARTLY, Series.ABLATION, 1, (3,)),
        ("hunks-1+2", Arm.PARTLY, Series.ABLATION, 1, (1, 2)),
        ("hunks-1+3", Arm.PARTLY, Series.ABLATION, 1, (1, 3)),
        ("hunks-2+3", Arm.PARTLY, Series.ABLATION, 1, (2, 3)),
    ]


@pytest.mark.parametrize("more", [{"aa": True}, {"ablate": True}, {"base": BASE}])
def test_the_first_pair_is_the_same_whatever_else_is_asked_for(more: dict[str, Any]) -> None:
    """Evidence of a plain run and of a larger one can be read alike."""
    assert [spec for spec in specs(Design(**more), PATCH) if spec in PAIR] == [*PAIR]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, ()),
        (1, ()),
        (2, ((1,), (2,))),
        (3, ((1,), (2,), (3,), (1, 2), (1, 3), (2, 3))),
        (
            5,
            (
                *((1,), (2,), (3,), (4,), (5,)),
                *((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 4, 5), (1, 3, 4, 5), (2, 3, 4, 5)),
            ),
        ),
    ],
)
def test_the_sets_of_hunks_that_are_tried(
    count: int, expected: tuple[tuple[int, ...], ...]
) -> None:
    assert ablations(count) == expected


@pytest.mark.parametrize(("count", "arms"), [(1, 0), (2, 2), (3, 6), (4, 14), (5, 10), (12, 24)])
def test_up_to_four_hunks_have_all_subsets_and_more_have_one_and_all_but_one(
    count: int, arms: int
) -> None:
    found = [s for s in specs(Design(ablate=True), patch_of(count)) if s.series is Series.ABLATION]
    assert len(found) == arms
    assert len({spec.name for spec in found}) == len({spec.hunks for spec in found}) == arms
    for spec in found:
        assert spec.hunks
        assert 0 < len(spec.hunks) < count
        if count > 4:
            assert len(spec.hunks) in (1, count - 1)


@pytest.mark.parametrize("count", [5, 12])
def test_all_but_one_of_many_hunks_is_named_by_the_one(count: int) -> None:
    found = {spec.name: spec.hunks for spec in specs(Design(ablate=True), patch_of(count))}
    for lacking in range(1, count + 1):
        rest = tuple(n for n in range(1, count + 1) if n != lacking)
        assert found[f"without-{lacking}"] == rest
        assert found[f"hunks-{lacking}"] == (lacking,)


@pytest.mark.parametrize(
    ("name", "forward", "reverse"),
    [
        ("unpatched", "", "production"),
        ("aa", "", "production"),
        ("patched", "production", ""),
        ("base-unpatched", "", "production"),
        ("base-patched", "production", ""),
        ("hunks-2", "forward", "reverse"),
    ],
)
def test_what_is_applied_where_the_fix_is_lacking_and_taken_out_where_it_is_there(
    name: str, forward: str, reverse: str
) -> None:
    plan = plans(aa=True, ablate=True, base=BASE)[name]
    asked = request(plan)
    assert (asked["patch"], asked["forward"], asked["reverse"]) == (
        "production",
        forward,
        reverse,
    )
    given = plan.payload()
    for patch in {"production", forward, reverse} - {""}:
        assert {f"{patch}.patch", f"{patch}.json"} <= set(given)


def test_every_arm_gets_the_whole_patch_to_be_fitted_and_the_same_test_files() -> None:
    for plan in plans(repeat=2, aa=True, ablate=True).values():
        given = plan.payload()
        assert given["production.patch"] == render(PATCH)
        assert given["production.json"] == to_json(PATCH)
        assert given["pytest.ini"] == PYTEST_INI
        assert {name: data for name, data in given.items() if name.startswith("work/")} == {
            f"work/{FILE}": b"new",
            f"work/{HELPER}": b"helper",
            f"work/{OTHER}": b"other",
        }


def test_only_a_partly_patched_arm_gets_parts() -> None:
    made = plans(aa=True, ablate=True, base=BASE)
    with_parts = {name for name, plan in made.items() if "forward.patch" in plan.payload()}
    assert with_parts == {name for name in made if name.startswith("hunks-")}


@pytest.mark.parametrize("hunks", ablations(3), ids=str)
def test_a_part_and_what_is_taken_out_are_together_the_whole(hunks: tuple[int, ...]) -> None:
    given = plans(ablate=True)[f"hunks-{'+'.join(map(str, hunks))}"].payload()
    lines = {number: hunk.lines for number, _, hunk in numbered(PATCH)}

    def lines_of(name: str) -> list[tuple[bytes, ...]]:
        parsed = parse_patch(given[f"{name}.patch"], where=name)
        assert to_json(parsed) == given[f"{name}.json"]
        return [hunk.lines for _, _, hunk in numbered(parsed)]

    assert lines_of("forward") == [lines[n] for n in hunks]
    assert lines_of("reverse") == [lines[n] for n in (1, 2, 3) if n not in hunks]


def test_arms_of_one_kind_are_asked_for_the_same() -> None:
    made = plans(repeat=2, aa=True)
    asked = {name: request(plan) for name, plan in made.items()}
    for name in ("aa", "unpatched-2", "aa-2"):
        assert asked[name] == {**asked["unpatched"], "sources": False}
    assert asked["patched-2"] == asked["patched"]
    differ = {key for key, value in asked["unpatched"].items() if asked["patched"][key] != value}
    assert differ == {"forward", "reverse", "sources"}


def test_only_the_first_unpatched_arm_leaves_sources() -> None:
    made = plans(repeat=2, aa=True, ablate=True, base=BASE)
    assert [name for name, plan in made.items() if request(plan)["sources"]] == ["unpatched"]


def test_what_a_request_says() -> None:
    asked = json.loads(plans()["patched"].request("/arm", disposable=False, package_path="/p"))
    assert {key: asked[key] for key in asked if key not in ("pytest", "sources")} == {
        "root": "/arm",
        "work": "/arm/work",
        "toolkit": "/arm/toolkit",
        "plugins": ["pytest-asyncio"],
        "plugin_folder": "/arm/plugins",
        "package": "example",
        "package_path": "/p",
        "disposable": False,
        "patch": "production",
        "forward": "production",
        "reverse": "",
        "nodes": [MARLIN, TRITON],
        "whole": False,
        "journal": "/arm/journal.jsonl",
    }


def test_the_old_tests_are_put_into_their_own_arms_alone() -> None:
    for name, plan in plans(base=BASE, repeat=2, ablate=True).items():
        given = plan.payload()
        old = name.startswith("base-")
        assert given[f"work/{FILE}"] == (b"old" if old else b"new")
        assert (f"work/{HELPER}" in given) is not old


def test_declared_files_are_run_or_all_that_the_case_names() -> None:
    declared = request(plans()["unpatched"])
    assert (declared["whole"], declared["pytest"][-1]) == (False, FILE)
    assert OTHER not in declared["pytest"]
    for more in ({"whole_files": True}, {"base": BASE}):
        for name, plan in plans(**more).items():
            asked = request(plan)
            assert asked["whole"] is True
            given = ["tests/quantization"] if name.startswith("base-") else None
            given = given or ["tests/quantization", OTHER]
            assert asked["pytest"][-len(given) :] == given
            assert asked["pytest"][-len(given) - 1].startswith("-")
            assert asked["nodes"] == [MARLIN, TRITON]


@pytest.mark.parametrize(
    ("named", "declared", "expected"),
    [
        (("tests/a/test_x.py",), (), ("tests/a/test_x.py",)),
        (("tests/a/x_test.py",), (), ("tests/a/x_test.py",)),
        (("tests",), (), ("tests",)),
        (("tests/a/", "./tests/b"), (), ("tests/a", "tests/b")),
        (("tests/a/helper.py", "tests/a/test_x.py"), (), ("tests/a/test_x.py",)),
        (("tests/a/conftest.py",), (), ()),
        (("tests/a/data.json",), (), ()),
        # A file with an odd name that declared tests are in is a test file all the same.
        (("tests/a/helper.py",), ("tests/a/helper.py",), ("tests/a/helper.py",)),
        (("tests/absent/test_x.py", "tests/c"), (), ()),
        # A folder is one by its whole name.
        (("tests/a/test",), (), ()),
    ],
)
def test_whole_files(
    named: tuple[str, ...], declared: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    present = {
        "tests/a/test_x.py",
        "tests/a/x_test.py",
        "tests/a/helper.py",
        "tests/a/conftest.py",
        "tests/a/data.json",
        "tests/b/test_y.py",
    }
    assert whole_files(named, declared, present) == expected


def test_a_plan_says_which_arm_it_is() -> None:
    spec = ArmSpec(name="hunks-1", arm=Arm.PARTLY, series=Series.ABLATION, hunks=(1,))
    plan = plans(ablate=True)["hunks-1"]
    assert (plan.spec, plan.time_limit, plan.nodes) == (spec, 9.0, (MARLIN, TRITON))
