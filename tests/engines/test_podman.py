"""What is Podman's own, on a real one; the contract suite and the defaults run on it as well."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import golden
from support.golden import DockerEnvironments, Spec, write_case
from support.podman import Podman
from support.sshd import Sshd, wait_for

from harness.engines import lease
from harness.engines.base import Environment, ExecResult, Sandbox
from harness.engines.docker import LABEL, DockerEngine
from harness.engines.processes import owner
from harness.errors import EngineError
from harness.settings import Host

pytestmark = [pytest.mark.docker, pytest.mark.podman]
COUNTS = "import sys, time\nfor n in range(30):\n    print(n)\n    time.sleep(0.1)\nsys.exit(7)"
NAMES_ITSELF = "from harness.engines.processes import owner; print(owner())"


@pytest.fixture(autouse=True)
def service(podman: Podman) -> None:
    podman.ensure()


@pytest.fixture
def engine(podman: Podman) -> Iterator[DockerEngine]:
    engine = DockerEngine(host=Host(name="podman", docker=podman.url))
    yield engine
    engine.close()


@pytest.fixture
def environment(podman_environments: DockerEnvironments) -> Environment:
    return podman_environments.target(Spec()).environment


def containers(engine: DockerEngine, label: str) -> list[Any]:
    filters = {"label": f"ab-harness.run={label}"}
    return list(engine.client.containers.list(all=True, filters=filters, ignore_removed=True))


def python(sandbox: Sandbox, code: str, *, lines: list[str] | None = None) -> ExecResult:
    on_line = lambda line: None if lines is None else lines.append(line)  # noqa: E731
    argv = ["python3", "-u", "-c", code]
    return sandbox.exec(argv, env={}, cwd="/", time_limit=60, on_line=on_line)


def test_it_says_that_it_is_podman(podman: Podman, engine: DockerEngine) -> None:
    version = podman.run("--version").split()[-1]
    assert engine.describe() == f"Podman {version} on {platform.node()}"


def test_the_evidence_says_that_it_was_podman(
    podman: Podman, podman_environments: DockerEnvironments, tmp_path: Path
) -> None:
    write_case(tmp_path / "case")
    target = podman_environments.target(Spec())
    report = golden.run_case(tmp_path / "case", target, tmp_path / "out", tmp_path / "cache")
    note = report.rows[0].evidence.target.engine_note
    version = podman.run("--version").split()[-1]
    assert note.endswith(f"nothing of the host in it, by Podman {version} through its Docker API")


def test_docker_does_not_say_so(docker_environments: DockerEnvironments) -> None:
    engine = docker_environments.target(Spec()).engine
    assert engine.isolation == DockerEngine.isolation
    assert docker_environments.engine.describe().startswith("Docker ")


def test_a_dropped_connection_is_survived(
    podman: Podman, sshd: Sshd, engine: DockerEngine, environment: Environment
) -> None:
    socket = podman.url.removeprefix("unix://")
    remote = DockerEngine(host=Host(name="loop", docker=sshd.url(path=socket)))
    lines: list[str] = []
    with remote.open(environment, label="drops") as sandbox:
        (container,) = containers(engine, "drops")
        assert container.attrs["HostConfig"]["AutoRemove"]
        timer = threading.Timer(1.5, sshd.drop)
        timer.start()
        result = python(sandbox, COUNTS, lines=lines)
        timer.join()
        assert result == ExecResult(exit_code=7)
        assert lines == [str(n) for n in range(30)]
        assert any("the connection to loop was lost" in note for note in sandbox.notes())
    assert not containers(engine, "drops")
    remote.close()


def test_an_ended_container_is_the_engines_fault_and_keeps_its_files(
    engine: DockerEngine, environment: Environment
) -> None:
    with engine.open(environment, label="ends") as sandbox:
        sandbox.put({"work/kept": b"evidence"})
        (container,) = containers(engine, "ends")
        timer = threading.Timer(1, container.kill)
        timer.start()
        with pytest.raises(EngineError, match=r"container (stopped|is gone)"):
            python(sandbox, "import time; time.sleep(60)")
        timer.join()
        assert sandbox.get("work/kept", limit=100) == b"evidence"
    assert not containers(engine, "ends")


def test_a_container_ends_by_itself_when_nobody_wants_it_any_more(
    engine: DockerEngine, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_renew", lambda *_: None)
    engine.link.lease = 3.0
    with engine.open(environment, label="lease"):
        (container,) = containers(engine, "lease")
        assert container.status == "running"
        ended = lambda: containers(engine, "lease")[0].status == "exited"  # noqa: E731
        wait_for(ended, "the container did not end by itself", 20)
    assert not containers(engine, "lease")


def test_stopping_ends_what_runs(engine: DockerEngine, environment: Environment) -> None:
    began = 0.0

    def stop() -> None:
        nonlocal began
        began = time.monotonic()
        engine.stop()

    timer = threading.Timer(1, stop)
    with (
        pytest.raises(EngineError, match="stopped"),
        engine.open(environment, label="stops") as sandbox,
    ):
        timer.start()
        python(sandbox, "import time; time.sleep(60)")
    assert time.monotonic() - began < 10
    timer.join()
    assert not containers(engine, "stops")


def test_what_a_dead_run_left_is_reaped_and_what_runs_is_not(
    engine: DockerEngine, environment: Environment
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NAMES_ITSELF], capture_output=True, text=True, check=True
    )
    made = {
        whose: engine.client.containers.create(
            environment.handle, ["true"], labels={LABEL: whose}, network_mode="none"
        )
        for whose in (done.stdout.strip(), owner())
    }
    dead, alive = made.values()
    assert f"container {dead.name}" in engine.reap()
    left = [c.id for c in engine.client.containers.list(all=True, filters={"label": LABEL})]
    assert dead.id not in left and alive.id in left
    alive.remove(force=True)
