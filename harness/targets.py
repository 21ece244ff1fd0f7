"""Image plus engine: choosing the engine and making the image ready."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.case import Case
from harness.engines.base import Engine, Environment
from harness.engines.devices import devices
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import BadInput, EngineError, EngineUnavailable
from harness.image import Image, from_interpreter
from harness.store import load_image


class Progress(Protocol):
    """What a live display is told."""

    def step(self, text: str) -> None:
        """Something is being prepared."""

    def arm(self, case_id: str, target: str, arm: str) -> None:
        """An arm begins."""

    def event(self, step: str, test: str) -> None:
        """The arm that runs does another step, or another test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One row to be made: an image that the engine has prepared."""

    image: Image
    engine: Engine
    environment: Environment


def cache_folder() -> Path:
    """Where environments, locks and arms of this user live."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ab-harness"))


def engines(*, python: Path | None = None, base: str | None = None) -> dict[str, Engine]:
    """Every engine by name."""
    return {
        "docker": DockerEngine(base=base),
        "local": LocalEngine(cache=cache_folder(), python=python),
    }


def choose_image(case: Case, named: str | None, root: Path, python: Path | None) -> Image:
    """The image that a case is run in: the interpreter's, the named one, or the case's default.

    Raises:
        BadInput: the image is not known, or the case has no default.
    """
    if python is not None:
        return from_interpreter(str(python))
    name = named or case.default_image
    if not name:
        raise BadInput(
            f"case {case.id} has no default image: 'images' in its case.toml has patterns only",
            "Name one: --image NAME_OR_REF, or --python PATH.",
        )
    return load_image(name, root)


def prepare(image: Image, kind: str, *, python: Path | None, progress: Progress) -> Target:
    """Choose an engine, remove what dead runs left, make the image ready.

    Raises:
        EngineError: no engine can run the image here, with reason and remedy.
    """
    available = engines(python=python)
    if python is not None:
        if kind == "docker":
            raise BadInput("--python is for the local engine", "Leave --engine docker out.")
        progress.step(f"engine local: --python was given; {available['local'].isolation}")
        return _target(available["local"], image, progress)
    if kind != "auto":
        engine = available[kind]
        if reason := engine.unavailable():
            problem, _, remedy = reason.partition("\n")
            raise EngineUnavailable(problem, remedy.strip())
        return _target(engine, image, progress)
    return _automatic(available, image, progress)


def _automatic(available: dict[str, Engine], image: Image, progress: Progress) -> Target:
    docker, local = available["docker"], available["local"]
    why_not = docker.unavailable().partition("\n")[0]
    if image.container is None:
        why_not = why_not or f"{image.name} is no container image"
    if not why_not:
        progress.step(f"engine docker: a Docker daemon answers; {docker.isolation}")
        try:
            return _target(docker, image, progress)
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
    return _target(local, image, progress)


def _no_device() -> str:
    """A container image of this field mostly wants a GPU: say at once where there is none."""
    if any(device.present for device in devices() if device.family != "cpu"):
        return ""
    return "; and this machine shows no GPU (harness doctor says what was looked for)"


def _target(engine: Engine, image: Image, progress: Progress) -> Target:
    for removed in engine.reap():
        progress.step(f"removed what an earlier run left: {removed}")
    environment: Environment = engine.prepare(image, on_step=progress.step)
    return Target(image=image, engine=engine, environment=environment)
