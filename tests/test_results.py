"""One arm's raw files to outcomes: agreement, contradiction, crashes, rubbish."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.outcome import Arm, ArmStatus, Outcome
from harness.record import ArmRecord, ArmResults, ImageIdentity, Staging
from harness.results import arm_results, read_journal

A, B = "tests/test_x.py::a", "tests/test_x.py::b"


def record(status: ArmStatus = ArmStatus.RAN, exit_code: int | None = 0, **more: Any) -> ArmRecord:
    identity = ImageIdentity(name="i", digest="sha256:1")
    values: dict[str, Any] = {
        "arm": Arm.UNPATCHED,
        "engine": "test",
        "image": identity,
        "started": "2026-01-01",
        "duration": 1.0,
    }
    return ArmRecord(status=status, exit_code=exit_code, **(values | more))


def journal(*events: dict[str, Any], ids: tuple[str, ...] = (A, B), finish: bool = True) -> bytes:
    lines: list[dict[str, Any]] = [{"event": "collected", "ids": ids, "selected": ids}, *events]
    if finish:
        lines.append(
            {"event": "finish", "exit": 0, "package": "/p/pkg/__init__.py", "imported": True}
        )
    return "\n".join(map(json.dumps, lines)).encode()


def ran(node_id: str, outcome: str, when: str = "call", **more: Any) -> list[dict[str, Any]]:
    return [
        {"event": "test-start", "id": node_id},
        {"event": "report", "id": node_id, "when": when, "outcome": outcome} | more,
        {"event": "test-end", "id": node_id},
    ]


def junit(**children: str) -> bytes:
    cases = []
    for name, child in children.items():
        marker = f'<property name="harness_node_id" value="tests/test_x.py::{name}"/>'
        body = f"<properties>{marker}</properties>{child}"
        cases.append(f'<testcase classname="tests.test_x" name="{name}">{body}</testcase>')
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()


def results(files: dict[str, bytes], **more: Any) -> ArmResults:
    return arm_results(record(**more), files)


def test_agreement() -> None:
    failure = {"exception": "TypeError", "message": "no", "file": "pkg/a.py", "line": 3}
    files = {
        "junit.xml": junit(a='<failure message="no">x</failure>', b=""),
        "journal.jsonl": journal(*ran(A, "failed", failure=failure), *ran(B, "passed")),
    }
    found = results(files, exit_code=1)
    assert found.problems == ()
    assert found.result(A).outcome is Outcome.FAILED
    assert found.result(B).outcome is Outcome.PASSED
    measured = found.result(A).failure
    assert measured is not None and measured.place == "pkg/a.py:3"
    assert found.result("tests/test_x.py::c").outcome is Outcome.MISSING


def test_a_non_strict_xpass_is_told_by_the_journal() -> None:
    files = {
        "junit.xml": junit(a="", b=""),
        "journal.jsonl": journal(*ran(A, "passed", xfail="bug"), *ran(B, "passed")),
    }
    assert results(files).result(A).outcome is Outcome.XPASSED


@pytest.mark.parametrize(
    ("xml", "events", "exit_code", "words"),
    [
        (junit(a="", b=""), [*ran(A, "failed"), *ran(B, "passed")], 1, "JUnit says passed"),
        (
            junit(a="<failure/>", b=""),
            [*ran(A, "passed"), *ran(B, "passed")],
            1,
            "JUnit says failed",
        ),
        (junit(a="", b=""), [*ran(A, "passed"), *ran(B, "passed")], 1, "exit status is 1"),
        (
            junit(a="<failure/>", b=""),
            [*ran(A, "failed"), *ran(B, "passed")],
            0,
            "exit status is 0",
        ),
        (junit(a=""), [*ran(A, "passed")], 0, "not every selected test"),
        (junit(a="", b="", c=""), [*ran(A, "passed"), *ran(B, "passed")], 0, "did not see"),
        (junit(a=""), [*ran(A, "passed"), *ran(B, "passed")], 0, "JUnit says missing"),
        (b"<testsuites><testcase", [*ran(A, "passed"), *ran(B, "passed")], 0, "junit.xml"),
        (b"", [*ran(A, "passed"), *ran(B, "passed")], 0, "junit.xml"),
    ],
)
def test_contradictions_are_problems(
    xml: bytes, events: list[dict[str, Any]], exit_code: int, words: str
) -> None:
    found = results({"junit.xml": xml, "journal.jsonl": journal(*events)}, exit_code=exit_code)
    assert words in " ".join(found.problems)


def test_a_crash_keeps_what_ran() -> None:
    start = {"event": "test-start", "id": B}
    files = {"journal.jsonl": journal(*ran(A, "passed"), start, ids=(A, B, A + "2"), finish=False)}
    found = results(files, exit_code=-11)
    assert found.problems == ()
    outcomes = [found.result(node).outcome for node in (A, B, A + "2")]
    assert outcomes == [Outcome.PASSED, Outcome.CRASHED, Outcome.NOT_RUN]
    failure = found.result(B).failure
    assert failure is not None and failure.exception == "SIGSEGV"


def test_a_test_that_ends_the_process_is_a_crash_too() -> None:
    start = {"event": "test-start", "id": B}
    files = {"journal.jsonl": journal(*ran(A, "passed"), start, finish=False)}
    found = results(files, exit_code=0)
    assert found.result(B).outcome is Outcome.CRASHED


def test_a_process_that_ends_between_tests_is_no_result() -> None:
    found = results({"journal.jsonl": journal(*ran(A, "passed"), finish=False)}, exit_code=0)
    assert "no complete results" in found.problems[0]
    assert found.result(B).outcome is Outcome.NOT_RUN


def test_the_time_limit() -> None:
    files = {"journal.jsonl": journal({"event": "test-start", "id": A}, finish=False)}
    found = results(files, status=ArmStatus.TIMED_OUT, exit_code=None)
    assert [found.result(node).outcome for node in (A, B)] == [Outcome.TIMEOUT, Outcome.NOT_RUN]


def test_memory_kill_is_not_the_tests_crash() -> None:
    files = {"journal.jsonl": journal({"event": "test-start", "id": A}, finish=False)}
    found = results(files, status=ArmStatus.KILLED, exit_code=137)
    assert found.result(A).outcome is Outcome.NOT_RUN


def test_another_copy_of_the_package_is_a_problem() -> None:
    staging = Staging(
        state="clean",
        action="none",
        tool="patch",
        copied=True,
        package_path="/arm/site/pkg",
        tree_before="1",
        tree_after="1",
    )
    files = {
        "junit.xml": junit(a="", b=""),
        "journal.jsonl": journal(*ran(A, "passed"), *ran(B, "passed")),
    }
    found = arm_results(record(staging=staging), files)
    assert "not the arm's own" in found.problems[0]


def test_a_file_that_skips_itself() -> None:
    event = {"event": "load-skip", "file": "tests/test_x.py", "reason": "no gpu"}
    files = {"junit.xml": junit(), "journal.jsonl": journal(event, ids=())}
    found = results(files, exit_code=5)
    assert found.result(A).outcome is Outcome.SKIPPED
    assert found.result(A).skip_reason == "no gpu"


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b"[1, 2]",
        b'{"event": 3}',
        b'{"event": "report", "id": 7, "outcome": "failed", "when": [], "failure": "x"}',
        b'{"event": "collected", "ids": "abc", "selected": [1, null]}',
        b'{"event": "load-error", "file": {}, "failure": {"line": "x", "frames": [[]]}}',
    ],
)
def test_rubbish_in_the_journal_is_survived(line: bytes) -> None:
    good = journal(*ran(A, "passed"))
    assert A in read_journal(line + b"\n" + good).outcomes


def test_the_arm_s_folder_is_the_same_wherever_it_lay() -> None:
    """Two arms on two hosts fail alike, though both name files by their whole path."""

    def failed(root: str) -> ArmResults:
        message = f"cannot import name 'x' from 'pkg' ({root}/site/pkg/__init__.py), not {root}er"
        failure = {"exception": "ImportError", "message": message, "frames": [f"{root}/work/a:1"]}
        skip = {"skip_reason": f"no {root}/work/tests/data"}
        files = {
            "junit.xml": junit(a='<failure message="no">x</failure>', b="<skipped/>"),
            "journal.jsonl": journal(
                *ran(A, "failed", failure=failure), *ran(B, "skipped", "setup", **skip)
            ),
        }
        return results(files, exit_code=1, root=root)

    found = failed("/home/me/.cache/arms/1/a")
    (a, b) = (found.result(node) for node in (A, B))
    assert a.failure is not None
    assert a.failure.message == (
        "cannot import name 'x' from 'pkg' ($ARM/site/pkg/__init__.py), "
        "not /home/me/.cache/arms/1/aer"
    )
    assert a.failure.frames == ("$ARM/work/a:1",)
    assert b.skip_reason == "no $ARM/work/tests/data"
    other = failed("/ab-harness").result(A).failure
    assert other is not None and other.frames == a.failure.frames


def test_another_package_than_the_arm_s_own_is_told_without_its_folder() -> None:
    own = Staging(
        state="clean",
        action="none",
        tool="patch",
        copied=True,
        package_path="/r/a/site/pkg",
        tree_before="1",
        tree_after="1",
    )
    files = {
        "junit.xml": junit(a="", b=""),
        "journal.jsonl": journal(*ran(A, "passed"), *ran(B, "passed")),
    }
    (problem,) = results(files, staging=own, root="/r/a").problems
    assert problem == "the tests imported /p/pkg/__init__.py, not the arm's own $ARM/site/pkg"
