"""The Docker engine: a fresh container an arm, from the same image ID, over the API alone.

Nothing of the host is mounted, so that a daemon on another host works like a local one.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.device import Device
from harness.engines import dockerbuild, registry
from harness.engines.access import container_access
from harness.engines.base import Environment, OnStep, Sandbox
from harness.engines.container import ContainerSandbox, faults
from harness.engines.link import Link
from harness.engines.processes import is_dead, owner
from harness.errors import EngineError, EngineUnavailable, ImageUnavailable
from harness.image import Image
from harness.record import ImageIdentity
from harness.settings import Host

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

    def __init__(
        self,
        *,
        host: Host | None = None,
        device: Device | None = None,
        allow_moved_tag: bool = False,
        base: str | None = None,
    ) -> None:
        self.host = host or Host()
        self._device = device or self.host.device
        self._allow_moved_tag = allow_moved_tag
        self._base = base
        self.link = Link(self.host)

    @property
    def client(self) -> DockerClient:
        """The connection, made on first use.

        Raises:
            EngineUnavailable: there is no daemon, with the remedy.
        """
        return self.link.client

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
            if image.container.dockerfile:
                return dockerbuild.find(self.client, Path(image.folder), image, self._base)
            return registry.find(self.client, image)

    def prepare(self, image: Image, *, on_step: OnStep) -> Environment:
        """Find, build or pull the image, and choose the device.

        Raises:
            ImageUnavailable: it is not here and cannot be had, with the reason and the remedy.
            EngineUnavailable: the daemon cannot give the device.
        """
        if image.container is None:
            raise ImageUnavailable(
                f"image {image.name} has no [container]: Docker cannot run it",
                "Use --engine local, or add [container] to its image.toml.",
            )
        with faults(f"preparing image {image.name}"):
            identity = self._identity(image, on_step)
            return self._environment(image, identity)

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

    def stop(self) -> None:
        """From another thread: end all open sandboxes."""

    def close(self) -> None:
        """Let go of the connection."""
        self.link.close()

    def _identity(self, image: Image, on_step: OnStep) -> ImageIdentity:
        assert image.container is not None
        if not image.container.dockerfile:
            return registry.ensure(
                self.client, image, allow_moved_tag=self._allow_moved_tag, on_step=on_step
            )
        folder = Path(image.folder)
        found = dockerbuild.find(self.client, folder, image, self._base)
        return ImageIdentity(
            name=image.name,
            digest=found or self._built(folder, image, on_step),
            note="built here, image ID",
        )

    def _built(self, folder: Path, image: Image, on_step: OnStep) -> str:
        assert image.container is not None
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

    def _environment(self, image: Image, identity: ImageIdentity) -> Environment:
        assert image.container is not None
        attrs = self.client.images.get(identity.digest).attrs
        config = dict(v.partition("=")[::2] for v in attrs["Config"].get("Env") or ())
        info = self.client.info()
        access = container_access(
            self.client,
            image_id=identity.digest,
            python=image.container.python,
            platform=image.platform,
            wanted=self._device,
        )
        return Environment(
            identity=identity,
            handle=identity.digest,
            python=image.container.python,
            host=str(info.get("Name", "")),
            machine_id=str(info.get("ID", "")),
            access=access,
            variables={"PYTHONPATH": config["PYTHONPATH"]} if config.get("PYTHONPATH") else {},
        )

    def _options(self, label: str, environment: Environment) -> dict[str, Any]:
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
        for key, value in environment.access.options.items():
            known = options.get(key)
            options[key] = [*known, *value] if isinstance(known, list) else value
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
