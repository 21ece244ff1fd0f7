"""One row: its arms on one target, one after the other, with the device to itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.engines.arms import ArmRun, failed_record
from harness.engines.base import Environment, Sandbox
from harness.errors import EngineError, EvidenceUnwritable
from harness.evidence import RunFolder
from harness.outcome import ArmStatus, Series
from harness.parallel import current
from harness.plan import ArmPlan, CaseFiles, Design, plan_arms, slug
from harness.progress import Progress
from harness.record import PAIR, ArmRecord, ImageIdentity, TargetRecord
from harness.targets import Target

#: After these an arm of the pair has no partner to be compared with, however often it is run.
_HOPELESS = (ArmStatus.PATCH_REJECTED, ArmStatus.ENGINE_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRun:
    """A row to be run; ``nodes`` are those that -k left."""

    files: CaseFiles
    nodes: tuple[str, ...]
    design: Design
    target: Target
    entry: TargetRecord
    folder: RunFolder
    cache: Path
    progress: Progress

    @property
    def device(self) -> str:
        """The device's name among those of all hosts; a target that cannot run has none."""
        environment = self.target.environment
        if environment is None:
            return f"none-{self.entry.slug}"
        return slug(f"{environment.host}-{environment.access.key}")

    def run(self) -> None:
        """Run the arms; an engine's fault is written down as such.

        Raises:
            EvidenceUnwritable: what was written before is kept.
        """
        plans = plan_arms(
            self.files,
            nodes=self.nodes,
            time_limit=self.files.case.time_limit,
            design=self.design,
        )
        if self.target.environment is None:
            for plan in plans:
                self._never_started(plan, self.target.failure)
            return
        with device_lock(self.cache, self.device, self.folder.path.name, self.progress):
            self._arms(plans, self.target.environment)
        self.progress.done(self.entry.slug)

    def _arms(self, plans: Sequence[ArmPlan], environment: Environment) -> None:
        """Run the arms in their order; where a pair can't be compared any more, no others."""
        hopeless = ""
        for number, plan in enumerate(plans, 1):
            spec = plan.spec
            if hopeless and spec != PAIR[1]:  # the first pair always tells its whole story
                self._never_started(plan, hopeless)
                continue
            name = f"{spec.name} ({number} of {len(plans)})" if len(plans) > 2 else spec.name
            self.progress.arm(self.files.case.id, self.entry.slug, name)
            record = self._arm(plan, environment)
            if spec.series is Series.PAIR and record.status in _HOPELESS:
                hopeless = hopeless or f"not started: the {spec.name} arm was {record.status}"

    def _arm(self, plan: ArmPlan, environment: Environment) -> ArmRecord:
        label = f"{self.folder.path.name}-{self.entry.slug}"[:100]
        arm = None
        try:
            with self.target.engine.open(environment, label=label) as sandbox:
                arm = self._arm_run(plan, environment, sandbox)
                record = arm.run()
        except EvidenceUnwritable:
            raise
        except EngineError as error:
            current().check()  # what was stopped has not failed
            reason = self.target.wanted.host.anonymous(str(error))
            if arm is None:
                return self._never_started(plan, reason)
            record = arm.failed(reason)
        self.folder.write_arm(self.entry, record)
        return record

    def _arm_run(self, plan: ArmPlan, environment: Environment, sandbox: Sandbox) -> ArmRun:
        def sink(name: str, data: bytes) -> None:
            self.folder.write(f"{self.entry.slug}/{plan.spec.name}/{name}", data)

        return ArmRun(
            plan=plan,
            sandbox=sandbox,
            environment=environment,
            engine=self.target.engine.name,
            sink=sink,
            on_event=partial(self.progress.event, self.entry.slug),
        )

    def _never_started(self, plan: ArmPlan, reason: str) -> ArmRecord:
        environment = self.target.environment
        none = ImageIdentity(name=self.entry.image, digest="")
        image = environment.identity if environment else none
        record = failed_record(plan, image, self.target.engine.name, reason)
        self.folder.write_arm(self.entry, record)
        return record


@contextlib.contextmanager
def device_lock(cache: Path, device: str, run: str, progress: Progress) -> Iterator[None]:
    """One row at a time on a device, of all runs that use this cache folder.

    ``run`` is what those who wait are told.

    Raises:
        EngineError: the cache folder cannot be written.
    """
    from filelock import FileLock, Timeout

    folder = cache / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"{folder}: cannot be made: {error.strerror}",
            "Set XDG_CACHE_HOME to a folder of yours.",
        ) from error
    lock = FileLock(folder / f"{device}.lock")
    holder = folder / f"{device}.txt"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.step(f"waiting for {_told(holder)} on this device ({device})")
        while not lock.is_locked:
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=1)
            progress.tick()
    try:
        with contextlib.suppress(OSError):  # a courtesy: the lock does not depend on it
            holder.write_text(f"run {run}, process {os.getpid()},")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _told(holder: Path) -> str:
    """Who has the device, as they wrote; it is a file that anybody could write."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return holder.read_text()[:200] or "another run"
    return "another run"
