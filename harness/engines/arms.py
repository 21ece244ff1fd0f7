"""The recipe of one arm, written once, for every engine.

Probe, put the tests, stage the package and the patch, run pytest with the recorder, fetch
the raw files, hash again. It gathers evidence and never judges it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from harness.engines.base import Environment, ExecResult, Sandbox
from harness.engines.plugins import bundle
from harness.engines.toolkit import guest, toolkit
from harness.engines.trees import cache_folder
from harness.errors import EngineError, HarnessError
from harness.outcome import ArmStatus
from harness.plan import FIXED_ENV, ArmPlan, sha256
from harness.record import ArmRecord, ImageIdentity, Probe, Seal, Staging
from harness.schema import loads, parse_json

MIB = 1 << 20
LOG_LIMIT = 16 * MIB
FILE_LIMIT = 256 * MIB
ANSWER_LIMIT = 4 * MIB
SOURCES_LIMIT = 32 * MIB
STEP_LIMIT = 300.0
_PROGRESS = "::harness::"
T = TypeVar("T")

#: Called with raw evidence (file name, bytes), which must be safe on disk when it returns.
Sink = Callable[[str, bytes], None]
#: Called with (step, test) for the live display.
OnEvent = Callable[[str, str], None]


@dataclass(slots=True)
class Log:
    """The arm's output, capped: its beginning is kept and what was cut is counted."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    cut: int = 0

    def add(self, line: str) -> None:
        """Keep a line while there is room."""
        data = line.encode("utf-8", "replace") + b"\n"
        if self.size + len(data) > LOG_LIMIT:
            self.cut += len(data)
            return
        self.size += len(data)
        self.parts.append(data)

    def bytes(self) -> bytes:
        """Everything that was kept, and how much was not."""
        tail = f"[{self.cut} more bytes were cut]\n".encode() if self.cut else b""
        return b"".join(self.parts) + tail


class _Stop(Exception):
    """Ends the recipe early with a status."""

    def __init__(self, status: ArmStatus, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.exit_code = status, reason, exit_code


@dataclass(slots=True)
class ArmRun:
    """One arm under way: what it has found so far."""

    plan: ArmPlan
    sandbox: Sandbox
    environment: Environment
    engine: str
    sink: Sink
    on_event: OnEvent
    log: Log = field(default_factory=Log)
    files: dict[str, str] = field(default_factory=dict)
    probe: Probe | None = None
    staging: Staging | None = None
    seal: Seal | None = None
    command: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    tests_sha256: str = ""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)

    def run(self) -> ArmRecord:
        """Do all steps and return the record; raw files go to the sink as they are fetched.

        Raises:
            EngineError: the engine failed; what was fetched by then has gone to the sink.
        """
        try:
            status, reason, exit_code = self._steps()
        except _Stop as stop:
            status, reason, exit_code = stop.status, stop.reason, stop.exit_code
        except BaseException:
            self._rescue()
            raise
        self._keep("output.log", self.log.bytes())
        return self._record(status, reason, exit_code)

    def failed(self, reason: str) -> ArmRecord:
        """The record of this arm where its engine failed: all that was known by then."""
        return self._record(ArmStatus.ENGINE_FAILED, reason, None)

    def _record(self, status: ArmStatus, reason: str, exit_code: int | None) -> ArmRecord:
        return ArmRecord(
            arm=self.plan.spec.arm,
            name=self.plan.spec.name,
            hunks=self.plan.spec.hunks,
            status=status,
            reason=reason,
            engine=self.engine,
            image=self._image(),
            started=self.started.isoformat(timespec="seconds"),
            duration=round(time.monotonic() - self.clock, 2),
            root=self.sandbox.root,
            command=self.command,
            exit_code=exit_code,
            environment_sha256=self._environment_digest(),
            tests_sha256=self.tests_sha256,
            access=self.environment.access.words,
            plugins=self.plugins,
            notes=self.sandbox.notes(),
            files=self.files,
            probe=self.probe,
            staging=self.staging,
            seal=self.seal,
        )

    def _steps(self) -> tuple[ArmStatus, str, int | None]:
        self._put()
        self.on_event("probing", "")
        self.probe = self._answer("probe.py", "probe.json", Probe)
        self._put_toolkit(self.probe)
        self.on_event("staging", "")
        self.staging = self._answer("stage.py", "stage.json", Staging)
        manifest = self._get("manifest.json", FILE_LIMIT) or b"{}"
        self.tests_sha256 = _tests_digest(manifest)
        if self.staging.state == "rejected":
            raise _Stop(ArmStatus.PATCH_REJECTED, self.staging.message)
        self._request(self.staging.package_path)
        result = self._pytest()
        self.on_event("sealing", "")
        if not result.killed:
            hunks = self.plan.payload()["production.json"]
            self.sandbox.put({"manifest.json": manifest, "production.json": hunks})
            self._put_guest()
            self._request(self.staging.package_path)
            self.seal = self._answer("seal.py", "seal.json", Seal, isolated=True)
            self._fetch_sources()
        return _ended(result, self.plan.time_limit)

    def _put_toolkit(self, probe: Probe) -> None:
        """Bring along pytest, and the case's plugins, where the image lacks them; its own win."""
        wanted = self.plan.files.case.plugins
        own = {plugin: probe.plugins.get(plugin.partition("==")[0], "") for plugin in wanted}
        lacking = [plugin for plugin, version in own.items() if not version]
        self.plugins = tuple(
            f"{plugin.partition('==')[0]} {version}, the image's own"
            + ("" if plugin.endswith(f"=={version}") else f" (the case names {plugin})")
            for plugin, version in own.items()
            if version
        )
        pytest = {} if probe.pytest else toolkit()
        if lacking:
            found = bundle(lacking, python=probe.python, pytest=probe.pytest, cache=cache_folder())
            self.sandbox.put({f"plugins/{path}": data for path, data in found.files.items()})
            self.plugins += found.wheels
            pytest = {} if found.has_pytest else pytest
        self.sandbox.put({f"toolkit/{path}": data for path, data in pytest.items()})

    def _put(self) -> None:
        self._put_guest()
        self.sandbox.put(self.plan.payload())
        self._request("")

    def _put_guest(self) -> None:
        self.sandbox.put({f"guest/{name}": data for name, data in guest().items()})

    def _request(self, package_path: str) -> None:
        request = self.plan.request(
            self.sandbox.root, disposable=self.sandbox.disposable, package_path=package_path
        )
        self.sandbox.put({"request.json": request})

    def _pytest(self) -> ExecResult:
        root = self.sandbox.root
        self.on_event("testing", "")
        argv = (self.sandbox.python, f"{root}/guest/run.py", f"{root}/request.json")
        self.command = (
            "pytest",
            *(arg.replace(root, "$ARM") for arg in self.plan.pytest_args(root)),
        )
        try:
            return self._exec(argv, self.plan.time_limit)
        finally:
            for name in ("journal.jsonl", "junit.xml"):
                data = self._get(name, FILE_LIMIT)
                if data is not None:
                    self._keep(name, data)

    def _exec(self, argv: tuple[str, ...], time_limit: float) -> ExecResult:
        return self.sandbox.exec(
            argv,
            env=self._environment(),
            cwd=f"{self.sandbox.root}/work",
            time_limit=time_limit,
            on_line=self._line,
        )

    def _environment(self) -> dict[str, str]:
        root = self.sandbox.root
        paths = [f"{root}/site", self.environment.variables.get("PYTHONPATH", "")]
        return {
            **FIXED_ENV,
            **self.environment.variables,
            **self.plan.files.case.env,
            "PYTHONPATH": ":".join(path for path in paths if path),
        }

    def _image(self) -> ImageIdentity:
        """An interpreter that was given has no name: what it has of the package is its name."""
        identity = self.environment.identity
        if identity.name:
            return identity
        version = self.probe.package_version if self.probe else ""
        return replace(identity, name=version or "an interpreter")

    def _environment_digest(self) -> str:
        """Digest of the variables that the harness sets, by name and value."""
        return sha256(json.dumps(sorted(self._environment().items())).encode())

    def _line(self, line: str) -> None:
        self.log.add(line)
        if line.startswith(_PROGRESS):
            test = loads(line[len(_PROGRESS) :])
            if isinstance(test, str):
                self.on_event("testing", test)

    def _answer(self, program: str, name: str, kind: type[T], *, isolated: bool = False) -> T:
        """Run a guest program and read its answer, which is not trusted to be well-formed."""
        root = self.sandbox.root
        flags = ("-I", "-S") if isolated else ()
        argv = (self.sandbox.python, *flags, f"{root}/guest/{program}")
        result = self._exec((*argv, f"{root}/request.json", f"{root}/{name}"), STEP_LIMIT)
        data = self._get(name, ANSWER_LIMIT)
        problem = ""
        if data is not None:
            self._keep(name, data)
            problem = _own_words(data)
        if result.exit_code != 0 or data is None or problem:
            last = self.log.bytes().decode("utf-8", "replace").strip().splitlines()[-1:]
            how = f"exit code {result.exit_code}" if not result.timed_out else "time limit reached"
            raise _Stop(
                ArmStatus.ENGINE_FAILED, problem or f"{program} failed ({how}): {' '.join(last)}"
            )
        try:
            return parse_json(data, kind, where=name)
        except HarnessError as error:
            raise _Stop(ArmStatus.ENGINE_FAILED, f"{program} gave a bad answer: {error}") from None

    def _fetch_sources(self) -> None:
        """Keep the package's files that the seal found to be of interest, where it was asked."""
        if self.plan.sources and (data := self._get("sources.json", SOURCES_LIMIT)) is not None:
            self._keep("sources.json", data)

    def _get(self, name: str, limit: int) -> bytes | None:
        return self.sandbox.get(name, limit=limit)

    def _keep(self, name: str, data: bytes) -> None:
        self.sink(name, data)
        self.files[name] = hashlib.sha256(data).hexdigest()

    def _rescue(self) -> None:
        """Keep what can still be had of an arm that is being given up."""
        try:
            self._keep("output.log", self.log.bytes())
            for name in ("journal.jsonl", "junit.xml"):
                if name not in self.files and (data := self._get(name, FILE_LIMIT)) is not None:
                    self._keep(name, data)
        except (EngineError, OSError):
            pass  # the first error is the one to report


def failed_record(plan: ArmPlan, image: ImageIdentity, engine: str, reason: str) -> ArmRecord:
    """The record of an arm that the engine could not even start: it has no time of a start."""
    return ArmRecord(
        arm=plan.spec.arm,
        name=plan.spec.name,
        hunks=plan.spec.hunks,
        status=ArmStatus.ENGINE_FAILED,
        reason=reason,
        engine=engine,
        image=image,
        started="",
        duration=0.0,
    )


def _tests_digest(manifest: bytes) -> str:
    """One digest of the test files as the guest saw them; empty where it says nothing usable."""
    try:
        work = loads(manifest)["work"]
        digests = {str(path): str(entry[0]) for path, entry in work.items()}
    except (KeyError, TypeError, AttributeError, IndexError):
        return ""
    return sha256(json.dumps(sorted(digests.items())).encode())


def _own_words(data: bytes) -> str:
    """The ``error`` of a guest program's answer, if that is what it is."""
    answer = loads(data)
    return str(answer["error"]) if isinstance(answer, dict) and "error" in answer else ""


def _ended(result: ExecResult, limit: float) -> tuple[ArmStatus, str, int | None]:
    if result.timed_out:
        return ArmStatus.TIMED_OUT, f"stopped at the time limit of {limit:g} s", None
    if result.killed:
        return ArmStatus.KILLED, result.killed, result.exit_code
    if result.signal:
        return ArmStatus.RAN, f"pytest ended by signal {result.signal}", -result.signal
    return ArmStatus.RAN, "", result.exit_code
