"""Image, engine, host and device: choosing them for a case, and making them ready."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.case import Case
from harness.device import Device
from harness.engines import locking
from harness.engines.base import Engine, Environment
from harness.engines.devices import devices
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import BadInput, EngineError, EngineUnavailable
from harness.image import Image, from_interpreter
from harness.parallel import Stop, side_by_side
from harness.progress import Progress, Stoppable
from harness.settings import Host
from harness.store import load_image


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user chose; what is left open follows from the case and from what is there.

    ``default_host`` says that no host was named, so that ``hosts`` is the daemon here.
    """

    image: str | None = None
    engine: str = "auto"
    python: Path | None = None
    hosts: tuple[Host, ...] = (Host(),)
    default_host: bool = True
    devices: tuple[Device, ...] = ()
    allow_moved_tag: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One row that is to be made: on which host and device, in which image."""

    image: Image
    host: Host
    device: Device | None

    @property
    def key(self) -> str:
        """What tells it apart from others."""
        return f"{self.image.name} on {self.host.name}, device {self.device or 'first'}"

    @property
    def claimed(self) -> str:
        """The platform that is expected: as the host's owner says, else as the image says."""
        return self.host.platform or self.image.platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A row that can be made, since its engine has prepared the image; else ``failure`` says why.

    ``environment`` is None where there is a failure.
    """

    wanted: Wanted
    engine: Engine
    environment: Environment | None
    failure: str = ""


def cache_folder() -> Path:
    """Where environments, locks and arms of this user live."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ab-harness"))


def engines(
    *,
    host: Host | None = None,
    device: Device | None = None,
    python: Path | None = None,
    base: str | None = None,
    allow_moved_tag: bool = False,
) -> dict[str, Engine]:
    """Every engine by name."""
    return {
        "docker": DockerEngine(
            host=host, device=device, base=base, allow_moved_tag=allow_moved_tag
        ),
        "local": LocalEngine(cache=cache_folder(), python=python, device=device),
    }


@contextlib.contextmanager
def opened(*, base: str | None = None) -> Iterator[dict[str, Engine]]:
    """Every engine of this machine by name; their connections are closed at the end."""
    available = engines(base=base)
    try:
        yield available
    finally:
        for engine in available.values():
            engine.close()


def wanted(case: Case, choice: Choice, root: Path) -> list[Wanted]:
    """The rows to be made of a case: each host with each device.

    Raises:
        BadInput: the choices contradict each other, an image is not known, or there is none.
    """
    named = [host.name for host in choice.hosts if host.docker]
    if choice.default_host and (choice.python is not None or choice.engine == "local"):
        named = []  # what harness.toml says of the daemon here is of no use to the local engine
    if choice.python is not None and choice.engine == "docker":
        raise BadInput("--python is for the local engine", "Leave --engine docker out.")
    if named and (choice.python is not None or choice.engine == "local"):
        raise BadInput(
            f"--host {named[0]} is a Docker host: the local engine runs on this machine only",
            "Leave --host out, or --python and --engine local.",
        )
    if len(set(choice.devices)) < len(choice.devices):
        raise BadInput("--device: the same device twice", "Give each once.")
    return [
        Wanted(image=choose_image(case, choice, host, root), host=host, device=device)
        for host in choice.hosts
        for device in choice.devices or (host.device,)
    ]


def choose_image(case: Case, choice: Choice, host: Host, root: Path) -> Image:
    """The image that a case is run in: the interpreter's, the named one, the host's, the case's.

    Raises:
        BadInput: the image is not known, or the case has no default.
    """
    if choice.python is not None:
        return from_interpreter(str(choice.python))
    name = choice.image or host.image or case.default_image
    if not name:
        raise BadInput(
            f"case {case.id} has no default image: 'images' in its case.toml has patterns only",
            "Name one: --image NAME_OR_REF, or --python PATH.",
        )
    return load_image(name, root)


@contextlib.contextmanager
def prepared(
    rows: Sequence[Wanted], choice: Choice, *, progress: Progress, stop: Stop
) -> Iterator[dict[str, Target]]:
    """Make every row's image ready, side by side across hosts; yield the targets by their keys.

    A single row that cannot be made ready raises; of several, the others go on and its target
    says why. Connections are closed at the end.

    Raises:
        BadInput: the choices cannot be right on any machine.
        EngineError: no engine can run the only row's image here, with reason and remedy.
    """
    unique = {row.key: row for row in rows}
    told = Stoppable(progress, stop)
    found: dict[str, Target] = {}
    opened: list[Engine] = []

    def prepare_all(group: list[Wanted]) -> None:
        for row in group:
            stop.check()
            available = engines(
                host=row.host,
                device=row.device,
                python=choice.python,
                allow_moved_tag=choice.allow_moved_tag,
            )
            opened.extend(available.values())
            try:
                found[row.key] = prepare(row, choice, available, told)
            except EngineError as error:
                if len(unique) == 1:
                    raise
                told.step(f"cannot be made ready: {row.key}: {error.problem}")
                engine = available["local" if choice.engine == "local" else "docker"]
                failure = row.host.anonymous(str(error))
                found[row.key] = Target(
                    wanted=row, engine=engine, environment=None, failure=failure
                )

    by_host: dict[str, list[Wanted]] = {}
    for row in unique.values():
        by_host.setdefault(row.host.name, []).append(row)
    jobs: list[Callable[[], None]] = [partial(prepare_all, group) for group in by_host.values()]
    try:
        side_by_side(jobs, stop=stop, on_stop=lambda: stop_all(opened))
        yield found
    finally:
        for engine in opened:
            engine.close()


def stop_all(engines: Sequence[Engine]) -> None:
    """End what runs in any sandbox of these engines."""
    for engine in engines:
        engine.stop()


def prepare(
    row: Wanted, choice: Choice, available: dict[str, Engine], progress: Progress
) -> Target:
    """Choose an engine, remove what dead runs left, lock and make the image ready.

    Raises:
        BadInput: an image from wheels that there cannot be.
        EngineError: no engine can run the image here, with reason and remedy.
    """
    local = available["local"]
    row = replace(row, image=locking.ensure(row.image, cache_folder(), progress.step))
    if choice.python is not None:
        progress.step(f"engine local: --python was given; {local.isolation}")
        return _target(local, row, progress)
    kind = "docker" if row.host.docker and choice.engine != "local" else choice.engine
    if kind == "auto":
        return _automatic(available, row, progress)
    if reason := available[kind].unavailable():
        problem, _, remedy = reason.partition("\n")
        raise EngineUnavailable(problem, remedy.strip())
    return _target(available[kind], row, progress)


def _automatic(available: dict[str, Engine], row: Wanted, progress: Progress) -> Target:
    docker, local, image = available["docker"], available["local"], row.image
    why_not = docker.unavailable().partition("\n")[0]
    if image.container is None:
        why_not = why_not or f"{image.name} is no container image"
    if not why_not:
        progress.step(f"engine docker: a Docker daemon answers; {docker.isolation}")
        try:
            return _target(docker, row, progress)
        except EngineError as error:
            if image.lock is None:
                raise
            why_not = error.problem
    if image.lock is None:
        raise EngineUnavailable(
            f"image {image.name} needs a container engine: {why_not}{_no_device()}",
            "Start Docker on a host that has the image and its device; on a GPU host without "
            "Docker use --python PATH; without a GPU: harness ab --image vllm-cpu-0.27.0.",
        )
    progress.step(f"engine local: {why_not}; {local.isolation}")
    return _target(local, row, progress)


def _no_device() -> str:
    """A container image of this field mostly wants a GPU: say at once where there is none."""
    if any(device.present for device in devices() if device.family != "cpu"):
        return ""
    return "; and this machine shows no GPU (harness doctor says what was looked for)"


def _target(engine: Engine, row: Wanted, progress: Progress) -> Target:
    for removed in engine.reap():
        progress.step(f"removed what an earlier run left: {removed}")
    environment: Environment = engine.prepare(row.image, on_step=progress.step)
    return Target(wanted=row, engine=engine, environment=environment)
