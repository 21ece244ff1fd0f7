"""How fast and how small is reading and comparing two JUnit files of 200,000 tests?

    python benchmarks/junit_read.py [--cases 200000] [--rounds 5]

Prints ratios of one run on one machine: ours (read both, diff, count the flips) over bare expat
that only fills two dicts, and over junitparser doing the same. Each reading is a process of its
own, in turn (A B C A B C …); the time is the least processor time of the rounds, inside of the
process and without its start; the peak is the process's own maximum resident set.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.parsers import expat

ROOT = Path(__file__).resolve().parent.parent


def ours(before: str, after: str) -> int:
    """Read both files and compare them; return the number of flips that aren't pass and pass."""
    from harness.flips import Flip, diff
    from harness.junit import read

    documents = []
    for path in (before, after):
        with open(path, "rb") as file:
            documents.append(read(file, where=path))
    table = diff(*documents)
    return len(table) - table.counts[Flip.BOTH_PASS]


def bare_expat(before: str, after: str) -> int:
    """Fill two dicts of outcomes by class name and name, with the least code that does it."""
    found = []
    for path in (before, after):
        outcomes: dict[str, str] = {}
        found.append(outcomes)
        parser = expat.ParserCreate()
        parser.StartElementHandler = _bare_handler(outcomes)
        with open(path, "rb") as file:
            parser.ParseFile(file)
    return len(found[0])


def _bare_handler(outcomes: dict[str, str]) -> Callable[[str, dict[str, str]], None]:
    key = ""

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal key
        if name == "testcase":
            key = attributes["classname"] + "::" + attributes["name"]
            outcomes[key] = "passed"
        elif name in ("failure", "error", "skipped"):
            outcomes[key] = name

    return start


def junit_parser(before: str, after: str) -> int:
    """Do what ours does with junitparser: outcomes and messages in dicts, and a count of pairs."""
    import junitparser

    found: list[dict[str, str]] = []
    details: dict[str, tuple[str, str]] = {}
    for path in (before, after):
        outcomes: dict[str, str] = {}
        found.append(outcomes)
        for suite in junitparser.JUnitXml.fromfile(path):
            for case in suite:
                key, outcome = f"{case.classname}::{case.name}", "passed"
                for result in case.result:
                    outcome = type(result).__name__
                    details[key] = (result.message, result.type)
                outcomes[key] = outcome
    pairs = Counter((outcome, found[1].get(key)) for key, outcome in found[0].items())
    return pairs.total() - pairs["passed", "passed"]


READERS = {"ours": ours, "bare expat": bare_expat, "junitparser": junit_parser}


def write(path: Path, cases: int, shift: int) -> None:
    """Write a file as pytest does: of 20 tests one failed and one was skipped."""
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">')
        file.write(f'<testsuite name="pytest" tests="{cases}" hostname="h" time="1.0">')
        for i in range(cases):
            kind = (i * 7 + shift) % 20
            inside = ""
            if kind == 0:
                inside = (
                    f'<failure message="AssertionError: assert {i} == 2">def test_op():\n'
                    f"&gt;   assert {i} == 2\nE   assert {i} == 2\n\nt.py:3: AssertionError"
                    "</failure>"
                )
            elif kind == 1:
                inside = '<skipped type="pytest.skip" message="no gpu">/t.py:3: no gpu</skipped>'
            file.write(
                f'<testcase classname="tests.kernels.test_moe_{i % 500}.TestClass" '
                f'name="test_op[{i}-float16]" time="0.001">{inside}</testcase>'
            )
        file.write("</testsuite></testsuites>")


def measure(reader: str, files: list[str]) -> tuple[float, float]:
    """Run one reader in a process of its own; return seconds and megabytes."""
    command = [sys.executable, __file__, "--reader", reader, *files]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = json.loads(out)
    return seconds, megabytes


def run_reader(reader: str, files: list[str]) -> None:
    """Be that process: read, and print seconds and megabytes."""
    sys.path.insert(0, str(ROOT))
    module = {"ours": "harness.flips", "junitparser": "junitparser"}.get(reader, "xml")
    importlib.import_module(module)
    start = time.process_time()
    READERS[reader](*files)
    seconds = time.process_time() - start
    # Linux counts in KiB, and keeps what the process had before exec: the parent stays small.
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def main() -> None:
    """Write the files, measure in turn, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader:
        run_reader(options.reader, options.files)
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "before.xml", Path(folder) / "after.xml"]
        for shift, path in enumerate(paths):
            write(path, options.cases, shift)
        results: dict[str, list[tuple[float, float]]] = {reader: [] for reader in READERS}
        for _ in range(options.rounds):
            for reader, found in results.items():
                found.append(measure(reader, [str(path) for path in paths]))
    best = {reader: min(seconds for seconds, _ in found) for reader, found in results.items()}
    print(f"2 files of {options.cases} tests, least of {options.rounds} rounds")
    print("| reader | seconds | ours is … times that | peak MiB |\n|---|---:|---:|---:|")
    for reader, found in results.items():
        peak = max(megabytes for _, megabytes in found)
        ratio = best["ours"] / best[reader]
        print(f"| {reader} | {best[reader]:.2f} | {ratio:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
