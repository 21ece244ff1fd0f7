"""What the elements and attributes of JUnit files mean, tool by tool.

JUnit has no standard. What stands here was seen in files that these tools wrote: pytest 9.2
(families xunit1 and xunit2), googletest 1.12, ctest 3.25 (``--output-junit``) and jest-junit 17.
For gotestsum and Maven surefire (``flakyFailure``, ``rerunFailure``) no file of the tool itself
was at hand: theirs is written from knowledge of the formats, and https://maven.apache.org/surefire/
maven-surefire-plugin/examples/rerun-failing-tests.html is where to check it. A doubt makes an
outcome worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.outcome import Outcome

#: Children of a ``<testcase>`` that make a result.
RESULTS: Final = {
    "failure": Outcome.FAILED,
    "error": Outcome.ERROR,
    "skipped": Outcome.SKIPPED,
    "rerunFailure": Outcome.FAILED,
    "rerunError": Outcome.ERROR,
}
#: Children that tell of a failed try of a test that passed in the end.
FLAKY: Final = frozenset({"flakyFailure", "flakyError"})
#: Children that say nothing about the outcome; any other one is warned of.
NEUTRAL: Final = frozenset({"properties", "property", "system-out", "system-err", "stackTrace"})
RED: Final = frozenset({Outcome.FAILED, Outcome.ERROR})
#: Values of ``status`` and ``result`` that say that a test ran: googletest's and ctest's.
RAN: Final = frozenset({"run", "completed"})

_ATTRIBUTES: Final = {
    "fail": Outcome.FAILED,
    "failed": Outcome.FAILED,
    "error": Outcome.ERROR,
    "disabled": Outcome.SKIPPED,
    "skipped": Outcome.SKIPPED,
    "notrun": Outcome.NOT_RUN,
}
_NO_TEST: Final = frozenset({"collection failure", "collection skipped"})
_JEST_NO_TEST: Final = "Test suite failed to run"


def outcome_of_child(name: str, attributes: Mapping[str, str], case: Mapping[str, str]) -> Outcome:
    """Say what a result element means, of those in ``RESULTS``.

    pytest writes an expected failure as ``<skipped type="pytest.xfail">``. ctest writes
    ``status="notrun"`` with ``<skipped>`` for a real skip (``SKIP_RETURN_CODE=77``), but also for
    a missing executable or a failed fixture, which it counts as failed itself: not run.
    """
    outcome = RESULTS[name]
    if outcome in RED:
        return outcome
    if attributes.get("type") == "pytest.xfail":
        return Outcome.XFAILED
    if case.get("status") == "notrun" and not attributes.get("message", "").startswith("SKIP_"):
        return Outcome.NOT_RUN
    return outcome


def outcome_of_attributes(case: Mapping[str, str]) -> Outcome:
    """Say what a ``<testcase>`` without a result element means.

    Passed, unless its ``status`` or ``result`` says otherwise: ctest writes a disabled test as
    ``status="disabled"``, googletest as ``status="notrun" result="suppressed"``.
    """
    if case.get("result") == "suppressed":
        return Outcome.SKIPPED
    by_status = _ATTRIBUTES.get(case.get("status", "").lower())
    return by_status or _ATTRIBUTES.get(case.get("result", "").lower()) or Outcome.PASSED


def stands_for_no_test(case: Mapping[str, str], message: str) -> bool:
    """Say whether a ``<testcase>`` that didn't pass stands for a file, a class or a suite.

    pytest writes one for what could not be collected, surefire one without a name for a class
    whose setup failed, googletest one without a name for a failure outside all tests, and
    jest-junit one with a class of its own for a file that could not be loaded.
    """
    if not case.get("name") or message in _NO_TEST:
        return True
    if message == "internal error" and case.get("classname") == "pytest":
        return True
    return case.get("classname") == _JEST_NO_TEST


def load_name(case: Mapping[str, str], path: str) -> str:
    """Name what such a ``<testcase>`` stands for: a file, a class, else the suites' path."""
    name, classname = case.get("name", ""), case.get("classname", "")
    if classname and name and classname != _JEST_NO_TEST:
        return f"{classname}::{name}"
    return name or classname or path
