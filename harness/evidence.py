"""Evidence folders: written file by file, found again, and read back with suspicion."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.answers import rederived
from harness.case import unsafe_path
from harness.errors import BadInput, EvidenceUnwritable
from harness.outcome import ArmStatus
from harness.plan import BaseTests, CaseFiles, sha256
from harness.record import (
    PAIR,
    SCHEMA,
    ArmEvidence,
    ArmRecord,
    ArmResults,
    ArmSpec,
    ImageIdentity,
    RunRecord,
    SourceRecord,
    TargetEvidence,
    TargetRecord,
)
from harness.results import arm_results
from harness.schema import dump_json, parse_json
from harness.store import load_case, read_file
from harness.transfer import Upstream, read_sources

_RAW = ("junit.xml", "journal.jsonl")
_ANSWERS = ("probe.json", "stage.json", "seal.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The evidence folder of one run, while it is being written."""

    path: Path

    @classmethod
    def create(cls, out: Path, files: CaseFiles, base: BaseTests | None = None) -> RunFolder:
        """Make ``<out>/<case>/<run>`` with a copy of the case in it, and of the old tests.

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
            for name, data in base.tests.items() if base else ():
                folder.write(f"base/{name}", data)
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
        self.write(f"{target.slug}/{record.name}/arm.json", dump_json(record).encode())

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
    upstream: Upstream | None = None


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
    record = parse_json(read_file(name), RunRecord, where=str(name))
    if record.schema != SCHEMA:
        raise BadInput(
            f"{name}: schema: {record.schema} is not known; this harness reads {SCHEMA}",
            f"It was written by harness {record.harness}: use that version, or a newer one.",
        )
    files = load_case(folder / "case", taken=record.tests_from)
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
    _taken(folder, "base", record.base_tests)
    _check_arms(name, record)
    theirs = _taken(folder, "upstream", record.upstream)
    upstream = Upstream.of(record.upstream, theirs) if record.upstream else None
    targets = tuple(_load_target(folder, target, record.arms) for target in record.targets)
    shown = folder.resolve()
    if shown.is_relative_to(Path.cwd()):  # a report for others should not name this machine's paths
        shown = shown.relative_to(Path.cwd())
    return LoadedRun(
        folder=str(shown), record=record, files=files, targets=targets, upstream=upstream
    )


def _taken(folder: Path, name: str, source: SourceRecord | None) -> dict[str, bytes | None]:
    """The files under ``name`` that the record says were taken from elsewhere, as they were then.

    None where the record says that there was no such file.
    """
    found: dict[str, bytes | None] = {}
    for path, digest in source.files.items() if source else ():
        if unsafe_path(path):
            raise BadInput(f"{folder / 'run.json'}: {name}: {path!r} {unsafe_path(path)}")
        data = read_file(folder / name / path) if digest else None
        if data is not None and sha256(data) != digest:
            raise BadInput(
                f"{folder}: {path} under {name}/ is not what was run",
                "Restore the folder from its source.",
            )
        found[path] = data
    return found


def _check_arms(name: Path, record: RunRecord) -> None:
    """The planned arms are folder names, each once, and the first pair is among them."""
    names = [spec.name for spec in record.arms]
    for arm in names:
        if unsafe_path(arm) or "/" in arm:
            raise BadInput(f"{name}: arms: {arm!r} is not a folder name")
    if len(set(names)) < len(names) or not set(PAIR) <= set(record.arms):
        raise BadInput(f"{name}: arms: one stands there twice, or an arm of the pair is lacking")


def _load_target(
    folder: Path, target: TargetRecord, planned: tuple[ArmSpec, ...]
) -> TargetEvidence:
    if unsafe_path(target.slug) or "/" in target.slug:
        raise BadInput(f"{folder / 'run.json'}: targets: {target.slug!r} is not a folder name")
    arms = {}
    for spec in planned:
        place = folder / target.slug / spec.name
        arm = _load_arm(place) or _cut_short(place, spec, target)
        if arm is not None:
            arms[spec.name] = arm
    return TargetEvidence(target=target, arms=arms, planned=planned)


def _load_arm(folder: Path) -> ArmEvidence | None:
    name = folder / "arm.json"
    if not name.is_file():
        return None
    record = parse_json(read_file(name), ArmRecord, where=str(name))
    record = replace(record, name=record.name or folder.name)  # older evidence has just the two
    raw = {name: _raw(folder / name) for name in sorted({*record.files, *_RAW})}
    present = {name: data for name, data in raw.items() if data is not None}
    # What an engine that failed had not yet told the record of may lie there all the same.
    checked = record.files if record.status is ArmStatus.ENGINE_FAILED else raw
    changed = [
        name
        for name in checked
        if record.files.get(name) != (sha256(raw[name] or b"") if name in present else None)
    ]
    record = rederived(record, present, str(folder))
    results = arm_results(record, present)
    if changed:
        problem = f"{', '.join(changed)}: not as the arm left it"
        results = replace(results, problems=(*results.problems, problem))
    sources = read_sources(present.get("sources.json", b""))
    return ArmEvidence(record=record, results=results, sources=sources)


def _cut_short(folder: Path, spec: ArmSpec, target: TargetRecord) -> ArmEvidence | None:
    """What an arm left that ended without a record; None where it left nothing.

    No record means no digests: its files say how far it came, and no outcome is taken from them.
    """
    raw = {name: _raw(folder / name) for name in _ANSWERS}
    present = {name: data for name, data in raw.items() if data is not None}
    if not present:
        return None
    record = ArmRecord(
        arm=spec.arm,
        name=spec.name,
        hunks=spec.hunks,
        status=ArmStatus.INTERRUPTED,
        reason="interrupted before its end",
        engine=target.engine,
        image=ImageIdentity(name=target.image, digest="", note="interrupted before its end"),
        started="",
        duration=0.0,
    )
    record = rederived(record, present, str(folder))
    return ArmEvidence(record=record, results=ArmResults(nodes={}, complete=False))


def _raw(path: Path) -> bytes | None:
    if unsafe_path(path.name) or path.is_symlink() or not path.is_file():
        return None
    return path.read_bytes()
