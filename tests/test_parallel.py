from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from harness.parallel import Stop, Stopped, current, side_by_side


def test_jobs_run_at_the_same_time() -> None:
    meet = threading.Barrier(3, timeout=20)  # breaks unless all three are there at once

    def job() -> None:
        meet.wait()

    side_by_side([job, job, job], stop=Stop(), on_stop=lambda: None)


def test_a_single_job_runs_in_this_thread() -> None:
    seen: list[threading.Thread] = []
    side_by_side(
        [lambda: seen.append(threading.current_thread())], stop=Stop(), on_stop=lambda: None
    )
    assert seen == [threading.current_thread()]


def test_no_jobs_no_work() -> None:
    side_by_side([], stop=Stop(), on_stop=lambda: None)


def test_the_first_error_stops_the_others_and_is_raised() -> None:
    stop, freed, ended = Stop(), threading.Event(), threading.Event()

    def fails() -> None:
        raise ValueError("disk full")

    def waits() -> None:
        try:
            assert freed.wait(20)  # what on_stop ends
            stop.check()
        except Stopped:
            ended.set()
            raise

    with pytest.raises(ValueError, match="disk full"):
        side_by_side([waits, fails], stop=stop, on_stop=freed.set)
    assert ended.is_set()


CTRL_C = """
import os, threading
from harness.parallel import Stop, side_by_side
stop, freed = Stop(), threading.Event()
def job():
    try:
        os.write(1, b"up\\n")
        freed.wait()
        stop.check()
    finally:
        os.write(1, b"cleaned\\n")
try:
    side_by_side([job, job], stop=stop, on_stop=freed.set)
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
"""


def test_ctrl_c_lets_every_job_clean_up() -> None:
    child = subprocess.Popen([sys.executable, "-c", CTRL_C], stdout=subprocess.PIPE, text=True)
    with child:
        try:
            assert child.stdout
            assert [child.stdout.readline() for _ in range(2)] == ["up\n", "up\n"]
            time.sleep(0.3)
            os.kill(child.pid, signal.SIGINT)
            rest = child.stdout.read().splitlines()
            assert child.wait(20) == 0
        finally:
            child.kill()
    assert rest == ["cleaned", "cleaned", "interrupted"]


def test_what_a_job_waits_for_is_ended_also_what_comes_after_it() -> None:
    stop, freed, ended = Stop(), threading.Event(), []

    def waits() -> None:
        with current().ending(freed.set):
            freed.wait(20)
            freed.clear()
            try:
                with current().ending(freed.set):
                    freed.wait(20)
                    raise OSError("the connection was cut")
            except OSError:
                ended.append("an error that the stop caused")
                raise

    def fails() -> None:
        time.sleep(0.2)
        raise ValueError("disk full")

    with pytest.raises(ValueError, match="disk full"):
        side_by_side([waits, fails], stop=stop, on_stop=lambda: None)
    assert not ended
    assert not stop._endings


def test_an_error_without_a_stop_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="mine"), current().ending(lambda: None):
        raise OSError("mine")


def test_a_thread_that_is_no_job_is_never_stopped() -> None:
    stop = Stop()
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, lambda: None], stop=stop, on_stop=lambda: None)  # type: ignore[list-item, return-value]
    current().check()
    with pytest.raises(Stopped):
        stop.check()
