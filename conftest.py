"""For every test below: where CI promised all that the tests need, a skip is a failure."""

from __future__ import annotations

import os

import pytest

#: Set by .ci/run, which installs and starts everything.
REQUIRE = "HARNESS_REQUIRE_ENGINES"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():  # type: ignore[no-untyped-def]
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get(REQUIRE) and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"{REQUIRE} is set, but this test was skipped: {reason}"
