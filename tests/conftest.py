"""Fixtures that several folders share: engines for real, or a skip that says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import podman as podmans
from support import sshd as servers
from support.golden import BASE, DockerEnvironments, LocalEnvironments
from support.required import lacking
from support.sshd import Sshd

from harness.engines.docker import DockerEngine
from harness.engines.tunnel import SSH_CONFIG
from harness.settings import Host

CONTAINERS = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("podman", marks=[pytest.mark.docker, pytest.mark.podman]),
]


@pytest.fixture(scope="session")
def docker_reason() -> str:
    """Why Docker tests cannot run here; empty where they can."""
    engine = DockerEngine()
    if reason := engine.unavailable():
        return reason.splitlines()[0]
    if not engine.client.images.list(name=BASE):
        return f"the base image {BASE} is not on the daemon; .ci/make-base makes it"
    return ""


@pytest.fixture(scope="session")
def docker_environments(docker_reason: str) -> Iterator[DockerEnvironments]:
    if docker_reason:
        lacking(docker_reason)
    environments = DockerEnvironments(DockerEngine())
    yield environments
    environments.close()


@pytest.fixture(scope="session")
def podman(docker_reason: str) -> Iterator[podmans.Podman]:
    """A real Podman that has the base image, which is copied from the Docker daemon."""
    if docker_reason:
        lacking(docker_reason)
    with podmans.service() as podman:
        if reason := podman.wait():
            lacking(reason)
        podman.load(BASE)
        yield podman


@pytest.fixture(scope="session")
def podman_environments(podman: podmans.Podman) -> Iterator[DockerEnvironments]:
    environments = DockerEnvironments(DockerEngine(host=Host(name="podman", docker=podman.url)))
    yield environments
    podman.ensure()
    environments.close()
    environments.engine.close()


@pytest.fixture
def sshd(docker_reason: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A real sshd on loopback, which leads to the Docker daemon; ssh knows it."""
    if docker_reason:
        lacking(docker_reason)
    with servers.running() as server:
        monkeypatch.setenv(SSH_CONFIG, str(server.config))
        yield server


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def local_environments(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path
) -> LocalEnvironments:
    return LocalEnvironments(tmp_path_factory.mktemp("environments"), engine_cache)


@pytest.fixture(params=["local", *CONTAINERS])
def environments(request: pytest.FixtureRequest) -> LocalEnvironments | DockerEnvironments:
    """Each engine in turn: the contract is one and the same."""
    if request.param == "podman":
        request.getfixturevalue("podman").ensure()
    made = request.getfixturevalue(f"{request.param}_environments")
    assert isinstance(made, (LocalEnvironments, DockerEnvironments))
    return made


@pytest.fixture(params=CONTAINERS)
def container_environments(request: pytest.FixtureRequest) -> DockerEnvironments:
    """Each container engine in turn."""
    if request.param == "podman":
        request.getfixturevalue("podman").ensure()
    made = request.getfixturevalue(f"{request.param}_environments")
    assert isinstance(made, DockerEnvironments)
    return made
