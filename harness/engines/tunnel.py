"""A Docker socket of another host, brought here by one ``ssh`` that forwards it.

The user's own ssh does it, so that ~/.ssh/config, agent, known_hosts and bastions count.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from threading import Event
from urllib.parse import unquote, urlsplit

from harness.engines.commands import plain
from harness.engines.processes import is_dead, owner
from harness.errors import EngineError, EngineUnavailable

DOCKER_SOCKET = "/var/run/docker.sock"
#: Names a configuration file for ssh, instead of the user's own.
SSH_CONFIG = "HARNESS_SSH_CONFIG"
#: Seconds from the start of ssh to its forwarded socket (ssh itself gives up sooner).
CONNECT = 40.0
#: A path of a socket has at most 107 bytes; ssh binds it under a longer name first.
_LONGEST = 80
_LOG_LIMIT = 1 << 16
_PREFIX = "harness-ssh-"
#: Seconds in which ssh ends after its connection did.
_ENDING = 0.5
#: The exit code of ssh where it is not the remote command's.
_SSH_FAILED = 255
_OPTIONS = (
    "BatchMode=yes",
    "ExitOnForwardFailure=yes",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ConnectTimeout=10",
    "StreamLocalBindUnlink=yes",
    "LogLevel=ERROR",
    "RemoteCommand=none",
    "ForwardAgent=no",
    # A connection shared with others would neither end with the harness nor drop for it alone.
    "ControlMaster=no",
    "ControlPath=none",
)
#: The shell becomes ssh; beside it waits what ends ssh when the pipe from the harness ends, which
#: it does also where the harness is killed. Both are one process group, apart from the terminal's.
_WATCHED = """
exec 3<&0 </dev/null
folder=$1
shift
(cat <&3; kill $$; rm -rf "$folder") >/dev/null 2>&1 &
exec "$@" 3<&-
"""
#: What ssh says, and what to do about it. {0} is the destination as a command line has it.
_REMEDIES = (
    ("HAS CHANGED", "the host's key is not the known one",
     "Find out why; then forget the old key (ssh-keygen -R HOST) and connect once by hand: "
     "ssh {0}"),
    ("Host key verification failed", "the host's key is not known",
     "Connect once by hand, and check the key: ssh {0}"),
    ("Permission denied", "the host does not let this user in",
     "Give it your key (ssh-copy-id {0}), and load the key where it has a passphrase (ssh-add)."),
    ("Could not resolve", "the host is not known", "Check the name; try by hand: ssh {0}"),
    ("refused", "the host does not listen", "Check host and port, and that sshd runs: ssh {0}"),
    ("timed out", "the host does not answer", "Check network and firewall; try by hand: ssh {0}"),
    ("No route|unreachable", "the host cannot be reached", "Check the network; try: ssh {0}"),
)  # fmt: skip


class Dropped(EngineUnavailable):
    """The connection was lost while it was made: once more may do."""


class Tunnel:
    """One ssh process, and the local socket that leads to the daemon."""

    def __init__(self, url: str, stopped: Event) -> None:
        """``url`` is ``ssh://[user@]host[:port][/path/of/socket]``; ``stopped`` ends all waiting.

        Raises:
            EngineUnavailable: there is no ssh here.
        """
        if shutil.which("ssh") is None:
            raise EngineUnavailable(
                f"{url} needs ssh, which is not installed here",
                "Install it (apt-get install openssh-client), or give a tcp:// URL.",
            )
        parts = urlsplit(url)
        self._arguments = destination(parts.netloc)
        self.remote_socket = unquote(parts.path.rstrip("/")) or DOCKER_SOCKET
        self._stopped = stopped
        _sweep()
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        if len(folder) > _LONGEST:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
        self._folder = Path(folder)
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The local socket's URL; it stays the same when the tunnel is opened again."""
        return f"unix://{self._folder / 'docker.sock'}"

    @property
    def alive(self) -> bool:
        """Whether ssh still runs; a dead network ends it after 15 seconds."""
        return self._process is not None and self._process.poll() is None

    def open(self, limit: float = CONNECT) -> None:
        """Start ssh (in place of one before) and wait for the socket, ``limit`` seconds at most.

        Raises:
            Dropped: the connection was lost meanwhile.
            EngineUnavailable: the host cannot be had, with what ssh says and the remedy.
            EngineError: it was stopped meanwhile.
        """
        self.end()
        socket = self._folder / "docker.sock"
        self._folder.mkdir(mode=0o700, exist_ok=True)  # the watcher of an ssh before may have ended
        (self._folder / "owner").write_text(owner())
        socket.unlink(missing_ok=True)
        forward = f"{socket}:{self.remote_socket}"
        command = ("sh", "-c", _WATCHED, "sh", str(self._folder), *_ssh("-N", "-L", forward))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                (*command, *self._arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the harness, which still has to clean up
            )
        deadline = time.monotonic() + min(limit, CONNECT)
        while not socket.exists():
            late = time.monotonic() > deadline
            if late or not self.alive or self._stopped.is_set():
                self.end()
                raise self._failure(late)
            time.sleep(0.02)

    def diagnose(self) -> EngineUnavailable:
        """Why the host, which ssh reaches, gives no answer on its socket."""
        if self._has_ended():
            return self._dropped("the connection was lost while it was made")
        path = shlex.quote(self.remote_socket)
        command = (*_ssh(), *self._arguments, f"test -S {path} || exit 11; test -w {path}")
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
            )
            code = done.returncode
        except (OSError, subprocess.SubprocessError):
            code = -1
        if code == _SSH_FAILED:
            said = plain(done.stderr[:_LOG_LIMIT].decode("utf-8", "replace")).strip()
            return self._dropped(f"the connection was lost again{said and f' ({said[-300:]})'}")
        where = f"{self._arguments[-1]} is reached, but "
        if code == 11:
            return EngineUnavailable(
                f"{where}there is no socket {self.remote_socket}",
                "Start Docker there; rootless Docker and podman: give the path of their socket, "
                "ssh://user@host/run/user/1000/docker.sock.",
            )
        if code == 1:
            return EngineUnavailable(
                f"{where}its user may not use {self.remote_socket}",
                "Add the user to the group docker there, and log out everywhere; or give the "
                "path of a socket that it may use.",
            )
        return EngineUnavailable(
            f"{where}no Docker answers on {self.remote_socket}",
            "Is the daemon running there (docker info)? Does its sshd allow forwarding "
            "(AllowStreamLocalForwarding)?",
        )

    def close(self) -> None:
        """End ssh and remove the socket."""
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def end(self) -> None:
        """End ssh; the tunnel may be opened again."""
        if self._process is None:
            return
        process, self._process = self._process, None
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=3)
                break
        assert process.stdin is not None
        process.stdin.close()  # only now: its end is a sign for the watcher, if that still lives

    def _has_ended(self) -> bool:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_ENDING)
        return not self.alive

    def _dropped(self, what: str) -> Dropped:
        return Dropped(
            f"ssh to {self._arguments[-1]}: {what}",
            f"Run again; if that is no better, try by hand: ssh {_by_hand(self._arguments)}",
        )

    def _failure(self, late: bool) -> EngineError:
        if self._stopped.is_set():
            return EngineError("stopped while connecting")
        with contextlib.suppress(OSError):
            if log := self._log.read_bytes()[:_LOG_LIMIT].strip():
                return explain(log, self._arguments)
        if late:
            return EngineUnavailable(
                f"ssh to {self._arguments[-1]}: no connection in time, and no word why",
                f"Check the network; try by hand: ssh {_by_hand(self._arguments)}",
            )
        return self._dropped("the connection was lost while it was made")


def _sweep() -> None:
    """Remove what runs left that were killed between two ssh, when nobody watched over it."""
    for place in {tempfile.gettempdir(), "/tmp"}:
        for folder in Path(place).glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if is_dead((folder / "owner").read_text()):
                    shutil.rmtree(folder)


def _by_hand(arguments: tuple[str, ...]) -> str:
    return shlex.join(argument for argument in arguments if argument != "--")


def explain(log: bytes, arguments: tuple[str, ...]) -> EngineUnavailable:
    """What ssh's own words mean; ``arguments`` are what names the host on its command line."""
    text = log.decode("utf-8", "replace")
    lines = [plain(line).strip() for line in text.splitlines() if line.strip()]
    said = lines[-1][:300] if lines else "it did not say why"
    by_hand = _by_hand(arguments)
    for words, meaning, remedy in _REMEDIES:
        if any(word in text for word in words.split("|")):
            return EngineUnavailable(
                f"ssh to {arguments[-1]}: {meaning} ({said})", remedy.format(by_hand)
            )
    return Dropped(
        f"ssh to {arguments[-1]} failed: {said}", f"Run again, or try by hand: ssh {by_hand}"
    )


def _ssh(*own: str) -> tuple[str, ...]:
    config = os.environ.get(SSH_CONFIG)
    chosen = ("-F", config) if config else ()
    return ("ssh", *chosen, *(part for option in _OPTIONS for part in ("-o", option)), "-T", *own)


def destination(place: str) -> tuple[str, ...]:
    """The arguments of ssh for ``[user@]host[:port]``.

    Names keep their case, as ``Host`` in its configuration has them.
    """
    user, _, host = place.rpartition("@")
    name, colon, port = host.rpartition(":")
    if host.endswith("]") or not colon:
        name, port = host, ""
    name = name.strip("[]")
    return (*(("-p", port) if port else ()), "--", f"{user}@{name}" if user else name)
