"""Which tests a change is about."""

from __future__ import annotations

import difflib

import pytest

from harness.patch import parse_patch
from harness.touched import changed_lines, name_of, touched

SOURCE = """import pytest

LIMIT = 3


def helper():
    return LIMIT


@pytest.fixture
def made():
    return helper()


@pytest.mark.parametrize("x", [1, 2])
def test_one(x):
    assert x


def test_two(made):
    first = made

    assert first


class TestThings:
    size = 1

    def setup_method(self):
        self.x = 1

    def test_three(self):
        assert self.x
        assert self.size

    async def test_four(self):
        assert 1
"""


def about(old: str, new: str, source: str = SOURCE) -> set[str]:
    assert source.count(old) == 1
    after = source.replace(old, new)
    lines = difflib.unified_diff(
        source.splitlines(True), after.splitlines(True), "a/tests/x.py", "b/tests/x.py"
    )
    (file,) = parse_patch("".join(lines).encode(), where="x").files
    return set(touched(after.encode(), changed_lines(file)))


THINGS = {"TestThings::test_three", "TestThings::test_four"}


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("    assert x\n", "    assert x > 0\n", {"test_one"}),
        ("[1, 2]", "[1, 2, 3]", {"test_one"}),
        ('@pytest.mark.parametrize("x", [1, 2])\n', "", {"test_one"}),
        ("LIMIT = 3", "LIMIT = 4", {"test_two"}),
        ("    return helper()", "    return helper() + 1", {"test_two"}),
        ("    first = made\n", "", {"test_two"}),
        ("        assert self.size\n", "", {"TestThings::test_three"}),
        ("    size = 1", "    size = 2", THINGS),
        ("        self.x = 1", "        self.x = 2", THINGS),
        ("class TestThings:", "class TestThings(object):", THINGS),
        ("def test_two(made):\n    first = made\n\n    assert first\n\n\n", "", set()),
        ("\n\nclass", "\n\ndef test_new():\n    pass\n\n\nclass", {"test_new"}),
        ("import pytest\n", "import pytest\n\n", set()),
    ],
)
def test_the_tests_of_a_change(old: str, new: str, names: set[str]) -> None:
    assert about(old, new) == names


def test_what_is_not_python_has_no_tests() -> None:
    assert touched(b"def (", {1}) == frozenset()
    assert touched(b"\xff\xfe", {1}) == frozenset()


def test_names_of_node_ids() -> None:
    assert name_of("tests/test_x.py::TestA::test_b[c::d]") == "TestA::test_b"
