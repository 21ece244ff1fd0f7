"""An arm's answers, read back: of an arm that was given up, they may be none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.answers import portable, rederived
from harness.errors import BadInput
from harness.outcome import Arm, ArmStatus
from harness.record import ArmRecord, ImageIdentity

STAGED = {
    "state": "rejected",
    "action": "none",
    "tool": "patch 2.7.6",
    "copied": True,
    "package_path": "/r/a/site/pkg",
    "tree_before": "1",
    "tree_after": "1",
    "message": "/r/a/site/pkg/x.py is odd",
}


def record(status: ArmStatus) -> ArmRecord:
    return ArmRecord(
        arm=Arm.PATCHED,
        status=status,
        reason="/r/a/site/pkg exists already",
        engine="local",
        image=ImageIdentity(name="i", digest=""),
        started="",
        duration=0.0,
        root="/r/a",
    )


@pytest.mark.parametrize("answer", [{"error": "package 'pkg' is not installed"}, [], "x"])
def test_an_arm_that_was_given_up_may_have_no_answer(answer: Any) -> None:
    raw = {"stage.json": json.dumps(answer).encode(), "seal.json": b"{"}
    for status in (ArmStatus.ENGINE_FAILED, ArmStatus.INTERRUPTED):
        found = rederived(record(status), raw, "run/arm")
        assert (found.staging, found.seal) == (None, None)
    with pytest.raises(BadInput, match=r"run/arm/stage\.json"):
        rederived(record(ArmStatus.RAN), raw, "run/arm")


def test_no_folder_of_this_machine_is_in_what_is_shown() -> None:
    raw = {"stage.json": json.dumps(STAGED).encode()}
    found = rederived(record(ArmStatus.PATCH_REJECTED), raw, "run/arm")
    assert found.reason == "$ARM/site/pkg exists already"
    assert found.staging is not None
    assert found.staging.package_path == "$ARM/site/pkg"
    assert found.staging.message == "$ARM/site/pkg/x.py is odd"


def test_what_is_nested_deeply_is_left_alone() -> None:
    deep: Any = "/r/a"
    for _ in range(5000):
        deep = [deep]
    assert portable({"frames": ["/r/a/x", 1, None]}, "/r/a") == {"frames": ["$ARM/x", 1, None]}
    assert portable(deep, "/r/a")[0][0] is deep[0][0]
    assert portable("/r/a", "") == "/r/a"
    assert portable("/mnt/r/a", "/r/a") == "/mnt/r/a"
