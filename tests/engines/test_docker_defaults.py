"""The defaults that protect, read back from a real daemon and tried from inside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.golden import DockerEnvironments, Spec

from harness.engines.base import Sandbox
from harness.engines.docker import LABEL
from harness.errors import EngineError

RUN = f"defaults-{os.getpid()}"


@pytest.fixture
def sandbox(container_environments: DockerEnvironments) -> Iterator[Sandbox]:
    target = container_environments.target(Spec())
    with target.engine.open(target.environment, label=RUN) as sandbox:
        yield sandbox


def run(sandbox: Sandbox, code: str) -> tuple[int | None, str]:
    lines: list[str] = []
    result = sandbox.exec(
        ["python3", "-c", code], env={}, cwd=sandbox.root, time_limit=60, on_line=lines.append
    )
    return result.exit_code, "\n".join(lines)


def container_of(environments: DockerEnvironments) -> Any:
    client = environments.engine.client
    (container,) = client.containers.list(filters={"label": f"ab-harness.run={RUN}"})
    return container


def test_what_the_daemon_was_told(
    sandbox: Sandbox, container_environments: DockerEnvironments
) -> None:
    container = container_of(container_environments)
    host: dict[str, Any] = container.attrs["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert "ALL" in host["CapDrop"] or "CHOWN" in host["CapDrop"]  # Podman writes them all out
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert 0 < host["PidsLimit"] <= 4096
    assert host["Memory"] > 0
    assert not host["Privileged"]
    assert not host["Binds"] and not host["Devices"] and not container.attrs["Mounts"]
    assert LABEL in container.labels


def test_what_the_kernel_holds_an_arm_to(sandbox: Sandbox) -> None:
    exit_code, output = run(sandbox, "print(open('/proc/self/status').read())")
    assert exit_code == 0
    status = dict(line.split(":\t") for line in output.splitlines() if ":\t" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


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
    sandbox: Sandbox, container_environments: DockerEnvironments
) -> None:
    container_of(container_environments).remove(force=True)
    with pytest.raises(EngineError, match=r"Docker failed|container stopped"):
        run(sandbox, "print(1)")
