"""``harness.toml``: the hosts that rows can be made on."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from harness.case import PLATFORM
from harness.device import Device, parse_device
from harness.errors import BadInput
from harness.schema import parse_toml

SCHEMA = 1
#: Names the Docker daemon that DOCKER_HOST, or else the default socket, leads to.
LOCAL = "local"
ALL = "all"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_SSH_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
_SCHEMES = ("ssh", "unix", "tcp")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """``[hosts.NAME]`` as written; ``platform`` is what its owner expects of it."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    docker: str = ""
    device: str = ""
    image: str = ""
    platform: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A whole ``harness.toml``."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    schema: int
    hosts: dict[str, HostEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a Docker-compatible daemon is. An empty ``docker`` means: as DOCKER_HOST says."""

    name: str = LOCAL
    docker: str = ""
    device: Device | None = None
    image: str = ""
    platform: str = ""

    def anonymous(self, text: str) -> str:
        """The text without the name of who logs in: evidence is for everybody."""
        user = urlsplit(self.docker).username
        return text.replace(f"{user}@", "***@") if user else text


def parse_settings(text: str, *, where: str) -> dict[str, Host]:
    """Parse and check the text of a ``harness.toml``; return its hosts by name.

    Raises:
        BadInput: names the file, the key and the remedy.
    """
    settings = parse_toml(text, Settings, where=where, extra={})
    if settings.schema != SCHEMA:
        raise BadInput(f"{where}: schema: {settings.schema} is not known; this harness reads 1")
    return {
        name: _host(name, entry, where=f"{where}: hosts.{name}")
        for name, entry in settings.hosts.items()
    }


def choose_hosts(texts: Sequence[str], known: Mapping[str, Host]) -> tuple[Host, ...]:
    """The hosts of all ``--host`` options; ``all`` stands for every host of harness.toml.

    Without any option it is the local daemon, with what harness.toml says of it.

    Raises:
        BadInput: no such host, not the URL of a daemon, or the same name twice.
    """
    if ALL in texts and not known:
        raise BadInput("--host all: there are no hosts in harness.toml", "Add [hosts.NAME] to it.")
    hosts: list[Host] = []
    for text in texts or (LOCAL,):
        hosts += known.values() if text == ALL else (parse_host(text, known),)
    names = [host.name for host in hosts]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"--host {name}: given twice", "Give each host once, by one name.")
    return tuple(hosts)


def parse_host(text: str, known: Mapping[str, Host]) -> Host:
    """Read ``--host``: ``NAME`` of harness.toml, ``local``, or ``NAME=URL``.

    Raises:
        BadInput: no such host, or not the URL of a daemon.
    """
    name, equals, url = text.partition("=")
    if equals:
        if name in (ALL, LOCAL):
            raise BadInput(f"--host {text!r}: {name!r} has a meaning of its own", "Take another.")
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"--host {text!r}: {name!r} is not a name", "Write NAME=ssh://user@host."
            )
        _check_url(url, where=f"--host {name}")
        return Host(name=name, docker=url)
    if name in known:
        return known[name]
    if name == LOCAL:
        return Host()
    listed = ", ".join(known) or "none"
    raise BadInput(
        f"--host {name!r}: no such host in harness.toml (there: {listed})",
        "Write NAME=ssh://user@host, 'local', or add [hosts.NAME] to harness.toml.",
    )


def _host(name: str, entry: HostEntry, *, where: str) -> Host:
    if name == ALL:
        raise BadInput(f"{where}: 'all' means every host", "Give it another name.")
    if not _NAME.fullmatch(name):
        raise BadInput(f"{where}: not a name of letters, digits, '.', '_' and '-'")
    if entry.docker:
        _check_url(entry.docker, where=f"{where}.docker")
    elif name != LOCAL:
        raise BadInput(f"{where}.docker: key is missing", 'Write docker = "ssh://user@host".')
    if entry.platform and not PLATFORM.fullmatch(entry.platform):
        raise BadInput(f"{where}.platform: {entry.platform!r} is not a platform such as cuda-sm90")
    device = parse_device(entry.device, where=f"{where}.device") if entry.device else None
    return Host(
        name=name, docker=entry.docker, device=device, image=entry.image, platform=entry.platform
    )


def _check_url(url: str, *, where: str) -> None:
    """Refuse what no daemon can be reached by, and what a command line could take for an option."""
    remedy = "Write ssh://user@host, ssh://user@host:port, unix:///path/to.sock or tcp://host:port."
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"{where}: {url!r}: {error}", remedy) from None
    if parts.scheme not in _SCHEMES:
        raise BadInput(f"{where}: {url!r} is not the URL of a Docker daemon", remedy)
    if parts.scheme == "unix":
        if not parts.path.startswith("/") or parts.netloc:
            raise BadInput(f"{where}: {url!r} names no socket", remedy)
        return
    if not parts.hostname or port == 0:
        raise BadInput(f"{where}: {url!r} names no host", remedy)
    if parts.scheme == "tcp" and not port:
        raise BadInput(f"{where}: {url!r} names no port", remedy)
    if parts.password is not None:
        raise BadInput(f"{where}: a password in a URL ends up in reports", "Use a key, or TLS.")
    if parts.query or parts.fragment or ":" in parts.path:
        raise BadInput(f"{where}: {url!r} has more than a host, a port and a path", remedy)
    if parts.scheme == "ssh" and not (
        _is_host(parts.hostname) and _SSH_NAME.fullmatch(parts.username or "me")
    ):
        raise BadInput(f"{where}: {url!r}: a user and a host that ssh takes", remedy)


def _is_host(name: str) -> bool:
    """Whether ssh takes it for a host, and no shell in its configuration for anything else."""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name.partition("%")[0]))
    return bool(_SSH_NAME.fullmatch(name))
