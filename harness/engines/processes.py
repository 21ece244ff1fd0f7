"""Child processes with a time limit, live lines, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
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
#: Nobody can tell who sent it.
KILLED = "killed by SIGKILL: memory was short, or somebody (the test itself, too) sent it"


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    time_limit: float,
    on_line: OnLine,
) -> ExecResult:
    """Run a command to its end; its processes are gone when this returns, also on Ctrl-C.

    That is its process group and, beyond it, all that carry the MARK, which ``env`` (the whole
    environment) must hold, or that stand in ``cwd``'s folder. ``time_limit`` is in seconds.

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
    except (OSError, ValueError) as error:
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
        kill_marked(env[MARK], str(Path(cwd).parent))
        child.wait()
        reader.join(timeout=10)
    if timed_out:
        return ExecResult(exit_code=None, timed_out=True)
    number = max(0, -child.returncode)
    killed = ""
    if number == signal.SIGKILL:
        killed = KILLED
    return ExecResult(exit_code=child.returncode, signal=number, killed=killed)


def marked(mark: str, folder: str) -> list[int]:
    """Process IDs of all that carry ``mark`` or stand in ``folder`` (Linux; elsewhere none)."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            place = os.readlink(entry / "cwd").removesuffix(" (deleted)")
            inside = place == folder or place.startswith(folder.rstrip("/") + "/")
            if inside or needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def kill_marked(mark: str, folder: str) -> list[int]:
    """Kill every process that carries ``mark`` or stands in ``folder``; return their IDs."""
    killed: list[int] = []
    for _ in range(20):  # a process may fork while it is being looked for
        pids = marked(mark, folder)
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
    """A name for this process that no later process can have: host, boot, namespace, ID, start."""
    return f"{_here()}:{os.getpid()}:{start_time(os.getpid())}"


def is_dead(name: str) -> bool:
    """Whether the process named by ``owner()`` certainly runs no more.

    Of another host, or of another container on this one, nothing can be said: not dead. An
    earlier boot of this host took all its processes along.
    """
    place, _, rest = name.partition(":")
    pid, _, started = rest.partition(":")
    host, boot, space = ([*place.split("/"), "", ""])[:3]
    own_host, own_boot, own_space = _here().split("/")
    if host != own_host or not pid.isdecimal():
        return False
    if boot != own_boot:
        return True
    return space == own_space and start_time(int(pid)) != started


def _here() -> str:
    """Host, boot and process namespace, in which a process ID means something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        boot, space = "unknown", "unknown"
    return f"{socket.gethostname().replace('/', '-').replace(':', '-')}/{boot}/{space}"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _read(stream: IO[bytes], on_line: OnLine) -> None:
    """Hand on lines as they come, a very long one in pieces.

    Whatever becomes of a line, the pipe is read to its end: closing it would kill the child.
    """
    with stream, contextlib.suppress(ValueError, OSError):
        while raw := stream.readline(LINE_LIMIT):
            with contextlib.suppress(Exception, KeyboardInterrupt):
                on_line(raw.decode("utf-8", "replace").rstrip("\r\n"))
