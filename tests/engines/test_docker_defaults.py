"""The defaults that protect, read back from a real daemon and tried from inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.golden import DockerEnvironments, Spec

from harness.engines.base import Sandbox
from harness.engines.docker import LABEL
from harness.errors import EngineError

pytestmark = pytest.mark.docker


@pytest.fixture
def sandbox(docker_environments: DockerEnvironments) -> Iterator[Sandbox]:
    target = docker_environments.target(Spec())
    with target.engine.open(target.environment, label="defaults") as sandbox:
        yield sandbox


def run(sandbox: Sandbox, code: str) -> tuple[int | None, str]:
    lines: list[str] = []
    result = sandbox.exec(
        ["python3", "-c", code], env={}, cwd=sandbox.root, time_limit=60, on_line=lines.append
    )
    return result.exit_code, "\n".join(lines)


def test_what_the_daemon_was_told(
    sandbox: Sandbox, docker_environments: DockerEnvironments
) -> None:
    client = docker_environments.engine.client
    (container,) = client.containers.list(filters={"label": "ab-harness.run=defaults"})
    host: dict[str, Any] = container.attrs["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert 0 < host["PidsLimit"] <= 4096
    assert host["Memory"] > 0
    assert not host["Privileged"]
    assert not host["Binds"] and not host["Devices"] and not container.attrs["Mounts"]
    assert LABEL in container.labels


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import socket; socket.create_connection(('127.0.0.11', 53), 3)", "OSError|Refused"),
        ("import os; os.chown('/etc/hostname', 1, 1)", "PermissionError"),
        ("import os; os.mknod('/x', 0o60600, os.makedev(8, 0))", "PermissionError"),
        ("import os; os.setuid(1000)", "PermissionError"),
        ("import os; os.listdir('/var/run/docker.sock')", "FileNotFoundError"),
    ],
)
def test_what_an_arm_cannot_do(sandbox: Sandbox, code: str, error: str) -> None:
    exit_code, output = run(sandbox, code)
    assert exit_code == 1
    assert any(word in output for word in error.split("|")), output


def test_a_container_that_is_removed_is_the_engines_fault(
    sandbox: Sandbox, docker_environments: DockerEnvironments
) -> None:
    client = docker_environments.engine.client
    (container,) = client.containers.list(filters={"label": "ab-harness.run=defaults"})
    container.remove(force=True)
    with pytest.raises(EngineError, match=r"Docker failed|container stopped"):
        run(sandbox, "print(1)")
