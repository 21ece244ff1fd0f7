"""The local engine: no container. It isolates nothing, and every row says so.

Each arm gets its own folder, at the same path in both arms, with its own copy of the
package under test first on PYTHONPATH. The environment itself is made read-only, by a
private mount where that is possible, and looked at again after each arm.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from harness.engines import locked
from harness.engines.base import Environment, ExecResult, OnLine, OnStep, Sandbox
from harness.engines.processes import MARK, is_alive, kill_marked, owner, run
from harness.engines.toolkit import guest
from harness.errors import EngineError, EngineUnavailable, ImageUnavailable
from harness.image import Image
from harness.record import ImageIdentity

#: The user's variables that reach an arm: what programs and devices need, and no secrets.
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
    disposable: bool = False
    log: list[str] = field(default_factory=list)

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
            MARK: self.mark,
            **env,
        }
        return run(
            (*self.prefix, *argv), env=whole, cwd=cwd, time_limit=time_limit, on_line=on_line
        )

    def get(self, path: str, *, limit: int) -> bytes | None:
        """Read a regular file relative to ``root``: None where there is none."""
        try:
            handle = os.open(Path(self.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(limit)


class LocalEngine:
    """Starts arms as processes of this machine, from a locked environment or ``--python``."""

    name = "local"
    isolation = "no isolation: the arms run as this user, with this machine's files and network"

    def __init__(self, *, cache: Path, python: Path | None = None) -> None:
        self._cache = cache
        self._python = python

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
            return self._given(self._python, image)
        if image.lock is None:
            raise ImageUnavailable(
                f"image {image.name} is a container image: the local engine cannot run it",
                "Use --engine docker, or an interpreter that has the package: --python PATH.",
            )
        folder = locked.ensure(Path(image.folder), image, self._cache, on_step)
        python = str(folder / "bin" / "python")
        digest, number = _distributions(python, _LOCKED)
        return Environment(
            identity=ImageIdentity(
                name=image.name,
                digest=f"sha256:{digest}",
                note=f"{number} distributions from a lock, no container",
            ),
            handle=str(folder),
            python=python,
            # Without the mount, root could write bytecode into the environment.
            variables=_LOCKED if _can_mount() else {**_LOCKED, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    @contextlib.contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Sandbox]:
        """Make an arm's folder, and remove it with all its processes at the end.

        Raises:
            EngineError: the folder cannot be made, or the arm changed the environment.
        """
        run_folder = self._arms / label
        root = run_folder / "arm"
        mark = f"{label}@{owner()}"
        try:
            for name in ("work", "home", "tmp", "site"):
                (root / name).mkdir(parents=True)
            (run_folder / "owner").write_text(mark)
        except OSError as error:
            _remove(run_folder)
            raise EngineError(f"cannot make the arm's folder {root}: {error}") from error
        try:
            yield LocalSandbox(
                root=str(root),
                python=environment.python,
                mark=mark,
                prefix=_read_only(environment.handle),
            )
        finally:
            kill_marked(mark)
            _remove(run_folder)
            self._check(environment)

    def reap(self) -> list[str]:
        """Kill and remove what dead runs of this machine left."""
        removed = locked.reap(self._cache)
        for folder in self._arms.glob("*"):
            try:
                mark = (folder / "owner").read_text()
            except OSError:
                mark = ""
            if mark and is_alive(mark.rpartition("@")[2]):
                continue
            if not mark and folder.stat().st_mtime > _an_hour_ago():
                continue  # just being made by another run
            if mark:
                kill_marked(mark)
            _remove(folder)
            removed.append(f"arm folder {folder.name}")
        return removed

    @property
    def _arms(self) -> Path:
        return self._cache / "arms"

    def _given(self, python: Path, image: Image) -> Environment:
        # Not resolved: a virtual environment's interpreter is a link, and its place is its meaning.
        path = os.path.abspath(python)
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            raise EngineUnavailable(
                f"--python {python}: not an executable file",
                "Give the path of the interpreter, such as /usr/bin/python3.",
            )
        variables = {}
        if os.environ.get("PYTHONPATH"):
            variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
        user_base = os.environ.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")
        variables["PYTHONUSERBASE"] = user_base  # HOME differs inside an arm
        digest, number = _distributions(path, variables)
        return Environment(
            identity=ImageIdentity(
                name=f"{image.name} as found by {path}",
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
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EngineError(f"{python} does not work: {error}", "Try it by hand.") from error
    return str(digest), int(number)


def _inherited() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def _read_only(folder: str) -> tuple[str, ...]:
    """A command prefix that mounts ``folder`` read-only for the arm alone, where that works.

    Only root can; for others the environment's own permissions do, as its files belong to
    no one who may write them.
    """
    return _mounted(folder) if folder and _can_mount() else ()


def _mounted(folder: str) -> tuple[str, ...]:
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, folder)


@cache
def _can_mount() -> bool:
    if platform.system() != "Linux" or os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    argv = (*_mounted(sys.prefix), "true")
    return subprocess.run(argv, capture_output=True, timeout=20).returncode == 0


def _remove(folder: Path) -> None:
    """Remove a folder, also one whose parts were made read-only."""

    def force(function: object, path: str, error: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            os.unlink(path) if not os.path.isdir(path) else shutil.rmtree(path)

    shutil.rmtree(folder, onerror=force)


def _an_hour_ago() -> float:
    return time.time() - 3600
