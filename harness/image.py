"""The image: a pinned environment, as written in ``images/<name>/image.toml``, or a reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.case import FAMILIES, unsafe_path
from harness.errors import BadInput
from harness.schema import parse_toml

SCHEMA = 1
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
#: What has no dot, no port and is not localhost is no host but the first part of a path.
_HOST = (
    r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
    r"|[A-Za-z0-9-]+:[0-9]+"
)
#: As the distribution project's package ``reference`` defines it, which Docker and Podman follow.
_REFERENCE = re.compile(
    rf"(?P<repository>(?:(?:{_HOST})/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A container reference in its parts, ``[HOST[:PORT]/]PATH[:TAG][@DIGEST]``.

    An image ID, ``sha256:…``, has no repository: it names an image of one daemon.
    """

    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        at = "@" if self.digest and self.repository else ""
        return f"{self.repository}{tag}{at}{self.digest}"

    @property
    def registry(self) -> str:
        """The host (with its port) that keeps the repository."""
        host, slash, _ = self.repository.partition("/")
        return host if slash and (set(host) & set(".:") or host == "localhost") else "docker.io"

    @property
    def familiar(self) -> str:
        """The repository as Docker shortens it, the same for all ways of writing it."""
        path = self.repository
        for prefix in ("index.docker.io/", "docker.io/"):
            path = path.removeprefix(prefix)
        return path.removeprefix("library/")

    def at(self, digest: str) -> Reference:
        """The same repository by digest alone: what a daemon holds an image to."""
        return Reference(repository=self.repository, digest=digest)


def is_digest(text: str) -> bool:
    """Whether it has the form in which registries name an image by its content."""
    return bool(_DIGEST.fullmatch(text))


def parse_reference(text: str) -> Reference:
    """Parse a container reference, or an image ID.

    Raises:
        BadInput: it is neither.
    """
    if _DIGEST.fullmatch(text):
        return Reference(repository="", digest=text)
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise BadInput(
            f"{text!r} is not a container reference",
            "Write name:tag, name@sha256:<64 digits> or name:tag@sha256:<64 digits>, the name in "
            "small letters.",
        )
    parts = found.groupdict(default="")
    return Reference(repository=parts["repository"], tag=parts["tag"], digest=parts["digest"])


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
    became known. ``harness image pin`` writes both. A reference without a tag is pinned by its
    digest alone.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    dockerfile: str = ""
    base: str = ""
    reference: str = ""
    digest: str = ""
    digest_from: str = ""
    python: str = "python3"

    @property
    def pin(self) -> str:
        """The registry digest that must be run, also where the reference has it; else empty."""
        if self.digest or not self.reference:
            return self.digest
        parsed = parse_reference(self.reference)
        return parsed.digest if parsed.repository else ""


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


def by_reference(image: Image, name: str) -> Image | None:
    """The image as what the container reference ``name`` asks for, if it is that.

    It is where both name the same tag, or where ``name`` has the digest that the image pins; then
    that digest is asked for, whatever the tag says by now.
    """
    container = image.container
    if container is None or not container.reference:
        return None
    mine, wanted = parse_reference(container.reference), parse_reference(name)
    if mine.familiar != wanted.familiar:
        return None
    # Pinned by its digest alone, an image says nothing of the tag that is meant by giving none.
    default = "" if container.digest and not mine.tag else "latest"
    same_tag = (mine.tag or default) == (wanted.tag or default)
    if same_tag and mine.digest == wanted.digest:
        return image
    if not wanted.digest or wanted.digest != container.pin or (wanted.tag and not same_tag):
        return None
    return replace(image, container=replace(container, reference=name, digest="", digest_from=""))


def pinned(image: Image, digest: str, digest_from: str) -> Image:
    """The image with another pin."""
    assert image.container is not None
    return replace(
        image, container=replace(image.container, digest=digest, digest_from=digest_from)
    )


def from_reference(reference: str) -> Image:
    """Return the Image of a container reference that has no folder under ``images/``.

    Raises:
        BadInput: it is not a reference.
    """
    parse_reference(reference)
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


def _problems(image: Image) -> Iterator[tuple[str, str]]:
    if image.schema != SCHEMA:
        yield "schema", f"{image.schema} is not known; this harness reads {SCHEMA}"
    if image.platform and image.platform not in FAMILIES:
        yield "platform", f"{image.platform!r} is not one of {', '.join(FAMILIES)}"
    if image.lock is None and image.container is None:
        yield "lock", "give [lock], [container] or both: there is nothing to run in"
    if image.lock and (reason := unsafe_path(image.lock.requirements)):
        yield "lock.requirements", f"{image.lock.requirements!r} {reason}"
    if image.container:
        yield from _container_problems(image.container, image.lock)


def _container_problems(container: Container, lock: Lock | None) -> Iterator[tuple[str, str]]:
    if bool(container.dockerfile) == bool(container.reference):
        yield "container", "give either dockerfile or reference"
    if container.dockerfile:
        if reason := unsafe_path(container.dockerfile):
            yield "container.dockerfile", f"{container.dockerfile!r} {reason}"
        if not lock:
            yield "lock", "a Dockerfile installs a lock: add [lock]"
    if container.reference:
        yield from _reference_problems(container)
    if container.digest and not _DIGEST.fullmatch(container.digest):
        yield "container.digest", f"{container.digest!r} is not sha256: and 64 digits of 0-9, a-f"
    if container.digest and not container.reference:
        yield "container.digest", "pins a reference, and there is none"
    if container.digest_from and not container.digest:
        yield "container.digest_from", "says where the digest is from, and there is no digest"


def _reference_problems(container: Container) -> Iterator[tuple[str, str]]:
    try:
        reference = parse_reference(container.reference)
    except BadInput as error:
        yield "container.reference", f"{error.problem}. {error.remedy}"
        return
    if not reference.repository:
        yield "container.reference", "an image ID means nothing on another machine: give a name"
    elif reference.digest and container.digest:
        yield "container.reference", "has a digest of its own: leave it to container.digest"
