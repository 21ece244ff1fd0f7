"""A short container that shows which device nodes a daemon gives, before any arm is started."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.engines.commands import plain
from harness.engines.processes import owner
from harness.engines.toolkit import guest
from harness.engines.transport import faults
from harness.errors import BadInput, EngineError
from harness.schema import parse_json

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

#: Marks every container of ours with the process that it belongs to, so that it can be reaped.
LABEL = "ab-harness.owner"
#: Seconds; a container that looks at a few nodes takes half a second.
TIME_LIMIT = 60
MIB = 1 << 20
_NODES = 256
_PATH = re.compile(r"/dev/(dri/(renderD|card)\d{1,4}|kfd|dxg|(nvidia|nvhost|nvmap)[a-z0-9-]{0,40})")
_VENDOR = re.compile(r"(0x[0-9a-f]{4})?")
_ADDRESS = re.compile(r"[0-9A-Za-z:._-]{0,40}")
#: How daemons say that it is the device they cannot give. Docker 20.10 and Podman 4.3 as tried;
#: nvidia-container-cli's and CDI's words as the sources of the toolkit and of Docker 25 have them.
_REFUSED = re.compile(
    r"could not select device driver|error gathering device information|no devices found in"
    r"|stat (/dev/|[a-z]+\.com/)|nvidia-container|CDI device|unresolvable CDI",
    re.IGNORECASE,
)


class DeviceRefused(Exception):
    """The daemon cannot give a container the device; the text is the daemon's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A device node as a container sees it; ``vendor`` and ``address`` may be empty.

    ``vendor`` is PCI's, such as ``0x8086``, ``address`` the PCI device's, such as ``0000:03:00.0``.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    path: str
    gid: int
    vendor: str = ""
    address: str = ""

    @property
    def minor(self) -> int:
        """The number at the end of the name; -1 where there is none."""
        digits = re.search(r"\d+$", self.path)
        return int(digits[0]) if digits else -1


#: Removes a container, also where the connection is lost over it.
Remove = Callable[["Container"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    nodes: tuple[Node, ...]


def scout(
    client: DockerClient,
    image_id: str,
    python: str,
    options: Mapping[str, Any],
    *,
    remove: Remove,
) -> tuple[Node, ...]:
    """Start a container with ``options`` and return the device nodes in it; it is removed.

    It is as confined as an arm: without network, capabilities or anything of the host.

    Raises:
        DeviceRefused: the daemon cannot give a device of ``options``.
        EngineError: any other failure, also an answer that is none.
    """
    made = _container(client, image_id, python, options, remove)
    with made as container, faults("looking for devices"):
        code = container.wait(timeout=TIME_LIMIT)["StatusCode"]
        output = container.logs(stdout=True, stderr=False)
        problem = plain(container.logs(stdout=False, stderr=True, tail=1).decode(errors="replace"))
    if code != 0:
        raise EngineError(
            f"{python} of the image cannot look for devices: exit code {code}; {problem}",
            "Is it an interpreter of Python 3.9 or later? Its path is [container] python.",
        )
    return parse_nodes(output)


def parse_nodes(output: bytes) -> tuple[Node, ...]:
    """Read what the scout printed. It comes from the image, which may print anything.

    Raises:
        EngineError: it is not what the scout prints.
    """
    try:
        nodes = parse_json(output, _Answer, where="the list of devices").nodes
    except BadInput as error:
        raise _untrusted(str(error)) from error
    if len(nodes) > _NODES or len({node.path for node in nodes}) != len(nodes):
        raise _untrusted("too many device nodes, or one twice")
    for node in nodes:
        fits = _PATH.fullmatch(node.path) and _VENDOR.fullmatch(node.vendor)
        if not fits or not _ADDRESS.fullmatch(node.address) or not 0 <= node.gid < 1 << 32:
            raise _untrusted(f"{node.path!r} is no device node of a GPU")
    return nodes


def _untrusted(problem: str) -> EngineError:
    return EngineError(
        f"the image's Python printed something else than its devices: {plain(problem)}",
        "What starts with the image's Python (sitecustomize, a wrapper) must print nothing.",
    )


@contextlib.contextmanager
def _container(
    client: DockerClient, image_id: str, python: str, options: Mapping[str, Any], remove: Remove
) -> Iterator[Container]:
    import docker.errors

    container: Container | None = None
    try:
        with faults("starting a container that looks for devices"):
            try:
                container = client.containers.create(image_id, **_arguments(python, options))
                container.start()
            except docker.errors.APIError as error:
                text = str(error.explanation or error)
                if _REFUSED.search(text):
                    raise DeviceRefused(plain(text.replace("\n", " "))) from error
                raise
        yield container
    finally:
        if container is not None:
            with contextlib.suppress(EngineError):
                remove(container)


def _arguments(python: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        # Isolated: the image's own modules and start-up files have no say.
        "entrypoint": [python, "-I", "-S", "-c"],
        "command": [guest()["scout.py"].decode()],
        "name": f"ab-harness-scout-{os.urandom(6).hex()}",
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": 64,
        "mem_limit": 256 * MIB,
        # Kept where it can be read back whatever the daemon's default is, and bounded.
        "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
        "labels": {LABEL: owner()},
        "detach": True,
        **options,
    }
