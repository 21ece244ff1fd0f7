"""What of a host's devices a container is given: one device, and only what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.device import Device
from harness.engines.base import Access

if TYPE_CHECKING:
    from docker import DockerClient


def container_access(
    client: DockerClient, *, image_id: str, python: str, platform: str, wanted: Device | None
) -> Access:
    """Choose the device for an image and say how a container gets it.

    ``platform`` is what the image is meant for (may be empty), ``wanted`` what the user chose.
    ``options`` of the answer are arguments of ``containers.create``.

    Raises:
        EngineUnavailable: the daemon cannot give such a device, with the remedy.
    """
    import docker.types

    if platform != "cpu" and "nvidia" in client.info().get("Runtimes", {}):
        request = docker.types.DeviceRequest(device_ids=["0"], capabilities=[["gpu"]])
        return Access(family="cuda", key="cuda-0", options={"device_requests": [request]})
    return Access(family="cpu", key="cpu")


def local_access(wanted: Device | None) -> Access:
    """The same for a process on this machine: ``options`` are environment variables.

    Raises:
        BadInput: a device that can only be given to a container.
    """
    return Access(family="", key="any")
