"""A real Podman with an API service of its own: nothing is shared with another Podman here."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from support.required import lacking

#: .ci/run looks for what carries this name when the tests have ended.
PREFIX = "ab-harness-podman-"
#: The limits, because a machine that is a container itself may not raise them; locks in files,
#: because those in shared memory belong to every Podman of the machine; a command's monitor stays
#: for 20 s after it, and not for 300.
CONF = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
exit_command_delay = 20
"""


class Podman:
    """Storage, settings and socket in one folder; ``url`` is where the service listens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/podman.sock"
        (folder / "containers.conf").write_text(CONF)
        self.log = (folder / "service.log").open("wb")
        self.service = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command("system", "service", "--time=0", self.url),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a signal to the tests' process group is not for it
        )

    def ensure(self) -> None:
        """Start the service again if it has ended by itself: Podman 4.3's was seen to, once a run.

        What it said last is printed, so that it stands beside whatever fails.
        """
        code = self.service.poll()
        if code is not None:
            said = (self.folder / "service.log").read_text(errors="replace")[-3000:]
            print(f"Podman's service had ended with {code}; it said:\n{said}")
            self.service = self._start()
            assert not self.wait()

    def command(self, *arguments: str) -> list[str]:
        """The command line of this Podman, and of no other."""
        folders = [f"--{name}={self.folder / name}" for name in ("root", "runroot", "tmpdir")]
        drivers = ["--storage-driver=overlay", "--cgroup-manager=cgroupfs"]
        return ["podman", *folders, *drivers, *arguments]

    def environment(self) -> dict[str, str]:
        """Nothing of the test that happens to be the first, or of the user's own settings."""
        folder = str(self.folder)
        settings = {"CONTAINERS_CONF": f"{folder}/containers.conf"}
        return {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, **settings}

    def run(self, *arguments: str) -> str:
        """The output of a command of this Podman, which must succeed."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait(self) -> str:
        """Wait until the service answers: an empty string, or its last words."""
        for _ in range(100):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(self.url.removeprefix("unix://"))
                return ""
            if self.service.poll() is not None:
                break
            time.sleep(0.1)
        lines = (self.folder / "service.log").read_text(errors="replace").strip().splitlines()
        return f"Podman's service does not answer: {lines[-1] if lines else 'no output'}"

    def load(self, image: str) -> None:
        """Copy an image of the Docker daemon; 250 MB take 9 s."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as save:
            subprocess.run(
                self.command("load", "--quiet"),
                env=self.environment(),
                stdin=save.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        assert save.returncode == 0

    def close(self) -> None:
        """End all that runs, and remove all that was stored."""
        try:
            self.run("rm", "--all", "--force", "--time=0")
        finally:
            self.service.terminate()
            self.service.wait(timeout=30)
            self.log.close()
            for pid in self._processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for mount in reversed(self._mounts()):
                subprocess.run(["umount", mount], check=True)
            shutil.rmtree(self.folder)

    def _processes(self) -> list[int]:
        """Monitors, and what a build that was given up still runs: its root is in the folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                command = (entry / "cmdline").read_text(errors="replace")
                root = (entry / "mounts").read_text(errors="replace").splitlines()[0]
                if f"{self.folder}/" in command or f"{self.folder}/" in root:
                    found.append(int(entry.name))
        return found

    def _mounts(self) -> list[str]:
        places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        return [place for place in places if place.startswith(f"{self.folder}/")]


@contextlib.contextmanager
def service() -> Iterator[Podman]:
    """A Podman whose service was started; everything of it is gone when the context ends."""
    if not shutil.which("podman") or os.geteuid() != 0:
        lacking("podman is not installed, or this is not root, as whom it is tested")
    # Podman takes no more than 50 characters, and pytest's folder (or TMPDIR) may have more.
    podman = Podman(Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp")))
    try:
        yield podman
    finally:
        podman.close()
