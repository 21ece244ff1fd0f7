"""By how many lines two files differ: the size of the smallest diff, without the diff."""

from __future__ import annotations

from io import BytesIO

#: Steps of the search: some seconds. Files that need more differ in some thousand lines.
BUDGET = 4_000_000


def changed_lines(old: bytes, new: bytes, *, budget: int = BUDGET) -> tuple[int, int] | None:
    """How many lines a smallest diff from ``old`` to ``new`` adds and removes.

    Lines end with a newline, as in git; a last line without one differs from one with it. None
    where the search takes more than ``budget`` steps, as for files that are unlike all over.
    """
    lines: dict[bytes, int] = {}
    a, b = (
        [lines.setdefault(line, len(lines)) for line in BytesIO(data).readlines()]
        for data in (old, new)
    )
    # A line that only one file has is in no common part: it takes no search.
    both = set(a) & set(b)
    common = _common(
        [line for line in a if line in both], [line for line in b if line in both], budget
    )
    return None if common is None else (len(b) - common, len(a) - common)


def _common(a: list[int], b: list[int], budget: int) -> int | None:
    """The length of the longest common subsequence; None beyond the budget.

    The greedy algorithm of Myers (1986, An O(ND) difference algorithm and its variations):
    ``reach`` is how far along ``a`` a script of so many changes gets on each diagonal.
    """
    n, m = len(a), len(b)
    reach = {1: 0}
    for changes in range(n + m + 1):
        low, high = (max(-changes, -m + (changes - m) % 2), min(changes, n - (changes - n) % 2))
        for k in range(low, high + 1, 2):
            start = x = max(reach.get(k - 1, -1) + 1, reach.get(k + 1, -1))
            while x < n and x - k < m and a[x] == b[x - k]:
                x += 1
            reach[k] = x
            if x >= n and x - k >= m:
                return (n + m - changes) // 2
            budget -= 1 + x - start
        if budget < 0:
            return None
    raise AssertionError("n + m changes always suffice")
