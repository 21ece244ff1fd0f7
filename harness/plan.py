"""What each arm will do, fixed before any environment is started."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import PurePosixPath

from harness import testtree
from harness.case import Case
from harness.outcome import Arm, Series
from harness.patch import Patch, render, subset, to_json
from harness.record import PAIR, ArmSpec, SourceRecord

#: Up to so many hunks all their subsets are run, beyond only one alone and all but one.
ALL_SUBSETS = 4
#: What pytest takes for a test file where nothing tells it otherwise (``python_files``).
TEST_FILES = testtree.TEST_FILES

#: Variables that are the same in every arm, whatever the engine.
FIXED_ENV = {
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}

PYTEST_INI = (
    b"# The harness's own, empty on purpose: no ini file of a project reaches the arms.\n[pytest]\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFiles:
    """A case with the bytes it names: ``tests`` are by path relative to the case folder.

    ``tests_from`` says where those were taken from that the folder lacks.
    """

    case: Case
    folder: str
    toml: bytes
    patch_bytes: bytes
    patch: Patch
    tests: Mapping[str, bytes]
    tests_from: SourceRecord | None = None

    @property
    def patch_sha256(self) -> str:
        """Digest of the patch as the case folder has it."""
        return sha256(self.patch_bytes)

    @property
    def tests_sha256(self) -> dict[str, str]:
        """Digest of each test file."""
        return {path: sha256(data) for path, data in sorted(self.tests.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTests:
    """The test files as they were before the change, by path, and where they come from."""

    tests: Mapping[str, bytes]
    source: SourceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Which arms a row has, beside one unpatched and one patched.

    ``repeat`` is the number of arms of each kind; ``aa`` adds an unpatched one to each repeat;
    ``base`` adds both arms with the old tests; ``ablate`` arms with some of the hunks.
    ``whole_files`` runs every test of the case's files, not only the declared ones.
    """

    repeat: int = 1
    aa: bool = False
    ablate: bool = False
    whole_files: bool = False
    base: BaseTests | None = None

    @property
    def whole(self) -> bool:
        """Whether undeclared tests are run too: old and new tests are compared whole."""
        return self.whole_files or self.base is not None


def specs(design: Design, patch: Patch) -> tuple[ArmSpec, ...]:
    """The arms of each row, in the order in which they run: A B A B, then what is beside them."""
    return tuple(_specs(design, patch))


def _specs(design: Design, patch: Patch) -> Iterator[ArmSpec]:
    for number in range(1, design.repeat + 1):
        suffix = "" if number == 1 else f"-{number}"
        before, after = (replace(s, name=s.name + suffix, repeat=number) for s in PAIR)
        yield before
        if design.aa:
            again = f"aa{suffix}"
            yield ArmSpec(name=again, arm=Arm.UNPATCHED, series=Series.AA, repeat=number)
        yield after
    if design.base is not None:
        for spec in PAIR:
            yield replace(spec, name=f"base-{spec.name}", series=Series.BASE)
    if design.ablate:
        few = patch.hunk_count <= ALL_SUBSETS
        for hunks in ablations(patch.hunk_count):
            name = f"hunks-{'+'.join(map(str, hunks))}"
            yield ArmSpec(
                name=name if few or len(hunks) == 1 else f"without-{_lacking(hunks)}",
                arm=Arm.PARTLY,
                series=Series.ABLATION,
                hunks=hunks,
            )


def ablations(count: int) -> tuple[tuple[int, ...], ...]:
    """The sets of hunks to try, of ``count`` hunks: all real subsets, or one and all but one."""
    numbers = range(1, count + 1)
    sizes = range(1, count) if count <= ALL_SUBSETS else (1, count - 1)
    return tuple(dict.fromkeys(some for size in sizes for some in combinations(numbers, size)))


def _lacking(hunks: Collection[int]) -> int:
    """The one hunk that is not among them."""
    return next(number for number in range(1, len(hunks) + 2) if number not in hunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """Everything that one arm is given; the arms of a row differ in ``spec`` alone.

    But for those with the old tests: their ``files`` have these.
    """

    spec: ArmSpec
    files: CaseFiles
    nodes: tuple[str, ...]
    time_limit: float
    whole: bool = False

    @property
    def sources(self) -> bool:
        """Whether the arm leaves the package's files that are compared with upstream's."""
        return self.spec == PAIR[0]

    def payload(self) -> dict[str, bytes]:
        """The files that are put into the sandbox, by path relative to its root."""
        files = {f"work/{path}": data for path, data in self.files.tests.items()}
        files["pytest.ini"] = PYTEST_INI
        for name, patch in {"production": self.files.patch, **self._parts()}.items():
            files[f"{name}.patch"] = render(patch)
            files[f"{name}.json"] = to_json(patch)
        return files

    def request(self, root: str, *, disposable: bool, package_path: str) -> bytes:
        """What the guest programs are asked to do, as JSON.

        ``forward`` names the patch to apply where the image lacks the fix, ``reverse`` the one to
        take out where it has it; an empty name is nothing to do.
        """
        case = self.files.case
        forward, reverse = self._names()
        return json.dumps(
            {
                "root": root,
                "work": f"{root}/work",
                "toolkit": f"{root}/toolkit",
                "plugins": [plugin.partition("==")[0] for plugin in case.plugins],
                "plugin_folder": f"{root}/plugins",
                "package": case.package,
                "package_path": package_path,
                "disposable": disposable,
                "patch": "production",
                "forward": forward,
                "reverse": reverse,
                "nodes": list(self.nodes),
                "whole": self.whole,
                "sources": self.sources,
                "journal": f"{root}/journal.jsonl",
                "pytest": list(self.pytest_args(root)),
            },
            indent=1,
        ).encode()

    def pytest_args(self, root: str) -> tuple[str, ...]:
        """pytest's arguments: whole test files; the recorder selects the node IDs.

        Naming node IDs would make pytest refuse the whole run where one is absent.
        """
        return (
            f"--rootdir={root}/work",
            f"-c={root}/pytest.ini",
            f"--confcutdir={root}/work",
            "--import-mode=importlib",
            f"--junitxml={root}/junit.xml",
            "-ojunit_family=xunit1",
            "--continue-on-collection-errors",
            "-pno:cacheprovider",
            "--color=no",
            "-v",
            *self._import_folders(),
            *self._test_files(),
        )

    def _import_folders(self) -> tuple[str, ...]:
        """Folders from which helpers are imported by their bare names, relative to the ini file."""
        package = self.files.case.package
        folders = testtree.import_folders(self.files.tests, package=package)
        quoted = " ".join(shlex.quote(f"work/{folder}") for folder in folders)
        return (f"-opythonpath={quoted}",) if quoted else ()

    def _test_files(self) -> tuple[str, ...]:
        """Those of the declared node IDs, or all that the case names and that are there."""
        declared = dict.fromkeys(node.partition("::")[0] for node in self.nodes)
        if not self.whole:
            return tuple(declared)
        return whole_files(self.files.case.tests, declared, self.files.tests)

    def _names(self) -> tuple[str, str]:
        match self.spec.arm:
            case Arm.UNPATCHED:
                return "", "production"
            case Arm.PATCHED:
                return "production", ""
            case Arm.PARTLY:
                return "forward", "reverse"

    def _parts(self) -> dict[str, Patch]:
        """What a partly patched arm applies, and what it takes out of an image with the fix."""
        if self.spec.hunks is None:
            return {}
        patch, hunks = self.files.patch, self.spec.hunks
        others = [n for n in range(1, patch.hunk_count + 1) if n not in hunks]
        return {"forward": subset(patch, hunks), "reverse": subset(patch, others)}


def whole_files(
    named: Collection[str], declared: Collection[str], present: Collection[str]
) -> tuple[str, ...]:
    """What pytest is given to run everything: folders and test files that ``named`` lists.

    Helpers are left out, and what is not among the files that are ``present``.
    """
    given = []
    for path in (str(PurePosixPath(name)) for name in named):
        name = path.rpartition("/")[2]
        if path in present:
            if path in declared or any(fnmatchcase(name, pattern) for pattern in TEST_FILES):
                given.append(path)
        elif any(file.startswith(f"{path}/") for file in present):
            given.append(path)
    return tuple(given)


def plan_arms(
    files: CaseFiles, *, nodes: tuple[str, ...], time_limit: float, design: Design | None = None
) -> tuple[ArmPlan, ...]:
    """Plan the arms of one row."""
    design = design or Design()
    old = replace(files, tests=design.base.tests) if design.base else files
    return tuple(
        ArmPlan(
            spec=spec,
            files=old if spec.series is Series.BASE else files,
            nodes=nodes,
            time_limit=time_limit,
            whole=design.whole,
        )
        for spec in specs(design, files.patch)
    )


def sha256(data: bytes) -> str:
    """Hexadecimal sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def slug(text: str) -> str:
    """A folder name made of a reference: letters, digits, dots and dashes."""
    name = "".join(c if c.isalnum() or c in ".-_" else "-" for c in text)
    return re.sub("-{2,}", "-", name).strip("-.")[:80] or "target"
