"""What each arm will do, fixed before any environment is started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from harness.case import Case
from harness.outcome import Arm
from harness.patch import Patch, render, to_json

#: Order of the arms on one device.
ARMS = (Arm.UNPATCHED, Arm.PATCHED)

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
    """A case with the bytes it names: ``tests`` are by path relative to the case folder."""

    case: Case
    folder: str
    toml: bytes
    patch_bytes: bytes
    patch: Patch
    tests: Mapping[str, bytes]

    @property
    def patch_sha256(self) -> str:
        """Digest of the patch as the case folder has it."""
        return sha256(self.patch_bytes)

    @property
    def tests_sha256(self) -> dict[str, str]:
        """Digest of each test file."""
        return {path: sha256(data) for path, data in sorted(self.tests.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """Everything that one arm is given; the two arms of a row differ in ``arm`` alone."""

    arm: Arm
    files: CaseFiles
    nodes: tuple[str, ...]
    time_limit: float

    def payload(self) -> dict[str, bytes]:
        """The files that are put into the sandbox, by path relative to its root."""
        files = {f"work/{path}": data for path, data in self.files.tests.items()}
        files["production.patch"] = render(self.files.patch)
        files["hunks.json"] = to_json(self.files.patch)
        files["pytest.ini"] = PYTEST_INI
        return files

    def request(self, root: str, *, disposable: bool, package_path: str) -> bytes:
        """What the guest programs are asked to do, as JSON."""
        case = self.files.case
        return json.dumps(
            {
                "root": root,
                "work": f"{root}/work",
                "toolkit": f"{root}/toolkit",
                "package": case.package,
                "package_path": package_path,
                "disposable": disposable,
                "arm": self.arm.value,
                "patch": "production.patch",
                "hunks": "hunks.json",
                "nodes": list(self.nodes),
                "journal": f"{root}/journal.jsonl",
                "pytest": list(self.pytest_args(root)),
            },
            indent=1,
        ).encode()

    def pytest_args(self, root: str) -> tuple[str, ...]:
        """pytest's arguments: whole test files; the recorder selects the node IDs.

        Naming node IDs would make pytest refuse the whole run where one is absent.
        """
        test_files = dict.fromkeys(node.partition("::")[0] for node in self.nodes)
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
            *test_files,
        )


def plan_arms(
    files: CaseFiles, *, nodes: tuple[str, ...], time_limit: float
) -> tuple[ArmPlan, ...]:
    """Plan both arms of one row."""
    return tuple(ArmPlan(arm=arm, files=files, nodes=nodes, time_limit=time_limit) for arm in ARMS)


def sha256(data: bytes) -> str:
    """Hexadecimal sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def slug(text: str) -> str:
    """A folder name made of a reference: letters, digits, dots and dashes."""
    name = "".join(c if c.isalnum() or c in ".-_" else "-" for c in text).strip("-.")
    return name[:80] or "target"
