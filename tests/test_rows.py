"""Who takes turns and who runs side by side: an engine double that never gets to an arm."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.golden import Silent, write_case

from harness import evidence, store, workflow
from harness.engines.base import Access, Environment, OnStep, Sandbox
from harness.errors import EngineError
from harness.image import Image, from_reference
from harness.parallel import Stop
from harness.record import ImageIdentity
from harness.rows import device_lock
from harness.settings import Host
from harness.targets import Target, Wanted


class Double:
    """Counts how many of its kind are open at once, and then fails."""

    name = "docker"
    isolation = "none: a double"

    def __init__(self, meet: threading.Barrier | None = None) -> None:
        self.meet, self.stopped, self.closed = meet, False, False

    now, most, lock = 0, 0, threading.Lock()

    @contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Sandbox]:
        with Double.lock:
            Double.now += 1
            Double.most = max(Double.most, Double.now)
        try:
            if self.meet:
                self.meet.wait()  # breaks unless the others are there at the same time
            raise EngineError("a double has no sandbox")
            yield
        finally:
            with Double.lock:
                Double.now -= 1

    def unavailable(self) -> str:
        return ""

    def has(self, image: Image) -> str:
        return ""

    def prepare(self, image: Image, *, on_step: OnStep) -> Environment:
        raise NotImplementedError

    def reap(self) -> list[str]:
        return []

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


def target(engine: Double, name: str, *, machine: str, key: str = "cpu") -> Target:
    image = from_reference("some/image:1")
    wanted = Wanted(image=image, host=Host(name=name, docker=f"ssh://{name}"), device=None)
    environment = Environment(
        identity=ImageIdentity(name=image.name, digest="sha256:aa"),
        handle="sha256:aa",
        python="python3",
        host=machine,
        access=Access(family=key.partition("-")[0], key=key),
    )
    return Target(wanted=wanted, engine=engine, environment=environment)


@pytest.fixture(autouse=True)
def _count() -> None:
    Double.now = Double.most = 0


def run(tmp_path: Path, *targets: Target) -> Path:
    files = store.load_case(write_case(tmp_path / "case"))
    job = workflow.Job(
        files=files, nodes=workflow.select(files, ""), out=tmp_path / "out", command=("test",)
    )
    return workflow.run(job, targets, cache=tmp_path / "cache", progress=Silent(), stop=Stop())


def test_hosts_and_devices_run_side_by_side(tmp_path: Path) -> None:
    meet = threading.Barrier(3, timeout=30)
    one, two = Double(meet), Double(meet)
    run(
        tmp_path,
        target(one, "a", machine="a", key="cuda-0"),
        target(one, "b", machine="a", key="cuda-1"),
        target(two, "c", machine="c", key="cuda-0"),
    )
    assert Double.most == 3


def test_rows_on_one_device_take_turns_by_whatever_way_it_is_reached(tmp_path: Path) -> None:
    folder = run(
        tmp_path, *(target(Double(), name, machine="a") for name in ("local", "loop", "pod"))
    )
    assert Double.most == 1
    report = workflow.assess([folder])
    assert [row.evidence.target.host_name for row in report.rows] == ["local", "loop", "pod"]
    assert all("a double has no sandbox" in row.refused[0] for row in report.rows)


def test_a_target_that_could_not_be_made_ready_is_a_row_of_its_own(tmp_path: Path) -> None:
    lost = target(Double(), "lost", machine="lost")
    lost = Target(
        wanted=lost.wanted, engine=lost.engine, environment=None, failure="ssh: no such host"
    )
    folder = run(tmp_path, lost, target(Double(), "a", machine="a"))
    loaded = evidence.load_run(folder)
    assert [entry.target.slug for entry in loaded.targets] == [
        "1-lost-some-image-1",
        "2-a-some-image-1",
    ]
    report = workflow.assess([folder])
    assert "ssh: no such host" in report.rows[0].refused[0]
    assert "ssh: no such host" in (folder / "report.md").read_text()


def test_who_waits_is_told_for_whom(tmp_path: Path) -> None:
    told, ready = Silent(), threading.Event()

    def second() -> None:
        with device_lock(tmp_path, "vm-cpu", "second", told):
            ready.set()

    with device_lock(tmp_path, "vm-cpu", "first", Silent()):
        thread = threading.Thread(target=second)
        thread.start()
        while not told.told:
            time.sleep(0.01)
        assert not ready.is_set()
    thread.join(20)
    assert ready.is_set()
    expected = f"waiting for run first, process {os.getpid()}, on this device (vm-cpu)"
    assert told.told == [expected]
    assert not list((tmp_path / "locks").glob("*.txt"))
