"""The local engine: no container. It isolates nothing, and every row says so.

Each arm gets its own folder, at the same path in both arms, with its own copy of the
package under test first on PYTHONPATH. The environment itself is made read-only, by a
private mount where that is possible, and looked at again after each arm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.device import Device
from harness.engines import locked
from harness.engines.access import local_access
from harness.engines.base import Environment, ExecResult, OnLine, OnStep, Sandbox
from harness.engines.mounts import can_mount, read_only
from harness.engines.processes import MARK, is_dead, kill_marked, owner, run
from harness.engines.toolkit import guest
from harness.engines.tree import remove
from harness.errors import BadInput, EngineError, ImageUnavailable
from harness.image import Image
from harness.record import ImageIdentity

#: The user's variables that reach an arm: what programs and devices need, but no secrets.
_SECRET = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_NAMES = {"PATH", "LANG", "LD_LIBRARY_PATH", "TZ", "SSL_CERT_FILE"}
_PREFIXES = (
    "CUDA_", "NVIDIA_", "NCCL_", "HIP_", "HSA_", "ROCR_", "ROCM_", "ZE_", "SYCL_", "ONEAPI_",
    "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "PYTORCH_", "TRITON_", "VLLM_",
)  # fmt: skip


_LOCKED = {"PYTHONNOUSERSITE": "1"}


@dataclass(slots=True, kw_only=True)
class LocalSandbox:
    """The folder of one arm and how processes are started in it."""

    root: str
    python: str
    mark: str
    prefix: tuple[str, ...]
    stopped: threading.Event
    disposable: bool = False

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, by path relative to ``root``; folders are made."""
        try:
            for name, data in files.items():
                path = Path(self.root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)  # never write through a link that an arm left
                path.write_bytes(data)
        except OSError as error:
            raise EngineError(f"cannot write into the arm's folder: {error}") from error

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        time_limit: float,
        on_line: OnLine,
    ) -> ExecResult:
        """Run a command to its end or its time limit (seconds)."""
        whole = {
            **_inherited(),
            "HOME": f"{self.root}/home",
            "TMPDIR": f"{self.root}/tmp",
            **env,
            MARK: self.mark,  # last: not for a case to set
        }
        self._check()
        result = run(
            (*self.prefix, *argv), env=whole, cwd=cwd, time_limit=time_limit, on_line=on_line
        )
        self._check()
        return result

    def _check(self) -> None:
        if self.stopped.is_set():
            raise EngineError("stopped", "Run again.")

    def get(self, path: str, *, limit: int) -> bytes | None:
        """Read a regular file relative to ``root``: None where there is none."""
        try:
            handle = os.open(Path(self.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(limit)

    def notes(self) -> tuple[str, ...]:
        """What was remarkable so far: nothing is lost between a process and its parent."""
        return ()


class LocalEngine:
    """Starts arms as processes of this machine, from a locked environment or ``--python``."""

    name = "local"
    isolation = "no isolation: the arms run as this user, with this machine's files and network"

    def __init__(
        self, *, cache: Path, python: Path | None = None, device: Device | None = None
    ) -> None:
        # By its real name, which is what Python and pytest report of files below it.
        self._cache = cache.resolve()
        self._python = python
        self._device = device
        self._open: dict[str, str] = {}
        self._stopped = threading.Event()

    def unavailable(self) -> str:
        """Why the engine cannot be used here; empty where it can."""
        if os.name != "posix":
            return "the local engine needs a POSIX system; use Docker"
        return ""

    def has(self, image: Image) -> str:
        """The digest of the environment on this machine, or an empty string."""
        if image.lock is None:
            return ""
        found = locked.find(self._cache, locked.key_of(Path(image.folder), image))
        if found is None:
            return ""
        return f"sha256:{_distributions(str(found / 'bin' / 'python'), _LOCKED)[0]}"

    def prepare(self, image: Image, *, on_step: OnStep) -> Environment:
        """Make the locked environment once, or look at the interpreter that was given.

        Raises:
            ImageUnavailable: the image has no lock, so that only a container engine can run it.
            EngineError: the environment cannot be made.
        """
        if self._python is not None:
            return self._given(self._python)
        if image.lock is None:
            raise ImageUnavailable(
                f"image {image.name} is a container image: the local engine cannot run it",
                "Use --engine docker, or an interpreter that has the package: --python PATH.",
            )
        folder = locked.ensure(Path(image.folder), image, self._cache, on_step)
        python = str(folder / "bin" / "python")
        digest, number = _distributions(python, _LOCKED)
        return self._environment(
            identity=ImageIdentity(
                name=image.name,
                digest=f"sha256:{digest}",
                note=f"{number} distributions from a lock, no container",
            ),
            handle=str(folder),
            python=python,
            # Without the mount, root could write bytecode into the environment.
            variables=_LOCKED if can_mount() else {**_LOCKED, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    @contextlib.contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Sandbox]:
        """Make an arm's folder, and remove it with all its processes at the end.

        Raises:
            EngineError: the folder cannot be made, or the arm changed the environment.
        """
        # A short name, since sockets in TMPDIR may have 107 bytes; the same one for both arms.
        if environment.handle and not Path(environment.handle).is_dir():
            raise EngineError(
                "the environment is gone: the arm before changed it, so it was thrown away",
                "The next run makes it again.",
            )
        run_folder = self._arms / hashlib.sha256(label.encode()).hexdigest()[:8]
        root = run_folder.resolve() / "a"  # as Python will name the files in it
        mark = f"{label}@{owner()}"
        try:
            for name in ("work", "home", "tmp", "site"):
                (root / name).mkdir(parents=True)
            (run_folder / "owner").write_text(mark)
        except OSError as error:
            remove(run_folder)
            raise EngineError(f"cannot make the arm's folder {root}: {error}") from error
        self._open[mark] = str(root)
        try:
            yield LocalSandbox(
                root=str(root),
                python=environment.python,
                mark=mark,
                prefix=read_only(environment.handle),
                stopped=self._stopped,
            )
        finally:
            self._open.pop(mark, None)
            kill_marked(mark, str(root))
            remove(run_folder)
        self._check(environment)

    def reap(self) -> list[str]:
        """Kill and remove what dead runs of this machine left."""
        removed = locked.reap(self._cache)
        for folder in self._arms.glob("*"):
            try:
                mark = (folder / "owner").read_text()
            except OSError:
                mark = ""
            if not (is_dead(mark.rpartition("@")[2]) if mark else _is_old(folder)):
                continue
            if mark:
                kill_marked(mark, str(folder))
            remove(folder)
            removed.append(f"arm folder {folder.name}")
        return removed

    def stop(self) -> None:
        """From another thread: kill what runs in any open sandbox; nothing starts any more."""
        self._stopped.set()
        for mark, root in list(self._open.items()):
            kill_marked(mark, root)

    def close(self) -> None:
        """Nothing is held."""

    def _environment(
        self, *, identity: ImageIdentity, handle: str, python: str, variables: Mapping[str, str]
    ) -> Environment:
        access = local_access(self._device)
        return Environment(
            identity=identity,
            handle=handle,
            python=python,
            host=platform.node(),
            access=access,
            variables={**variables, **access.options},
        )

    @property
    def _arms(self) -> Path:
        return self._cache / "arms"

    def _given(self, python: Path) -> Environment:
        # Not resolved: a virtual environment's interpreter is a link, and its place is its meaning.
        path = os.path.abspath(python)
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            raise BadInput(
                f"--python {python}: not an executable file",
                "Give the path of the interpreter, such as /usr/bin/python3.",
            )
        # Its owner's environment: nothing is to be written there, bytecode neither.
        variables = {"PYTHONDONTWRITEBYTECODE": "1"}
        if os.environ.get("PYTHONPATH"):
            paths = os.environ["PYTHONPATH"].split(":")
            variables["PYTHONPATH"] = ":".join(os.path.abspath(path) for path in paths if path)
        user_base = os.environ.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")
        variables["PYTHONUSERBASE"] = user_base  # HOME differs inside an arm
        digest, number = _distributions(path, variables)
        return self._environment(
            identity=ImageIdentity(
                name="",  # the version of the package under test, as the probe measures it
                digest=f"sha256:{digest}",
                note=f"{number} distributions, no container and no lock",
            ),
            handle="",
            python=path,
            variables=variables,
        )

    def _check(self, environment: Environment) -> None:
        if not environment.handle:
            return
        changes = locked.changed(Path(environment.handle))
        if changes:
            locked.discard(Path(environment.handle))
            raise EngineError(
                f"the arm changed the environment ({changes[0]}, {len(changes)} in all)",
                "The environment was thrown away; the next run makes it again.",
            )


def _distributions(python: str, variables: Mapping[str, str]) -> tuple[str, int]:
    """sha256 over the installed distributions (guest/probe.py says how) and their number."""
    program = guest()["probe.py"].decode()
    argv = [python, "-c", program, "--distributions"]
    env = {**_inherited(), **variables}
    try:
        out = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd="/", env=env)
        digest, number = json.loads(out.stdout)
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        raise EngineError(
            f"{python} does not answer as a Python does ({error})",
            "Is it an interpreter of Python 3.9 or later? Try it by hand.",
        ) from error
    return str(digest), int(number)


def _inherited() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and not _SECRET.search(name)
    }


def _is_old(folder: Path) -> bool:
    """A folder without an owner may just be being made by another run."""
    try:
        return folder.stat().st_mtime < time.time() - 3600
    except OSError:
        return False
