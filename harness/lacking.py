"""What a test lacks to run at all, in both arms alike: a fixture, a plugin, a file, a module.

It says nothing of the patch, so the verdict is ``infra``; the text says what is lacking and what
to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.case import Case
from harness.record import Failure

#: Plugins by a fixture of theirs, as their documentation names it.
_PLUGINS = {
    "aiohttp_client": "pytest-aiohttp",
    "anyio_backend": "anyio",
    "benchmark": "pytest-benchmark",
    "freezer": "pytest-freezer",
    "fs": "pyfakefs",
    "httpserver": "pytest-httpserver",
    "httpx_mock": "pytest-httpx",
    "mocker": "pytest-mock",
    "requests_mock": "requests-mock",
    "snapshot": "syrupy",
    "subtests": "pytest-subtests",
}
_FIXTURE = re.compile(r"\('([^']+)', <")
_ABSENT = re.compile(r"No such file or directory: (?:b?'([^']+)'|b?\"([^\"]+)\")")
#: What pytest says of ``pytest_plugins`` in a test file or a conftest.py.
_IMPORT = re.compile(r"Error importing plugin \"[^\"]*\": No module named '([^']+)'")
_NAME = re.compile(r"cannot import name '([^']+)' from '([^']+)'")
#: What pytest says of it: from 8.4 on a failure, before that a skip.
_ASYNC = (
    "async def functions are not natively supported",
    "async def function and no async plugin installed",
)
_FROM = "name it under tests in case.toml, or take it from upstream (--tests-from)"


def lacking(
    case: Case, before: Failure | None, after: Failure | None, *, skips: tuple[str, str] = ("", "")
) -> str:
    """What both arms lack, with the remedy; empty where they do not fail for the same lack.

    ``skips`` are the reasons why the test was skipped in either arm.
    """
    found = _lack(case, before, skips[0])
    if found is None or found != _lack(case, after, skips[1]):
        return ""
    what, remedy = found
    return f"{what} in both arms, which is not the patch's doing: {remedy}"


def _lack(case: Case, failure: Failure | None, skipped: str) -> tuple[str, str] | None:
    if any(words in skipped for words in _ASYNC):
        return _no_async(case)
    if failure is None:
        return None
    kind = failure.exception.rpartition(".")[2]
    message = failure.message
    if kind == "FixtureLookupError" and "recursive dependency" not in message:
        return _no_fixture(message)
    if kind == "Failed" and message.startswith(_ASYNC):
        return _no_async(case)
    if kind == "FileNotFoundError" and (path := _of_tests(case, message)):
        return f"{path}, a file of the tests tree, is missing", _FROM
    if kind == "ModuleNotFoundError":
        return _no_module(case, failure.module)
    if kind == "UsageError" and (found := _IMPORT.match(message)):
        return _no_module(case, found[1])
    if kind == "ImportError" and (found := _NAME.match(message)):
        name, module = found.groups()
        if module.partition(".")[0] in _tops(case):
            what = f"helper module {module!r} has no {name!r}, or {module}.{name} is missing,"
            return what, _FROM
    return None


def _no_fixture(message: str) -> tuple[str, str] | None:
    found = _FIXTURE.match(message)
    if found is None:
        return None
    plugin = _PLUGINS.get(found[1])
    by_name = f' (plugins = ["{plugin}==…"], by its name)' if plugin else ""
    return (
        f"fixture {found[1]!r} is missing",
        f"name its pytest plugin under plugins in case.toml{by_name}"
        if plugin
        else f"if a conftest.py defines it, {_FROM}; if a pytest plugin does, "
        "name that under plugins in case.toml",
    )


def _no_async(case: Case) -> tuple[str, str]:
    if case.plugins:
        remedy = (
            f"none of {', '.join(case.plugins)} takes it for its own; pytest-asyncio wants the "
            "mark asyncio on a test, since no project's ini file reaches the arms"
        )
    else:
        remedy = 'name one in case.toml: plugins = ["pytest-asyncio==…"]'
    return "a pytest plugin that runs async tests is missing", remedy


def _no_module(case: Case, module: str) -> tuple[str, str] | None:
    top = module.partition(".")[0]
    if top in ("", case.package):
        return None
    if top in _tops(case):
        return f"helper module {module!r} is missing", _FROM
    if top.startswith("pytest_"):
        name = top.replace("_", "-")
        remedy = f'name it in case.toml: plugins = ["{name}==…"]'
        return f"pytest plugin {top!r} is missing", remedy
    remedy = (
        "the environment is incomplete: use an image with it, or name it under plugins in "
        f"case.toml, pinned, where it is pure Python; or, if a helper, {_FROM}"
    )
    return f"module {module!r} is missing", remedy


def _of_tests(case: Case, message: str) -> str:
    """The path that was not found, where it is one of the tests tree; else an empty string."""
    found = _ABSENT.search(message)
    path = (found[1] or found[2]) if found else ""
    path = path.removeprefix("$ARM/work/").removeprefix("./")
    return path if path.partition("/")[0] in _tops(case) else ""


def _tops(case: Case) -> tuple[str, ...]:
    """The top-level names of the tests tree."""
    return tuple(dict.fromkeys(_first_parts(case)))


def _first_parts(case: Case) -> Iterator[str]:
    for path in case.tests:
        yield path.removeprefix("./").partition("/")[0].removesuffix(".py")
