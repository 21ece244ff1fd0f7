"""For every test below: where CI promised an engine, a skip for want of it is a failure."""

from __future__ import annotations

import os

import pytest

#: Set by .ci/run, which installs and starts everything that the marks name.
REQUIRE = "HARNESS_REQUIRE_ENGINES"
ENGINE_MARKS = ("docker", "vllm")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    outcome = yield
    report = outcome.get_result()
    needs = [mark for mark in ENGINE_MARKS if item.get_closest_marker(mark)]
    if report.skipped and needs and os.environ.get(REQUIRE) and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = (
            f"{REQUIRE} is set, but this test (needs {needs[0]}) was skipped: {reason}"
        )
