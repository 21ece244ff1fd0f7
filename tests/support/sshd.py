"""A real sshd on a free port of the loopback device, whose connections can be dropped."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.required import lacking

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
"""
CLIENT = """
Host *
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
"""


class Sshd:
    """The server, its keys, and the configuration of a client that knows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)  # keys are read as the user who logs in
        for name in ("host_key", "user_key", "other_key"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
            subprocess.run(keygen, check=True)
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        self.port = free_port()
        self.config = folder / "client"
        self.config.write_text(CLIENT.format(folder=folder))
        (folder / "server").write_text(CONFIG.format(port=self.port, folder=folder))
        self.know("host_key")
        self._process: subprocess.Popen[bytes] | None = None

    def know(self, key: str) -> None:
        """Let the client expect a key of the server; none where ``key`` is empty."""
        line = ""
        if key:
            kind, text, *_ = (self.folder / f"{key}.pub").read_text().split()
            line = f"[127.0.0.1]:{self.port} {kind} {text}\n"
        (self.folder / "known_hosts").write_text(line)

    def url(self, user: str = "", path: str = "") -> str:
        return f"ssh://{user or getpass.getuser()}@127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        program = shutil.which("sshd", path=PATH)
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-D", "-e", "-f", self.folder / "server"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._listens, "sshd does not listen")

    def sessions(self) -> list[int]:
        """The processes that serve connections."""
        assert self._process is not None
        return descendants(self._process.pid)

    def drop(self) -> int:
        """Cut all connections; the server listens on. Returns how many processes that took."""
        sessions = self.sessions()
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(sessions)

    def stop(self) -> None:
        """Cut all connections and listen no more."""
        if self._process is None:
            return
        sessions = self.sessions()
        self._process.kill()  # first, so that nobody comes in
        self._process.wait()
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process = None

    def clients(self) -> list[int]:
        """All ssh processes of this machine that lead to this server."""
        return [pid for pid in self.left() if commands().get(pid, [""])[0] == "ssh"]

    def left(self) -> list[int]:
        """Those, and what watches over them."""
        port = str(self.port)
        return [
            pid
            for pid, arguments in commands().items()
            if "-p" in arguments and port in arguments and "-N" in arguments
        ]

    def folders(self) -> set[Path]:
        """Where the forwarded sockets of those clients lie."""
        found = set()
        for pid in self.clients():
            for part in commands().get(pid, []):
                local, colon, _ = part.partition(":")
                if colon and local.startswith("/") and local.endswith("/docker.sock"):
                    found.add(Path(local).parent)
        return found

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@contextlib.contextmanager
def running() -> Iterator[Sshd]:
    """Start a server, or say what this machine lacks for it."""
    for program in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(program, path=PATH) is None:
            lacking(f"{program} is not installed")
    with tempfile.TemporaryDirectory(prefix="sshd-test-") as folder:
        server = Sshd(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()
            for pid in server.left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def wait_for(holds: Callable[[], object], otherwise: str, seconds: float = 10.0) -> None:
    """Wait until something is true; fail with ``otherwise``."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def commands() -> dict[int, list[str]]:
    """The command lines of all processes, by ID."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            found[int(entry.name)] = text.split("\0")
    return found


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and so on."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        children = [child for child, its in parents.items() if its == parent]
        found += children
        todo += children
    return found
