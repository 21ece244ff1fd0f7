"""Container images made from a Dockerfile and a lock, on any daemon and without its network.

The Dockerfile has two arguments: ``BASE``, the image to begin with, and ``WARM``, the modules to
import once. All that it installs is in the context, under ``wheels/``: nothing is mounted and the
build has no network, so the daemon may be on another machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines import pulling
from harness.engines.base import OnStep
from harness.engines.builder import BUILD_LABEL, Build, daemon_errors, remove_layers
from harness.engines.commands import plain
from harness.engines.packages import download_wheels
from harness.engines.processes import is_dead, owner
from harness.errors import BadInput, EngineError, ImageUnavailable
from harness.image import Container, Image, Lock, parse_reference

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "ab-harness.image"
BASE_LABEL = "ab-harness.base-name"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_SCRATCH = "harness-context-"


def tag(image_folder: Path, image: Image, base: str | None = None) -> str:
    """The name that the image has on a daemon: it changes with everything it is made of.

    Raises:
        BadInput: the Dockerfile or the lock cannot be read.
    """
    return _recipe(image_folder, image, base).tag


def find(client: DockerClient, image_folder: Path, image: Image, base: str | None = None) -> str:
    """The ID of the built image on the daemon, or an empty string.

    Without ``base``, one that was made from any base will do: the newest.

    Raises:
        BadInput: the Dockerfile or the lock cannot be read.
        EngineError: the daemon does not answer.
    """
    import docker.errors

    name = tag(image_folder, image, base)
    with _faults(f"looking for {name}"):
        try:
            return str(client.images.get(name).id)
        except docker.errors.ImageNotFound:
            if base is not None:
                return ""
        made = client.images.list(filters={"label": f"{LABEL}={image.name}"})
        for candidate in sorted(made, key=lambda found: str(found.attrs["Created"]), reverse=True):
            its_base = candidate.labels.get(BASE_LABEL, "")
            if its_base and _has(candidate.tags, tag(image_folder, image, its_base)):
                return str(candidate.id)
    return ""


def _has(tags: Sequence[str], name: str) -> bool:
    """Whether an image has the name, which Podman writes with a registry before it."""
    return any(tag == name or tag.endswith(f"/{name}") for tag in tags)


def build(
    client: DockerClient,
    image_folder: Path,
    image: Image,
    base: str | None,
    on_step: OnStep,
    *,
    target: str = "",
) -> str:
    """Build the image and return its ID; on failure and on Ctrl-C nothing of it stays.

    ``target`` is a stage of the Dockerfile to stop at, or empty for the whole.

    Raises:
        BadInput: the Dockerfile or the lock cannot be read.
        ImageUnavailable: the base is neither on the daemon nor to be pulled.
        EngineError: a wheel cannot be had, or the build fails (with its last 20 lines).
    """
    recipe = _recipe(image_folder, image, base)
    name = recipe.tag
    with _faults(f"building {name}"):
        base_id = _base(client, image.name, recipe.base, on_step)
        machine = str(client.version().get("Arch", "amd64"))
        with tempfile.TemporaryDirectory(prefix=_SCRATCH) as scratch:
            Path(scratch, "owner").write_text(owner())
            context = Path(scratch, "context")
            mark = f"{owner()}#{os.urandom(4).hex()}"
            marked = _marked(recipe.dockerfile, mark, target)
            _write_context(context, recipe, marked, _MACHINES.get(machine, machine), on_step)
            labels = {
                LABEL: image.name,
                BASE_LABEL: recipe.base,
                "ab-harness.lock": hashlib.sha256(recipe.requirements).hexdigest(),
                "ab-harness.base": base_id,
                "ab-harness.recipe": recipe.digest,
            }
            arguments = {"BASE": recipe.base, "WARM": " ".join(recipe.lock.warm)}
            options = {"buildargs": json.dumps(arguments), "labels": json.dumps(labels)}
            options |= {"target": target} if target else {}
            job = Build(client=client, name=name, mark=mark, on_step=on_step)
            return job.run(context, options)


def reap(client: DockerClient) -> list[str]:
    """Remove what dead builds of this machine left: layers, wheels; return it in words.

    Raises:
        EngineError: the daemon does not answer.
    """
    removed = []
    with _faults("looking for leftovers"):
        listed = client.api.images(all=True, filters={"label": BUILD_LABEL})
        marks = {str((image.get("Labels") or {}).get(BUILD_LABEL, "")) for image in listed}
        for mark in sorted(filter(None, marks)):
            if is_dead(mark.partition("#")[0]):
                number = remove_layers(client, mark, containers=False)
                removed += [f"{number} layers of an unfinished image"] if number else []
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            if is_dead((folder / "owner").read_text()):
                shutil.rmtree(folder)
                removed.append(f"wheels in {folder}")
    return removed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """All that goes into an image."""

    dockerfile: bytes
    requirements: bytes
    name: str
    lock: Lock
    base: str
    digest: str

    @property
    def tag(self) -> str:
        parts = re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", self.name.lower())
        return f"harness/{'-'.join(parts) or 'image'}:{self.digest[:12]}"


def _recipe(folder: Path, image: Image, base: str | None) -> _Recipe:
    container, lock = image.container or Container(), image.lock
    if not container.dockerfile or lock is None:
        raise BadInput(f"image {image.name} is not built: it has no dockerfile, or no [lock]")
    chosen = base or container.base
    if not chosen:
        raise BadInput(
            f"image {image.name} has no base", "Give --base IMAGE, or container.base in image.toml."
        )
    read = {}
    for name in (container.dockerfile, lock.requirements, "image.toml"):
        try:
            read[name] = (folder / name).read_bytes()
        except OSError as error:
            raise BadInput(f"{folder / name}: cannot be read: {error.strerror}") from error
    parts = [hashlib.sha256(data).hexdigest() for data in read.values()]
    return _Recipe(
        dockerfile=read[container.dockerfile],
        requirements=read[lock.requirements],
        name=image.name,
        lock=lock,
        base=chosen,
        digest=hashlib.sha256(json.dumps([*parts, chosen]).encode()).hexdigest(),
    )


def _base(client: DockerClient, name: str, base: str, on_step: OnStep) -> str:
    """The ID of the base image, pulled where the daemon has not got it."""
    import docker.errors

    with contextlib.suppress(docker.errors.ImageNotFound):
        return str(client.images.get(base).id)
    try:
        pulling.pull(client, parse_reference(base), on_step)
        return str(client.images.get(base).id)
    except pulling.Refused as error:
        raise ImageUnavailable(
            f"the base image {base} of {name} is not on the daemon and cannot be pulled: "
            f"{error.refusal}",
            f"Name one that is there: harness image build {name} --base IMAGE "
            "(.ci/make-base makes one without a registry).",
        ) from error


def _marked(dockerfile: bytes, mark: str, target: str) -> bytes:
    """The Dockerfile with the mark on all that is built, but for the image that is asked for.

    In the file, because Podman puts labels of a request on every layer, the last label winning:
    the image, and the arms' containers, are no longer of a build.
    """
    stages = re.split(rb"(?im)^(?=FROM\s)", dockerfile)
    named = re.compile(rb"(?i)FROM\s.*\sAS\s+%b\s*$" % re.escape(target.encode()), re.MULTILINE)
    last = next((n for n, s in enumerate(stages) if target and named.match(s)), len(stages) - 1)
    label = BUILD_LABEL.encode()
    stages = [
        re.sub(rb"(?im)\AFROM\s.*$", rb'\g<0>\nLABEL %b="%b"' % (label, mark.encode()), stage)
        for stage in stages
    ]
    stages[last] = b'%b\nLABEL %b=""\n' % (stages[last], label)
    return b"".join(stages)


def _write_context(
    folder: Path, recipe: _Recipe, dockerfile: bytes, machine: str, on_step: OnStep
) -> None:
    folder.mkdir()
    (folder / "Dockerfile").write_bytes(dockerfile)
    lock = folder / Path(recipe.lock.requirements)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_bytes(recipe.requirements)
    began = time.monotonic()
    backend = recipe.lock.torch_backend
    download_wheels(lock, recipe.lock.python, folder / "wheels", backend, on_step, machine=machine)
    on_step(f"wheels fetched in {time.monotonic() - began:.0f} s")


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except daemon_errors() as error:
        raise EngineError(
            f"{what}: the Docker daemon failed: {plain(str(error))}",
            "Look at the daemon (docker info) and its disk (docker system df), then try again.",
        ) from error
