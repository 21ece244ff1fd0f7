"""Fixtures that several folders share: engines for real, or a skip that says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.golden import BASE, DockerEnvironments, LocalEnvironments

from harness.engines.docker import DockerEngine


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
        pytest.skip(docker_reason)
    environments = DockerEnvironments()
    yield environments
    environments.close()


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def local_environments(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path
) -> LocalEnvironments:
    return LocalEnvironments(tmp_path_factory.mktemp("environments"), engine_cache)


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def environments(request: pytest.FixtureRequest) -> LocalEnvironments | DockerEnvironments:
    """Each engine in turn: the contract is one and the same."""
    made = request.getfixturevalue(f"{request.param}_environments")
    assert isinstance(made, (LocalEnvironments, DockerEnvironments))
    return made
