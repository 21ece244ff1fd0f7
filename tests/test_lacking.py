"""What both arms lack, said with its remedy; what only one lacks is no lack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.case import parse_case
from harness.lacking import lacking
from harness.record import Failure

CASE = parse_case(
    """
schema = 1
title = "t"
package = "pkg"
patch = "fix.patch"
tests = ["tests/test_a.py"]
images = ["*"]
[[nodes]]
id = "tests/test_a.py::test"
role = "control"
""",
    case_id="c",
    where="case.toml",
)
USAGE = "Error importing plugin"
ASYNC = "async def functions are not natively supported.\nYou need to install"


def failure(exception: str, message: str, module: str = "") -> Failure:
    return Failure(exception=exception, message=message, module=module)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            failure("_pytest.fixtures.FixtureLookupError", "('mocker', <FixtureRequest for x>)"),
            ("fixture 'mocker' is missing in both arms", 'plugins = ["pytest-mock==…"]'),
        ),
        (
            failure("_pytest.fixtures.FixtureLookupError", "('own', <FixtureRequest for x>)"),
            ("fixture 'own' is missing in both arms", "conftest.py", "--tests-from"),
        ),
        (failure("Failed", ASYNC), ("plugin that runs async tests", "pytest-asyncio")),
        (
            failure("FileNotFoundError", "[Errno 2] No such file or directory: 'tests/data/x'"),
            ("tests/data/x, a file of the tests tree", "--tests-from"),
        ),
        (
            failure("FileNotFoundError", "No such file or directory: '$ARM/work/tests/x'"),
            ("tests/x, a file of the tests tree",),
        ),
        (
            failure("ModuleNotFoundError", "No module named 'tests.utils'", "tests.utils"),
            ("helper module 'tests.utils' is missing in both arms", "--tests-from"),
        ),
        (
            failure("ModuleNotFoundError", "No module named 'numpy'", "numpy"),
            ("module 'numpy' is missing in both arms", "an image with it", "under plugins"),
        ),
        (
            failure("ModuleNotFoundError", "No module named 'pytest_mock'", "pytest_mock"),
            ("pytest plugin 'pytest_mock' is missing in both arms", 'plugins = ["pytest-mock==…"]'),
        ),
        (
            failure("pytest.UsageError", f"{USAGE} \"pytest_mock\": No module named 'pytest_mock'"),
            ("pytest plugin 'pytest_mock' is missing in both arms", 'plugins = ["pytest-mock==…"]'),
        ),
        (
            failure("pytest.UsageError", f"{USAGE} \"tests.fx\": No module named 'tests.fx'"),
            ("helper module 'tests.fx' is missing in both arms", "--tests-from"),
        ),
        (
            failure("ImportError", "cannot import name 'f' from 'tests.utils' (x)", "tests.utils"),
            ("'tests.utils' has no 'f'",),
        ),
    ],
)
def test_the_same_lack_in_both_arms(found: Failure, words: tuple[str, ...]) -> None:
    text = lacking(CASE, found, found)
    for part in (*words, "not the patch's doing"):
        assert part in text
    assert lacking(CASE, found, None) == ""
    assert lacking(CASE, None, found) == ""
    assert lacking(CASE, found, failure("ValueError", "x")) == ""


@pytest.mark.parametrize(
    "found",
    [
        failure("ModuleNotFoundError", "No module named 'pkg.new'", "pkg.new"),
        failure("FileNotFoundError", "[Errno 2] No such file or directory: '/etc/tests/x'"),
        failure("FileNotFoundError", "[Errno 2] No such file or directory: 'elsewhere/x'"),
        failure("FileNotFoundError", "of its own words"),
        failure("Failed", "DID NOT RAISE"),
        failure("pytest.UsageError", f"{USAGE} \"pkg.testing\": No module named 'pkg.new'"),
        failure("pytest.UsageError", "usage: of something else"),
        failure(
            "_pytest.fixtures.FixtureLookupError",
            "('a', <FixtureRequest for x>, \"recursive dependency involving fixture 'a'\")",
        ),
        failure("ImportError", "cannot import name 'f' from 'pkg.core' (x)", "pkg.core"),
        failure("TypeError", "'<=' not supported"),
    ],
)
def test_a_real_failure_is_no_lack(found: Failure) -> None:
    assert lacking(CASE, found, found) == ""


def test_the_same_kind_of_another_thing_is_no_lack() -> None:
    a = failure("ModuleNotFoundError", "No module named 'a'", "a")
    assert lacking(CASE, a, failure("ModuleNotFoundError", "No module named 'b'", "b")) == ""


def test_an_older_pytest_skips_what_is_async() -> None:
    said = "async def function and no async plugin installed (see warnings)"
    assert "runs async tests is missing" in lacking(CASE, None, None, skips=(said, said))
    assert lacking(CASE, None, None, skips=(said, "")) == ""
    assert lacking(CASE, None, None, skips=("no GPU", "no GPU")) == ""


def test_a_named_plugin_that_does_not_take_an_async_test() -> None:
    case = replace(CASE, plugins=("pytest-asyncio==1.2.0",))
    found = failure("Failed", ASYNC)
    assert "wants the mark asyncio" in lacking(case, found, found)
