"""The image: a pinned environment, as written in ``images/<name>/image.toml``, or a reference."""

from __future__ import annotations

from dataclasses import dataclass

from harness.case import FAMILIES, unsafe_path
from harness.errors import BadInput
from harness.schema import parse_toml

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A locked set of wheels, from which an environment is made.

    ``python`` is the ``major.minor`` version that the hashes are for;
    ``torch_backend`` is handed to uv only where the pinned torch is not found
    otherwise; ``warm`` are modules that are imported once after installation, so
    that no arm pays for compiling them.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    python: str
    requirements: str
    torch_backend: str = ""
    warm: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """How the container image is had: built from ``dockerfile``, or pulled as ``reference``.

    ``digest`` pins the reference: what a registry knows the image by. ``digest_from`` says how it
    became known. ``harness image pin`` writes both.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    dockerfile: str = ""
    base: str = ""
    reference: str = ""
    digest: str = ""
    digest_from: str = ""
    python: str = "python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A whole ``image.toml``; ``name`` is the name of its ``folder``.

    A bare container reference is an Image too: its name is the reference.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    name: str
    folder: str = ""
    schema: int
    title: str
    packages: tuple[str, ...] = ()
    platform: str = ""
    lock: Lock | None = None
    container: Container | None = None


def from_reference(reference: str) -> Image:
    """Return the Image of a container reference that has no folder under ``images/``."""
    container = Container(reference=reference)
    return Image(name=reference, schema=SCHEMA, title=reference, container=container)


def from_interpreter(path: str) -> Image:
    """Return the Image that stands for an interpreter which is already there."""
    return Image(name=path, schema=SCHEMA, title=f"the environment of {path}")


def parse_image(text: str, *, name: str, folder: str, where: str) -> Image:
    """Parse and check the text of an ``image.toml``.

    Raises:
        BadInput: names the file, the key and the remedy.
    """
    image = parse_toml(text, Image, where=where, extra={"name": name, "folder": folder})
    problems = [f"{where}: {key}: {problem}" for key, problem in _problems(image)]
    if problems:
        raise BadInput("\n".join(problems))
    return image


def _problems(image: Image) -> list[tuple[str, str]]:
    found = []
    if image.schema != SCHEMA:
        found.append(("schema", f"{image.schema} is not known; this harness reads {SCHEMA}"))
    if image.platform and image.platform not in FAMILIES:
        found.append(("platform", f"{image.platform!r} is not one of {', '.join(FAMILIES)}"))
    if image.lock is None and image.container is None:
        found.append(("lock", "give [lock], [container] or both: there is nothing to run in"))
    if image.lock and (reason := unsafe_path(image.lock.requirements)):
        found.append(("lock.requirements", f"{image.lock.requirements!r} {reason}"))
    if image.container and bool(image.container.dockerfile) == bool(image.container.reference):
        found.append(("container", "give either dockerfile or reference"))
    if image.container and image.container.dockerfile:
        if reason := unsafe_path(image.container.dockerfile):
            found.append(("container.dockerfile", f"{image.container.dockerfile!r} {reason}"))
        if not image.lock:
            found.append(("lock", "a Dockerfile installs a lock: add [lock]"))
    return found
