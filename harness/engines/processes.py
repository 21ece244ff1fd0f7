"""Child processes with a time limit, live lines, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from harness.engines.base import ExecResult, OnLine
from harness.errors import EngineError

#: A variable that marks every process of a run, also those that leave its process group.
MARK = "AB_HARNESS_RUN"
LINE_LIMIT = 1 << 16


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    time_limit: float,
    on_line: OnLine,
) -> ExecResult:
    """Run a command; whatever it started is gone when this returns, also on Ctrl-C.

    ``env`` is the whole environment and must hold the MARK. ``time_limit`` is in seconds.

    Raises:
        EngineError: the command cannot be started.
    """
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"cannot start {argv[0]}: {error}") from error
    assert child.stdout is not None
    reader = threading.Thread(target=_read, args=(child.stdout, on_line), daemon=True)
    reader.start()
    timed_out = False
    try:
        child.wait(timeout=time_limit)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(child.pid)
        kill_marked(env[MARK])
        child.wait()
        reader.join(timeout=10)
    if timed_out:
        return ExecResult(exit_code=None, timed_out=True)
    number = max(0, -child.returncode)
    killed = ""
    if number == signal.SIGKILL:
        killed = "killed by SIGKILL from outside; was memory short?"
    return ExecResult(exit_code=child.returncode, signal=number, killed=killed)


def marked(mark: str) -> list[int]:
    """Process IDs of all processes that carry ``mark`` (Linux; elsewhere none are found)."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def kill_marked(mark: str) -> list[int]:
    """Kill every process that carries ``mark`` and return their IDs."""
    killed: list[int] = []
    for _ in range(20):  # a process may fork while it is being looked for
        pids = marked(mark)
        if not pids:
            break
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed += pids
        time.sleep(0.02)
    return sorted(set(killed))


def start_time(pid: int) -> str:
    """When a process started, in kernel ticks; with the ID it names a process for good."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def owner() -> str:
    """A name for this process that no later process on this machine can have."""
    return f"{boot_id()}:{os.getpid()}:{start_time(os.getpid())}"


def is_alive(name: str) -> bool:
    """Whether the process named by ``owner()`` still runs on this machine."""
    boot, _, rest = name.partition(":")
    pid, _, started = rest.partition(":")
    return boot == boot_id() and pid.isdecimal() and start_time(int(pid)) == started != ""


def boot_id() -> str:
    """This boot of this machine (a container on it shares the value)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _read(stream: IO[bytes], on_line: OnLine) -> None:
    """Hand on lines as they come, a very long one in pieces."""
    with stream, contextlib.suppress(ValueError, OSError):
        while raw := stream.readline(LINE_LIMIT):
            on_line(raw.decode("utf-8", "replace").rstrip("\r\n"))
