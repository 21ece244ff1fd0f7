"""Arms on another host whose connection drops: over a real sshd, with real drops."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from support import golden
from support.golden import DockerEnvironments, Spec, by_id, write_case
from support.sshd import Sshd, wait_for

from harness.engines import container
from harness.engines.base import Environment, ExecResult, Sandbox
from harness.engines.docker import DockerEngine
from harness.engines.stream import Stream
from harness.errors import EngineError
from harness.image import from_reference
from harness.parallel import Stop, left, side_by_side
from harness.settings import Host
from harness.verdict import Overall, Verdict

pytestmark = pytest.mark.docker
COUNTS = "import sys, time\nfor n in range({n}):\n    print('line', n)\n    time.sleep(0.1)\n{end}"
OPENS_A_SANDBOX = """
import pickle, sys, time
from harness.engines.docker import DockerEngine
from harness.settings import Host
url, label, lease, environment = pickle.loads(sys.stdin.buffer.read())
engine = DockerEngine(host=Host(name="loop", docker=url))
engine.link.lease = lease
with engine.open(environment, label=label):
    print("open", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def remote(sshd: Sshd) -> Iterator[DockerEngine]:
    engine = DockerEngine(host=Host(name="loop", docker=sshd.url()))
    yield engine
    engine.close()
    wait_for(lambda: not sshd.left(), "ssh is left")


@pytest.fixture
def environment(docker_environments: DockerEnvironments) -> Environment:
    return docker_environments.target(Spec()).environment


@pytest.fixture
def label() -> str:
    return f"reattach-{os.urandom(4).hex()}"


@pytest.fixture
def containers(
    docker_environments: DockerEnvironments, label: str
) -> Iterator[Callable[[], list[Any]]]:
    """The test's containers, as the daemon itself has them."""
    client = docker_environments.engine.client

    def found() -> list[Any]:
        filters = {"label": f"ab-harness.run={label}"}
        return list(client.containers.list(all=True, filters=filters, ignore_removed=True))

    yield found
    left = found()
    for one in left:
        one.remove(force=True)
    assert not left


class Output:
    """Lines of a command, and something to be done once there are some."""

    def __init__(self, at: int = 0, then: Callable[[], object] = lambda: None) -> None:
        self.lines: list[str] = []
        self._at, self._then = at, then

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if len(self.lines) == self._at:
            self._then()


def python(
    sandbox: Sandbox, code: str, on_line: Callable[[str], None], *, time_limit: float = 60
) -> ExecResult:
    argv = ["python3", "-u", "-c", code]
    return sandbox.exec(argv, env={}, cwd="/", time_limit=time_limit, on_line=on_line)


def numbered(count: int) -> list[str]:
    return [f"line {n}" for n in range(count)]


@pytest.mark.parametrize("whose", ["the server's", "the client's"])
def test_a_command_goes_on_while_its_connection_drops(
    remote: DockerEngine,
    sshd: Sshd,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
    whose: str,
) -> None:
    def drop() -> None:
        if whose == "the server's":
            assert sshd.drop()
        else:
            for pid in sshd.clients():
                os.kill(pid, signal.SIGKILL)

    output = Output(at=5, then=drop)
    with remote.open(environment, label=label) as sandbox:
        (its,) = containers()
        assert its.attrs["HostConfig"]["AutoRemove"]
        result = python(sandbox, COUNTS.format(n=30, end="sys.exit(7)"), output)
        assert output.lines == numbered(30)
        assert result == ExecResult(exit_code=7)
        (note,) = sandbox.notes()
        assert note.startswith("the connection to loop was lost, and made again after ")
        assert python(sandbox, "print('next')", Output()).exit_code == 0
    assert not containers()


def test_a_command_that_ends_while_the_host_is_away(
    remote: DockerEngine, sshd: Sshd, environment: Environment, label: str
) -> None:
    def away() -> None:
        sshd.stop()
        threading.Timer(3, sshd.start).start()

    output = Output(at=3, then=away)
    with remote.open(environment, label=label) as sandbox:
        end = "import os; os.kill(os.getpid(), 11)"
        result = python(sandbox, COUNTS.format(n=10, end=end), output)
        assert output.lines == numbered(10)
        assert result == ExecResult(exit_code=128 + 11, signal=11)
        assert "the connection to loop was lost" in sandbox.notes()[0]


def test_much_output_is_neither_lost_nor_doubled_by_drops(
    remote: DockerEngine, sshd: Sshd, environment: Environment, label: str
) -> None:
    got = hashlib.sha256()
    count = 0

    def on_line(line: str) -> None:
        nonlocal count
        count += 1
        got.update(line.encode() + b"\n")
        if count in (20_000, 150_000):
            assert sshd.drop()

    with remote.open(environment, label=label) as sandbox:
        assert (
            python(sandbox, "for n in range(300_000): print('a line', n)", on_line).exit_code == 0
        )
        assert len(sandbox.notes()) == 2
    wanted = "".join(f"a line {n}\n" for n in range(300_000))
    assert got.hexdigest() == hashlib.sha256(wanted.encode()).hexdigest()


@pytest.mark.parametrize("when", ["before the daemon started it", "after that"])
def test_a_connection_that_is_lost_over_the_start_of_a_command(
    remote: DockerEngine,
    environment: Environment,
    label: str,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    starts: list[str] = []

    def start(api: APIClient, exec_id: str) -> Stream:
        starts.append(exec_id)
        if len(starts) > 1:
            return Stream(api, exec_id)
        if when == "after that":
            Stream(api, exec_id).close()
        raise ConnectionResetError("the answer never came")

    monkeypatch.setattr(container, "Stream", start)
    output = Output()
    with remote.open(environment, label=label) as sandbox:
        result = python(sandbox, COUNTS.format(n=20, end="sys.exit(7)"), output)
        assert result == ExecResult(exit_code=7)
    assert output.lines == numbered(20)
    assert (starts[0] == starts[1]) == (when == "before the daemon started it")


def test_a_time_limit_that_passes_while_the_host_is_away(
    remote: DockerEngine, sshd: Sshd, environment: Environment, label: str
) -> None:
    def away() -> None:
        sshd.stop()
        threading.Timer(2, sshd.start).start()

    with remote.open(environment, label=label) as sandbox:
        sandbox.put({"work/kept": b"evidence"})
        output = Output(at=3, then=away)
        result = python(sandbox, COUNTS.format(n=600, end=""), output, time_limit=1.5)
        assert result == ExecResult(exit_code=None, timed_out=True)
        assert output.lines == numbered(len(output.lines)) and len(output.lines) > 3
        assert sandbox.get("work/kept", limit=100) == b"evidence"
        commands = Output()
        looks = "import glob; [print(open(f).read()) for f in glob.glob('/proc/[0-9]*/cmdline')]"
        assert python(sandbox, looks, commands).exit_code == 0
        assert not [line for line in commands.lines if "range(600)" in line]


def test_a_container_that_is_killed_meanwhile_is_the_engines_fault(
    remote: DockerEngine,
    sshd: Sshd,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
) -> None:
    def both() -> None:
        sshd.drop()
        containers()[0].kill()

    with (
        pytest.raises(EngineError, match=r"container is gone|container stopped"),
        remote.open(environment, label=label) as sandbox,
    ):
        python(sandbox, COUNTS.format(n=100, end=""), Output(at=5, then=both))
    assert not containers()


def test_a_container_that_is_restarted_meanwhile_is_the_engines_fault(
    docker_environments: DockerEnvironments,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
) -> None:
    with (
        pytest.raises(EngineError, match="container stopped"),
        docker_environments.engine.open(environment, label=label) as sandbox,
    ):
        python(sandbox, "", Output())
        again = Output(at=5, then=lambda: containers()[0].restart(timeout=0))
        python(sandbox, COUNTS.format(n=100, end=""), again)


def test_a_host_that_never_comes_back_removes_the_container_by_itself(
    remote: DockerEngine,
    sshd: Sshd,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
) -> None:
    remote.link.patience, remote.link.lease = 1.5, 6.0
    with (
        pytest.raises(EngineError, match=r"connection to loop was lost.*\n.*removed by itself"),
        remote.open(environment, label=label) as sandbox,
    ):
        python(sandbox, COUNTS.format(n=100, end=""), Output(at=5, then=sshd.stop))
    assert containers(), "it cannot be gone yet"
    wait_for(lambda: not containers(), "the container did not end by itself", 20)


def test_files_are_copied_over_a_drop(
    remote: DockerEngine, sshd: Sshd, environment: Environment, label: str
) -> None:
    data = os.urandom(1 << 20) * 60
    with remote.open(environment, label=label) as sandbox:
        for copy in (lambda: sandbox.put({"x/data": data}), lambda: None):
            timer = threading.Timer(0.2, sshd.drop)
            timer.start()
            copy()
            assert sandbox.get("x/data", limit=1 << 30) == data
            timer.join()
        assert sandbox.get("no/such/file", limit=10) is None
        assert sandbox.notes()


@pytest.mark.parametrize("where", ["local", "remote"])
def test_stop_ends_what_runs_and_leaves_nothing(
    request: pytest.FixtureRequest,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
    where: str,
) -> None:
    engine = DockerEngine() if where == "local" else request.getfixturevalue("remote")
    began = 0.0

    def stop() -> None:
        nonlocal began
        began = time.monotonic()
        engine.stop()
        engine.stop()

    with (
        pytest.raises(EngineError, match="stopped"),
        engine.open(environment, label=label) as sandbox,
    ):
        sandbox.put({"work/kept": b"evidence"})
        threading.Timer(1, stop).start()
        try:
            python(sandbox, "import time; time.sleep(60)", Output())
        finally:
            assert time.monotonic() - began < 5
            assert sandbox.get("work/kept", limit=100) == b"evidence"  # what is there is kept
    assert not containers()
    with pytest.raises(EngineError, match="stopped"), engine.open(environment, label=label):
        pass
    engine.close()


def test_a_lease_is_renewed_while_the_arm_is_open(
    environment: Environment, label: str, docker_environments: DockerEnvironments
) -> None:
    engine = DockerEngine()
    engine.link.lease = 3.0
    with engine.open(environment, label=label) as sandbox:
        output = Output()
        assert python(sandbox, COUNTS.format(n=80, end=""), output).exit_code == 0
        assert output.lines == numbered(80)
    engine.close()


@pytest.mark.parametrize("where", ["local", "remote"])
def test_what_a_killed_harness_leaves_ends_by_itself_or_is_reaped(
    sshd: Sshd,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
    where: str,
) -> None:
    url = sshd.url() if where == "remote" else ""
    for lease in (3.0, 600.0):
        killed(url, label, lease, environment)
        engine = DockerEngine(host=Host(name="loop", docker=url))
        (its,) = containers()
        if lease < 600 and where == "remote":
            wait_for(lambda: not containers(), "the container did not end by itself", 20)
        else:
            if lease < 600:
                ended = lambda: containers()[0].status == "exited"  # noqa: E731
                wait_for(ended, "the container did not end by itself", 20)
            assert f"container {its.name}" in engine.reap()
        assert not containers()
        engine.close()


def killed(url: str, label: str, lease: float, environment: Environment) -> None:
    """Have a process open a sandbox, and kill it."""
    with subprocess.Popen(
        [sys.executable, "-c", OPENS_A_SANDBOX], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.write(pickle.dumps((url, label, lease, environment)))
        holder.stdin.close()
        assert holder.stdout.readline() == b"open\n"
        holder.kill()


def test_a_drop_while_an_image_is_pulled_is_named_with_a_remedy(
    remote: DockerEngine, sshd: Sshd
) -> None:
    def drop(text: str) -> None:
        if text.startswith("pulling"):
            sshd.stop()

    image = from_reference("127.0.0.1:9/no/such:1")
    with pytest.raises(EngineError) as caught:
        remote.prepare(image, on_step=drop)
    assert caught.value.problem.startswith("the connection to loop was lost while preparing image")
    assert caught.value.remedy == "Run again."


def test_a_drop_while_leftovers_are_looked_for(remote: DockerEngine, sshd: Sshd) -> None:
    assert remote.client.ping() and sshd.drop()
    remote.reap()
    assert len(remote.link.drops) == 1


def test_ctrl_c_while_the_host_is_away_ends_at_once_and_says_what_is_left(
    docker_environments: DockerEnvironments, sshd: Sshd, tmp_path: Path
) -> None:
    slow = golden.TESTS + "\n\ndef test_slow():\n    import time\n    time.sleep(60)\n"
    controls = (golden.CONTROL, f"{golden.FILE}::test_slow")
    write_case(tmp_path / "cases" / "mini", tests={golden.FILE: slow}, controls=controls)
    docker_environments.target(Spec())
    image = docker_environments.made[Spec()]
    host = f"loop={sshd.url()}"
    child = subprocess.Popen(
        [sys.executable, "-m", "harness", "ab", "mini", "--image", image, "--host", host],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stderr
        for said in ("test_slow", "connection to loop lost: trying again for up to 120 s"):
            if said.startswith("connection"):
                sshd.stop()
            assert any(said in line for line in child.stderr)
        time.sleep(2.5)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        assert child.wait(30) == 130
        assert time.monotonic() - began < 3
    client = docker_environments.engine.client
    (run,) = (tmp_path / "reports" / "mini").iterdir()
    everything = client.containers.list(
        all=True, filters={"label": "ab-harness.run"}, ignore_removed=True
    )
    (its,) = [c for c in everything if c.labels["ab-harness.run"].startswith(run.name)]
    its.remove(force=True)
    assert f"container {its.name} on loop: it ends and is removed by itself within 10 min" in said
    assert "everything that was started is removed" not in said
    wait_for(lambda: not sshd.left(), "ssh is left")


def test_ctrl_c_ends_rows_of_several_hosts_that_are_away(
    sshd: Sshd,
    environment: Environment,
    label: str,
    containers: Callable[[], list[Any]],
) -> None:
    engines = [DockerEngine(host=Host(name=name, docker=sshd.url())) for name in ("one", "two")]
    told = list[str]()
    for engine in engines:
        engine.link.tell = told.append

    def arm(engine: DockerEngine) -> None:
        with engine.open(environment, label=label) as sandbox:
            try:
                python(sandbox, COUNTS.format(n=600, end=""), Output())
            finally:
                sandbox.get("work/journal", limit=10)

    began = 0.0

    def away() -> None:
        nonlocal began
        wait_for(lambda: len(containers()) == 2, "the arms do not start")
        sshd.stop()
        wait_for(lambda: len(told) == 2, "nobody found the connection lost")
        began = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=away)
    thread.start()
    known = len(left())
    with pytest.raises(KeyboardInterrupt):
        side_by_side(
            [partial(arm, engine) for engine in engines],
            stop=Stop(),
            on_stop=lambda: [engine.stop() for engine in engines],
        )
    assert time.monotonic() - began < 5
    thread.join()
    names = {one.name for one in containers()}
    for one in containers():
        one.remove(force=True)
    assert {text.split()[1] for text in left()[known:]} == names and len(names) == 2
    for engine in engines:
        engine.close()


class DropsInThePatchedArm(golden.Silent):
    """A display that cuts all connections once, while a test of the patched arm runs."""

    def __init__(self, drop: Callable[[], object]) -> None:
        super().__init__()
        self._drop, self._arm, self._dropped = drop, "", False

    def arm(self, case_id: str, target: str, arm: str) -> None:
        self._arm = arm

    def event(self, target: str, step: str, test: str) -> None:
        if self._arm == "patched" and "test_slow" in test and not self._dropped:
            self._dropped = True
            threading.Timer(1, self._drop).start()


def test_a_case_is_judged_as_if_nothing_had_dropped(
    docker_environments: DockerEnvironments,
    remote: DockerEngine,
    sshd: Sshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = "\n\ndef test_slow():\n    import time\n\n    time.sleep(4)\n"
    write_case(
        tmp_path / "case",
        tests={golden.FILE: golden.TESTS + slow},
        controls=(golden.CONTROL, f"{golden.FILE}::test_slow"),
    )
    image = docker_environments.target(Spec()).wanted.image
    target = golden.target_of(remote, image, host=remote.host)
    monkeypatch.setattr(golden, "Silent", lambda: DropsInThePatchedArm(sshd.drop))
    report = golden.run_case(tmp_path / "case", target, tmp_path / "out", tmp_path / "cache")
    nodes = by_id(report)
    assert nodes["test_unset_factor"].verdict is Verdict.FLIP_CONFIRMED
    assert nodes["test_slow"].verdict is Verdict.CONTROL_HELD
    assert report.overall is Overall.CONFIRMED
    (row,) = report.rows
    assert row.evidence.unpatched and not row.evidence.unpatched.record.notes
    assert row.evidence.patched
    (note,) = row.evidence.patched.record.notes
    assert "the connection to loop was lost" in note
