"""Is a measured failure the declared one?"""

from __future__ import annotations

import pytest

from harness.case import Signature
from harness.patch import Patch, for_package, parse_patch
from harness.record import Failure
from harness.signature import level, mismatch, same_failure

#: Adds two lines before line 10 of pkg/a.py.
DIFF = b"""--- a/pkg/a.py
+++ b/pkg/a.py
@@ -9,2 +9,4 @@
 nine
+new
+new
 ten
"""


@pytest.fixture
def patch() -> Patch:
    return for_package(parse_patch(DIFF, where="p"), package="pkg", source=None, where="p")


def failure(**changes: object) -> Failure:
    values = {"exception": "TypeError", "message": "bad 3", "file": "pkg/b.py", "line": 20}
    return Failure(**(values | changes))  # type: ignore[arg-type]


def differs(patch: Patch, measured: Failure, **declared: object) -> str:
    values = {"exception": "TypeError"} | declared
    return mismatch(Signature(**values), measured, patch, {})  # type: ignore[arg-type]


def test_type(patch: Patch) -> None:
    assert differs(patch, failure()) == ""
    assert "KeyError" in differs(patch, failure(), exception="KeyError")
    measured = failure(exception="pkg.errors.Bad")
    assert differs(patch, measured, exception="Bad") == ""
    assert differs(patch, measured, exception="pkg.errors.Bad") == ""
    assert differs(patch, measured, exception="other.Bad") != ""
    assert differs(patch, measured, exception="ad") != ""


def test_message(patch: Patch) -> None:
    assert differs(patch, failure(message="bad 77 things"), message="bad 3") == ""
    assert differs(patch, failure(), message="worse") != ""
    assert differs(patch, failure(), message_regex=r"^bad \d$") == ""
    assert differs(patch, failure(message="bad 44"), message_regex=r"^bad \d$") != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 0x7f00aa", "at 0x1234"),
        ("took 1.25 s", "took 3 s"),
        ("in /tmp/pytest-of-me/pytest-3/x/a.txt", "in /tmp/pytest-of-you/pytest-9/x/b.txt"),
        ("in /home/me/.cache/arms/r/arm/tmp/a b", "in /tmp/q b"),
        ("a\n  b", "a b"),
    ],
)
def test_what_varies_is_levelled(one: str, other: str) -> None:
    assert level(one) == level(other)


def test_what_means_something_is_kept() -> None:
    assert level("NoneType and int") != level("NoneType and str")
    assert level("got int4 on sm89") != level("got int8 on sm89")
    assert level("float16") != level("float32")
    assert level("no file /etc/passwd") != level("no file /etc/group")


def test_place(patch: Patch) -> None:
    assert differs(patch, failure(), at="b.py:20") == ""
    assert differs(patch, failure(), at="pkg/b.py:20") == ""
    assert differs(patch, failure(), at="./pkg/b.py:20") == ""
    assert differs(patch, failure(), at="src/pkg/b.py:20") == ""
    assert differs(patch, failure(), at="kg/b.py:20") != ""
    assert differs(patch, failure(), at="pkg/b.py:21") != ""


def test_a_patch_moves_the_lines_of_its_own_files(patch: Patch) -> None:
    measured = failure(file="pkg/a.py", line=30)
    assert differs(patch, measured, at="pkg/a.py:32") == ""  # as the patched file counts
    assert differs(patch, measured, at="pkg/a.py:31") != ""
    shifted = Signature(exception="TypeError", at="pkg/a.py:25")
    assert mismatch(shifted, measured, patch, {"pkg/a.py": {5}}) == ""
    assert mismatch(shifted, measured, patch, {"pkg/b.py": {5}}) != ""


def test_same_failure_in_both_arms(patch: Patch) -> None:
    before = failure(file="pkg/a.py", line=30)
    assert same_failure(before, failure(file="pkg/a.py", line=32), patch)
    assert not same_failure(before, failure(file="pkg/a.py", line=33), patch)
    assert not same_failure(before, failure(file="pkg/a.py", line=32, exception="X"), patch)


def test_while_loading(patch: Patch) -> None:
    loading = failure(phase="collect")
    assert "not declared" in differs(patch, loading)
    assert differs(patch, loading, while_loading=True) == ""
    assert "not declared" in differs(patch, failure(), while_loading=True)


def test_the_arm_s_temporary_folder_is_one_like_any_other() -> None:
    """The local engine's lies in the arm's folder, that of a container does not."""
    assert level("no '$ARM/tmp/pytest-of-me/x'") == level("no '/tmp/pytest-of-you/y'")
    assert "$ARM/site" in level("from 'pkg' ($ARM/site/pkg/__init__.py)")
