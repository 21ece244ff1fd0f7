"""Files in and out: cases and images are read here, evidence is written and found again."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from harness.case import parse_case, unsafe_path
from harness.errors import BadInput, EvidenceUnwritable
from harness.image import Image, from_reference, parse_image
from harness.outcome import Arm, ArmStatus
from harness.patch import Patch, for_package, parse_patch
from harness.plan import CaseFiles, sha256
from harness.record import (
    SCHEMA,
    ArmEvidence,
    ArmRecord,
    Probe,
    RunRecord,
    Seal,
    Staging,
    TargetEvidence,
    TargetRecord,
)
from harness.results import arm_results
from harness.schema import dump_json, parse_json

_SKIPPED_NAMES = {"__pycache__", ".pytest_cache"}
_TEST_LIMIT = 64 << 20
T = TypeVar("T")
_RAW = ("junit.xml", "journal.jsonl")


def project_root(start: Path) -> Path:
    """The nearest folder at or above ``start`` that has ``cases`` or ``images``, else ``start``."""
    for folder in (start, *start.parents):
        if any((folder / name).is_dir() for name in ("cases", "images")):
            return folder
    return start


def case_names(root: Path) -> list[str]:
    """The ids of all cases below ``root``."""
    return sorted(path.parent.name for path in root.glob("cases/*/case.toml"))


def image_names(root: Path) -> list[str]:
    """The names of all images below ``root``."""
    return sorted(path.parent.name for path in root.glob("images/*/image.toml"))


def find_case(name: str, root: Path) -> Path:
    """The folder of a case given by id or by path.

    Raises:
        BadInput: there is none, with the ids that exist.
    """
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        for folder in (root / "cases" / name, Path(name)):
            if (folder / "case.toml").is_file():
                return folder
        if Path(name).name == "case.toml" and Path(name).is_file():
            return Path(name).parent
    known = ", ".join(case_names(root)) or f"none below {root}"
    raise BadInput(
        f"no case {name!r}: neither an id under cases/ nor a folder with a case.toml",
        f"Known ids: {known}.",
    )


def load_case(folder: Path) -> CaseFiles:
    """Read and check a case folder.

    Raises:
        BadInput: names the file, the key and the remedy.
    """
    toml = folder / "case.toml"
    data = _read(toml, "a case needs it")
    case = parse_case(_decode(data, toml), case_id=folder.resolve().name, where=str(toml))
    tests = _tests(folder, case.tests, case.package, str(toml))
    for index, node in enumerate(case.nodes):
        if node.file not in tests:
            raise BadInput(
                f"{toml}: nodes.{index}.id: no file {node.file!r} in {folder}",
                "Write it, or correct the node ID.",
            )
    patch_path = folder / case.patch
    patch_bytes = _read(patch_path, f"named by {toml}: patch")
    return CaseFiles(
        case=case,
        folder=str(folder),
        toml=data,
        patch_bytes=patch_bytes,
        patch=_patch(patch_bytes, case.package, case.source, str(patch_path)),
        tests=tests,
    )


def load_image(name: str, root: Path) -> Image:
    """The image of that name under ``images/``, or else a container reference.

    Raises:
        BadInput: its image.toml is wrong, or the name is neither.
    """
    toml = root / "images" / name / "image.toml"
    if unsafe_path(name) == "" and toml.is_file():
        folder = toml.parent
        text = _decode(_read(toml, ""), toml)
        image = parse_image(text, name=name, folder=str(folder), where=str(toml))
        named = {
            "lock.requirements": image.lock.requirements if image.lock else "",
            "container.dockerfile": image.container.dockerfile if image.container else "",
        }
        for key, file in named.items():
            if file and not (folder / file).is_file():
                raise BadInput(f"{toml}: {key}: no file {file!r} in {folder}")
        return image
    if not any(mark in name for mark in "/:@"):
        known = ", ".join(image_names(root)) or f"none below {root}"
        raise BadInput(
            f"no image {name!r} under images/",
            f"Known: {known}; or give a container reference, name:tag.",
        )
    if any(c.isspace() or not c.isprintable() for c in name):
        raise BadInput(f"{name!r} is not a container reference")
    return from_reference(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The evidence folder of one run, while it is being written."""

    path: Path

    @classmethod
    def create(cls, out: Path, files: CaseFiles) -> RunFolder:
        """Make ``<out>/<case>/<run>`` with a copy of the case in it.

        Raises:
            BadInput: the folder cannot be made there.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = out / files.case.id / f"{stamp}-{secrets.token_hex(3)}"
        folder = cls(path=path)
        try:
            path.mkdir(parents=True)
            folder.write("case/case.toml", files.toml)
            folder.write(f"case/{files.case.patch}", files.patch_bytes)
            for name, data in files.tests.items():
                folder.write(f"case/{name}", data)
        except (OSError, EvidenceUnwritable) as error:
            raise BadInput(f"--out {out}: cannot write evidence there: {error}") from error
        return folder

    def write(self, name: str, data: bytes) -> None:
        """Write one file so that it is there whole or not at all.

        Raises:
            EvidenceUnwritable: it cannot be written; what was there stays.
        """
        try:
            self._write(self.path / name, data)
        except OSError as error:
            raise EvidenceUnwritable(
                f"{self.path / name}: cannot be written: {error.strerror or error}",
                "Evidence written before is kept. Make room, or choose another folder with --out.",
            ) from error

    @staticmethod
    def _write(target: Path, data: bytes) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def write_run(self, record: RunRecord) -> None:
        """Write ``run.json``."""
        self.write("run.json", dump_json(record).encode())

    def write_arm(self, target: TargetRecord, record: ArmRecord) -> None:
        """Write ``<target>/<arm>/arm.json``."""
        self.write(f"{target.slug}/{record.arm}/arm.json", dump_json(record).encode())

    def write_manifest(self) -> None:
        """Write ``manifest.json``: the sha256 of every other file of the run."""
        digests = {
            path.relative_to(self.path).as_posix(): sha256(path.read_bytes())
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path != self.path / "manifest.json"
        }
        self.write("manifest.json", (json.dumps(digests, indent=1) + "\n").encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """A run read back: everything that a report is derived from."""

    folder: str
    record: RunRecord
    files: CaseFiles
    targets: tuple[TargetEvidence, ...]


def find_runs(path: Path) -> list[Path]:
    """The run folders at or below ``path``, oldest first.

    Raises:
        BadInput: there is none.
    """
    found: list[Path] = []
    path = path.resolve()
    for run in sorted(path.rglob("run.json"), key=lambda p: len(p.parts)) if path.is_dir() else ():
        if not any(outer in run.parents for outer in found):  # a case may hold a run.json
            found.append(run.parent)
    found.sort()
    if not found:
        raise BadInput(
            f"{path}: no evidence there (no run.json)", "Give a folder that `harness ab` wrote."
        )
    return found


def load_run(folder: Path) -> LoadedRun:
    """Read a run's evidence, also of one that was interrupted.

    Raises:
        BadInput: a file is lacking, unreadable or not what its record says.
    """
    name = folder / "run.json"
    record = parse_json(_read(name, ""), RunRecord, where=str(name))
    if record.schema != SCHEMA:
        raise BadInput(
            f"{name}: schema: {record.schema} is not known; this harness reads {SCHEMA}",
            f"It was written by harness {record.harness}: use that version, or a newer one.",
        )
    files = load_case(folder / "case")
    files = replace(files, case=replace(files.case, id=record.case_id))
    checks = (
        (files.patch_sha256, record.patch_sha256, "the patch"),
        (files.tests_sha256, record.tests_sha256, "the tests"),
        (sha256(files.toml), record.case_sha256, "case.toml"),
    )
    for now, then, what in checks:
        if now != then:
            raise BadInput(
                f"{folder}: {what} under case/ is not what was run",
                "Restore the folder from its source.",
            )
    targets = tuple(_load_target(folder, target) for target in record.targets)
    shown = folder.resolve()
    if shown.is_relative_to(Path.cwd()):  # a report for others should not name this machine's paths
        shown = shown.relative_to(Path.cwd())
    return LoadedRun(folder=str(shown), record=record, files=files, targets=targets)


def _load_target(folder: Path, target: TargetRecord) -> TargetEvidence:
    if unsafe_path(target.slug) or "/" in target.slug:
        raise BadInput(f"{folder / 'run.json'}: targets: {target.slug!r} is not a folder name")
    arms = [_load_arm(folder / target.slug / arm) for arm in (Arm.UNPATCHED, Arm.PATCHED)]
    return TargetEvidence(target=target, unpatched=arms[0], patched=arms[1])


def _load_arm(folder: Path) -> ArmEvidence | None:
    name = folder / "arm.json"
    if not name.is_file():
        return None
    record = parse_json(_read(name, ""), ArmRecord, where=str(name))
    raw = {name: _raw(folder / name) for name in sorted({*record.files, *_RAW})}
    present = {name: data for name, data in raw.items() if data is not None}
    if record.status is ArmStatus.ENGINE_FAILED:
        return ArmEvidence(record=record, results=arm_results(record, present))
    changed = [
        name
        for name, data in raw.items()
        if record.files.get(name) != (None if data is None else sha256(data))
    ]
    record = _rederived(record, present, str(folder))
    results = arm_results(record, present)
    if changed:
        problem = f"{', '.join(changed)}: not as the arm left it"
        results = replace(results, problems=(*results.problems, problem))
    return ArmEvidence(record=record, results=results)


def _rederived(record: ArmRecord, raw: Mapping[str, bytes], where: str) -> ArmRecord:
    """The record with what its raw answers say, instead of what it repeats of them."""

    def answer(name: str, kind: type[T]) -> T | None:
        return parse_json(raw[name], kind, where=f"{where}/{name}") if name in raw else None

    return replace(
        record,
        probe=answer("probe.json", Probe),
        staging=answer("stage.json", Staging),
        seal=answer("seal.json", Seal),
    )


def _raw(path: Path) -> bytes | None:
    if unsafe_path(path.name) or path.is_symlink() or not path.is_file():
        return None
    return path.read_bytes()


def _patch(data: bytes, package: str, source: str | None, where: str) -> Patch:
    return for_package(parse_patch(data, where=where), package=package, source=source, where=where)


def _tests(folder: Path, names: tuple[str, ...], package: str, where: str) -> Mapping[str, bytes]:
    """The bytes of every file that ``tests`` names, folders with all in them."""
    found: dict[str, bytes] = {}
    for name in names:
        if Path(name).parts[0] in (package, f"{package}.py"):
            raise BadInput(
                f"{where}: tests: {name!r} would hide the package under test",
                "Put it under tests/.",
            )
        path = folder / name
        if not path.exists():
            raise BadInput(f"{where}: tests: no file or folder {name!r} in {folder}")
        for file in _files(path):
            found[file.relative_to(folder).as_posix()] = _read(file, f"named by {where}: tests")
    if sum(map(len, found.values())) > _TEST_LIMIT:
        raise BadInput(f"{where}: tests: more than {_TEST_LIMIT >> 20} MiB")
    return dict(sorted(found.items()))


def _files(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        raise BadInput(f"{path}: a link; a case holds plain files only", "Copy the file.")
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if child.name not in _SKIPPED_NAMES and child.suffix != ".pyc":
                yield from _files(child)
    else:
        yield path


def _read(path: Path, why: str) -> bytes:
    note = f" ({why})" if why else ""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}: not a plain file{note}")
        return path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file{note}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read{note}: {error}") from error


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8: {error}") from None
