"""The Docker engine: a fresh container an arm, from the same image ID, over the API alone.

Nothing of the host is mounted, so that a daemon on another host works like a local one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.device import Device
from harness.engines import dockerbuild, podman, registry
from harness.engines.access import container_access
from harness.engines.base import Environment, OnStep, Sandbox
from harness.engines.commands import plain
from harness.engines.container import ROOT, ContainerSandbox
from harness.engines.lease import renewed, watchdog
from harness.engines.link import Link
from harness.engines.processes import is_dead, owner
from harness.engines.scouting import LABEL
from harness.errors import EngineError, EngineUnavailable, ImageUnavailable
from harness.image import Image
from harness.parallel import leave
from harness.record import ImageIdentity
from harness.settings import Host

if TYPE_CHECKING:
    from docker import APIClient, DockerClient
    from docker.models.containers import Container

#: Made by .ci/make-base on a machine that reaches no registry of images.
OWN_BASE = "harness-base:bookworm"
GIB = 1 << 30
#: Seconds for the removal of a container from a host that is out of reach: it goes by itself.
_REMOVAL = 20.0
#: Seconds in which a daemon still makes a container whose maker waits for it no more.
_MAKING = 0.5
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

    def describe(self) -> str:
        """The daemon's kind, version and machine, for example ``Docker 28.1.1 on lab``.

        Raises:
            EngineError: it does not answer.
        """
        with self.link.once("asking for the daemon's version"):
            version, info = podman.version(self.client), self.client.info()
        program = f"Podman {version}" if version else f"Docker {info.get('ServerVersion', '')}"
        return plain(f"{program} on {info.get('Name', 'an unnamed machine')}")

    def has(self, image: Image) -> str:
        """The image ID on the daemon, or an empty string."""
        if image.container is None:
            return ""
        with self.link.once("looking for the image"):
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
        self.link.tell = on_step
        with self.link.once(f"preparing image {image.name}"):
            if version := podman.version(self.client):
                by = f", by Podman {version} through its Docker API"
                self.isolation = f"{DockerEngine.isolation}{by}"
            identity = self._identity(image, on_step)
            return self._environment(image, identity)

    @contextlib.contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Sandbox]:
        """Start a container; it is removed, with all in it, when the context ends.

        On another host it removes itself where the host is out of reach then (see lease.py).
        """
        self.link.check()
        client, container = self.client, None
        options = self.link.call("starting a container", lambda: self._options(label, environment))
        name = str(options["name"])
        try:
            container = self.link.call(
                "starting a container", lambda: _create(client, environment.handle, options)
            )
            self.link.call(
                f"starting {environment.python} in a container of the image", container.start
            )
            sandbox = ContainerSandbox(
                link=self.link, container=container, python=environment.python
            )
            with renewed(self.link, str(container.id), ROOT):
                sandbox.put({"work/.keep": b"", "site/.keep": b""})
                yield sandbox
        except BaseException as error:
            if container is None and not isinstance(error, Exception):
                time.sleep(_MAKING)
            with contextlib.suppress(EngineError):
                self._removed(client.api, name)
            raise  # what stopped the arm counts, not what its clean-up met
        self._removed(client.api, name)

    def reap(self) -> list[str]:
        """Remove the containers that dead runs of this machine left on the daemon."""
        client, doing = self.client, "looking for leftovers"
        removed = self.link.call(doing, lambda: dockerbuild.reap(client))
        listed = self.link.call(
            doing,
            lambda: client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True),
        )
        for container in listed:
            if is_dead(container.labels.get(LABEL, "")):
                self._removed(client.api, str(container.name))
                removed.append(f"container {container.name}")
        return removed

    def stop(self) -> None:
        """From another thread: end what runs in all open sandboxes; their owners remove them."""
        self.link.stop()

    def close(self) -> None:
        """Let go of the connection."""
        self.link.close()

    def _removed(self, api: APIClient, name: str) -> None:
        """Remove a container that may be there; note it where that fails."""
        try:
            self.link.call("removing a container", lambda: _remove(api, name), patience=_REMOVAL)
        except BaseException:
            leave(f"container {name} on {self.link.name}: {self._fate()}")
            raise

    def _fate(self) -> str:
        """What becomes of a container that could not be removed."""
        later = "the next run from this machine removes it"
        minutes = f"{self.link.lease / 60:.0f} minutes"
        gone = f"it ends and is removed by itself within {minutes}, or {later}"
        return gone if self.link.remote else f"it ends within {minutes}, and {later}"

    def _identity(self, image: Image, on_step: OnStep) -> ImageIdentity:
        assert image.container is not None
        if not image.container.dockerfile:
            return registry.ensure(
                self.client,
                image,
                allow_moved_tag=self._allow_moved_tag,
                where=self._where,
                on_step=on_step,
            )
        folder = Path(image.folder)
        found = dockerbuild.find(self.client, folder, image, self._base)
        return ImageIdentity(
            name=image.name,
            digest=found or self._built(folder, image, on_step),
            note="built here, image ID",
        )

    @property
    def _where(self) -> str:
        return f"host {self.host.name}" if self.host.docker else "this machine"

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
        attrs, api = self.client.images.get(identity.digest).attrs, self.client.api
        config = dict(v.partition("=")[::2] for v in attrs["Config"].get("Env") or ())
        access = container_access(
            self.client,
            remove=lambda container: self._removed(api, str(container.name)),
            image_id=identity.digest,
            python=image.container.python,
            platform=image.platform,
            wanted=self._device,
        )
        return Environment(
            identity=identity,
            handle=identity.digest,
            python=image.container.python,
            host=str(self._info.get("Name", "")),
            access=access,
            variables={"PYTHONPATH": config["PYTHONPATH"]} if config.get("PYTHONPATH") else {},
        )

    def _options(self, label: str, environment: Environment) -> dict[str, Any]:
        options: dict[str, Any] = {
            # The one program that every usable image has; not all have `sleep`.
            "entrypoint": [environment.python, "-c"],
            "command": [watchdog(ROOT, self.link.lease)],
            # Here, a container that ended is evidence until it is removed.
            "auto_remove": self.link.remote,
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

    @functools.cached_property
    def _info(self) -> dict[str, Any]:
        """Asked for once: Podman takes 0.3 s to answer."""
        return self.client.info()

    def _memory(self) -> int:
        total = int(self._info.get("MemTotal") or 16 * GIB)
        return min(64 * GIB, total * 9 // 10)


def _create(client: DockerClient, image: str, options: dict[str, Any]) -> Container:
    """Create a container, or find it where the answer to that was lost: its name is its own."""
    import docker.errors

    try:
        return client.containers.create(image, **options)
    except docker.errors.APIError as error:
        if error.status_code != 409:
            raise
        return client.containers.get(options["name"])


def _remove(api: APIClient, name: str) -> None:
    """Remove a container and wait until it is gone; the daemon may be at it already."""
    import docker.errors

    with contextlib.suppress(docker.errors.NotFound):
        try:
            api.remove_container(name, force=True, v=True)
        except docker.errors.APIError as error:
            if "already in progress" not in str(error):
                raise
            for _ in range(100):
                api.inspect_container(name)
                time.sleep(0.1)
