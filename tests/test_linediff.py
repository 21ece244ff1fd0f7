"""The size of the smallest diff, against its definition and against git itself."""

from __future__ import annotations

import random
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.linediff import changed_lines

FILES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n"]), max_size=14)


def longest_common(a: list[bytes], b: list[bytes]) -> int:
    """The definition of the longest common subsequence, by recursion."""

    @cache
    def length(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        if a[i] == b[j]:
            return 1 + length(i + 1, j + 1)
        return max(length(i + 1, j), length(i, j + 1))

    return length(0, 0)


@given(FILES, FILES)
def test_it_is_the_smallest(a: list[bytes], b: list[bytes]) -> None:
    common = longest_common(a, b)
    assert changed_lines(b"".join(a), b"".join(b)) == (len(b) - common, len(a) - common)


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        (b"", b"", (0, 0)),
        (b"", b"a\nb\n", (2, 0)),
        (b"a\nb\n", b"", (0, 2)),
        (b"a\nb", b"a\nb\n", (1, 1)),
        (b"a\r\nb\r\n", b"a\nb\n", (2, 2)),
        (b"a\rb\n", b"a\rc\n", (1, 1)),
        (b"a\nb\nc\n", b"c\na\nb\n", (1, 1)),
    ],
)
def test_ends_of_lines_and_of_files(old: bytes, new: bytes, size: tuple[int, int]) -> None:
    assert changed_lines(old, new) == size


def test_git_counts_the_same_for_a_real_source_file(tmp_path: Path) -> None:
    old = Path(random.__file__).read_bytes()
    lines = old.splitlines(keepends=True)
    chosen = random.Random(7)
    for _ in range(60):
        place = chosen.randrange(len(lines))
        lines[place : place + chosen.randrange(3)] = [b"new %d\n" % place] * chosen.randrange(3)
    new = b"".join(lines)
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--numstat", "--minimal", "old", "new"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    added, removed = map(int, done.stdout.split()[:2])
    assert changed_lines(old, new) == (added, removed)


def test_files_that_are_unlike_all_over_are_given_up() -> None:
    lines = [b"%d\n" % (number % 700) for number in range(20_000)]
    other = lines.copy()
    random.Random(1).shuffle(other)
    assert changed_lines(b"".join(lines), b"".join(other), budget=50_000) is None


def test_four_mebibytes_of_empty_lines_take_no_search() -> None:
    assert changed_lines(b"\n" * (4 << 20), b"\n" * (4 << 20) + b"x\n") == (1, 0)
