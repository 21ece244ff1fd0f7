"""Images of a registry: found on the daemon, pulled, and held to their pinned digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.engines import pulling
from harness.engines.base import OnStep
from harness.engines.transport import faults
from harness.errors import EngineUnavailable, ImageUnavailable
from harness.image import Container, Image, Reference, parse_reference
from harness.record import ImageIdentity

if TYPE_CHECKING:
    from docker import DockerClient

_ELSEWHERE = "On a GPU host without Docker: --engine local --python PATH"
_WITHOUT = "; without a GPU: harness ab --image vllm-cpu-0.27.0"


def find(client: DockerClient, image: Image) -> str:
    """The ID of the image that would be run, if it is on the daemon; else an empty string."""
    return _id(client, _exact(_container(image)))


def ensure(
    client: DockerClient,
    image: Image,
    *,
    allow_moved_tag: bool,
    where: str = "this machine",
    on_step: OnStep,
) -> ImageIdentity:
    """Find or pull the image of ``container.reference``, held to its pinned digest.

    The tag of a pinned image is looked up in the registry. That it cannot be is told to
    ``on_step``, and is no error: what runs is the digest. With ``allow_moved_tag`` what the tag
    names now is run. ``where`` is what the daemon's machine is called in errors.

    Raises:
        ImageUnavailable: the tag has moved, or the image is not here and cannot be had; with the
            reason and the remedy.
    """
    container = _container(image)
    wanted = parse_reference(container.reference)
    if not container.pin:
        return _unpinned(client, image, wanted, where, on_step)
    digest, checked = container.pin, True
    if container.digest and wanted.tag:
        now = _tag_now(client, wanted, on_step)
        digest, checked = now or digest, bool(now)
    if digest != container.pin and not allow_moved_tag:
        raise _moved(image, wanted, digest)
    found = _had(client, wanted, wanted.at(digest), where, on_step)
    note = f"registry digest {digest}" + ("" if checked else "; what the tag names: not checked")
    if digest != container.pin:
        on_step(f"tag {wanted} has moved: pinned {container.pin}, running {digest}")
        note = f"the tag has moved: pinned {container.pin}, ran {digest}"
    return ImageIdentity(
        name=image.name, digest=found, note=note, registry_digest=digest, pinned=container.pin
    )


def resolve(client: DockerClient, image: Image) -> str:
    """The digest that the registry has for the image's tag now.

    Raises:
        ImageUnavailable: the registry does not say, with the reason and the remedy.
        EngineUnavailable: the daemon cannot ask a registry.
    """
    wanted = parse_reference(_container(image).reference)
    try:
        with faults(f"asking {wanted.registry} for the digest of {wanted}"):
            return pulling.digest_of(client, wanted)
    except pulling.Refused as error:
        raise ImageUnavailable(
            f"no digest of {wanted}: {error.refusal}", error.refusal.remedy
        ) from error
    except pulling.CannotAsk as error:
        raise EngineUnavailable(
            f"no digest of {wanted}: this daemon (Podman?) cannot ask a registry",
            "Use a Docker daemon (DOCKER_HOST), or write container.digest by hand: skopeo inspect "
            f"--format '{{{{.Digest}}}}' docker://{wanted}",
        ) from error


def _container(image: Image) -> Container:
    assert image.container is not None
    return image.container


def _exact(container: Container) -> Reference:
    """The reference by digest where there is a pin: no other image will do."""
    wanted = parse_reference(container.reference)
    return wanted.at(container.pin) if container.pin else wanted


def _id(client: DockerClient, reference: Reference) -> str:
    import docker.errors

    try:
        return str(client.images.get(str(reference)).id)
    except docker.errors.NotFound:
        return ""


def _tag_now(client: DockerClient, wanted: Reference, on_step: OnStep) -> str:
    """What the registry says that the tag is; empty, and told to ``on_step``, if it does not."""
    try:
        return pulling.digest_of(client, wanted)
    except pulling.Refused as error:
        on_step(f"tag {wanted} not checked: {error.refusal}")
    except pulling.CannotAsk:
        on_step(f"tag {wanted} not checked: this daemon cannot ask a registry")
    return ""


def _moved(image: Image, wanted: Reference, now: str) -> ImageUnavailable:
    pin = _container(image).pin
    return ImageUnavailable(
        f"image {image.name}: the tag of {wanted} has moved: pinned {pin}, now {now}",
        f"To accept the new one for good: harness image pin {image.name}; to run it once: "
        f"--allow-moved-tag, which records both; to run the pinned one: --image {wanted.at(pin)}.",
    )


def _unpinned(
    client: DockerClient, image: Image, wanted: Reference, where: str, on_step: OnStep
) -> ImageIdentity:
    found = _had(client, wanted, wanted, where, on_step)
    digest = _registry_digest(client, found, wanted)
    note = f"not pinned; registry digest {digest}" if digest else "built or loaded here, image ID"
    return ImageIdentity(name=image.name, digest=found, note=note, registry_digest=digest)


def _registry_digest(client: DockerClient, image_id: str, wanted: Reference) -> str:
    """What the registry of ``wanted`` knows the image by; empty where it never was in one."""
    if wanted.registry == "localhost":  # Podman's name for images that were built here
        return ""
    listed = client.images.get(image_id).attrs.get("RepoDigests") or []
    known = [parse_reference(each) for each in listed]
    return next((each.digest for each in known if each.familiar == wanted.familiar), "")


def _had(
    client: DockerClient, named: Reference, exact: Reference, where: str, on_step: OnStep
) -> str:
    """The ID of the image, pulled where the daemon has not got it."""
    if found := _id(client, exact):
        return found
    if not exact.repository:
        raise ImageUnavailable(f"no image on {where} has the ID {exact}", f"{_ELSEWHERE}.")
    try:
        pulling.pull(client, exact, on_step)
    except pulling.Refused as error:
        other = _other(client, named, exact)
        without = _WITHOUT if "vllm" in named.repository else ""
        raise ImageUnavailable(
            f"image {named} is not on {where}{other} and cannot be pulled: {error.refusal}",
            f"{error.refusal.remedy} {_ELSEWHERE}{without}.",
        ) from error
    if found := _id(client, exact):
        return found
    raise ImageUnavailable(
        f"image {named} was pulled, but the daemon does not have it",
        "Look at the daemon's own log, then try again.",
    )


def _other(client: DockerClient, named: Reference, exact: Reference) -> str:
    """That the tag is here, on another image than the pinned one."""
    if not exact.digest or not named.tag:
        return ""
    local = _id(client, Reference(repository=named.repository, tag=named.tag))
    if not local:
        return f" with the digest {exact.digest}"
    digest = _registry_digest(client, local, named)
    what = digest or f"no registry digest, image ID {local}"
    return f" with the digest {exact.digest} (its tag is here, on another image: {what})"
