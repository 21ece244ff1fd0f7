"""What is Podman's own where it stands in for Docker's API. Read and tried: Podman 4.3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient


def version(client: DockerClient) -> str:
    """Podman's version, from a header of its own; an empty string where the daemon is Docker's.

    Raises what the SDK's connection raises.
    """
    api = client.api
    answer = api.get(f"{api.base_url}/_ping", timeout=api.timeout)
    return str(answer.headers.get("Libpod-API-Version", ""))


def no_network(client: DockerClient) -> str:
    """How the daemon's builder is told to give no network.

    To Podman's, Docker's word for it means nothing, and it builds in the network of the host.
    """
    return "NetworkDisabled" if version(client) else "none"
