"""The making of one locked environment: uv makes and fills it, then it is imported from once."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.engines.base import OnLine, OnStep
from harness.engines.commands import Ended, plain, run_all
from harness.engines.packages import (
    REMEDY,
    PipSettings,
    parse_lock,
    pip_settings,
    uv_argv,
    uv_environment,
    uv_program,
)
from harness.engines.processes import MARK, owner
from harness.engines.tree import remove
from harness.errors import BadInput, EngineError
from harness.image import Lock

#: Seconds for the first import; 35 were measured with vLLM on two cores.
WARM_LIMIT = 900.0
FULL = "Free space on that disk, or move the cache: XDG_CACHE_HOME names its place."
_MARK = "harness imports "
_IMPORT = f"""
import importlib, sys
for name in sys.argv[1:]:
    print({_MARK!r} + name, flush=True)
    importlib.import_module(name)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """One making of an environment; ``held`` is the file descriptor of the lock on it.

    The commands inherit that descriptor: when this process is killed with SIGKILL, what it
    started keeps the lock, so that nobody else begins in the same folder, and carries the mark,
    by which the next process finds and ends it.
    """

    image: str
    lock: Lock
    env: Path
    held: int
    on_step: OnStep

    @property
    def scratch(self) -> Path:
        """A folder for this making alone, with uv's cache and a HOME in it; gone in the end.

        The cache's files become the environment's, by hard links. From the user's own cache
        they would have to be copied (twice the time, measured), as links into it would let
        other environments change this one.
        """
        return self.env.with_name(f"{self.env.name}.tmp")

    def make(self, requirements: Path) -> None:
        """Make, install, import once; the folder is then as it shall stay, and still writable.

        Raises:
            EngineError: with the last words of uv or Python and the remedy.
        """
        began = time.monotonic()
        remove(self.env)
        remove(self.scratch)
        settings = pip_settings()
        self._create(settings)
        self._install(requirements, settings)
        self.on_step(f"packages installed after {time.monotonic() - began:.0f} s")
        with ThreadPoolExecutor(1) as pool:
            removal = pool.submit(remove, self.scratch / "uv")  # 26,000 links: up to 6 s
            if self.lock.warm:
                self._warm_up()
            removal.result()

    def _create(self, settings: PipSettings) -> None:
        version = self.lock.python
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        interpreter = sys.executable if version == ours else version
        self.on_step(f"making an environment with Python {version}")
        ended = self._uv(settings, "venv", "--no-project", f"--python={interpreter}", str(self.env))
        if ended.code != 0:
            raise EngineError(
                f"image {self.image} needs Python {version}, and uv cannot make an environment "
                f"with it:\n{ended.last_words()}",
                _remedy(ended, f"Install Python {version}, or use --engine docker."),
            )

    def _install(self, requirements: Path, settings: PipSettings) -> None:
        try:
            pins = parse_lock(requirements.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise BadInput(f"{requirements}: not UTF-8: {error}") from None
        argv = ["pip", "install", f"--python={self.env}/bin/python", "--no-deps"]
        argv += ["--require-hashes", "--only-binary=:all:", "--link-mode=hardlink"]
        argv += ["-r", str(requirements.absolute()), *uv_argv(settings)]
        self.on_step(f"installing {len(pins)} packages with uv")
        ended = self._uv(settings, *argv)
        local = [f"{pin.name}=={pin.version}" for pin in pins if "+" in pin.version]
        missing = [pin for pin in local if pin in "\n".join(ended.lines)]
        if ended.code != 0 and missing and self.lock.torch_backend:
            self.on_step(f"looking for {missing[0]} in uv's {self.lock.torch_backend} index")
            ended = self._uv(settings, *argv, "--torch-backend", self.lock.torch_backend)
        if ended.code != 0:
            raise EngineError(
                f"uv cannot install the lock of image {self.image}:\n{ended.last_words()}",
                _remedy(ended, REMEDY),
            )

    def _uv(self, settings: PipSettings, *arguments: str) -> Ended:
        argv = [uv_program(), *arguments, "--cache-dir", str(self.scratch / "uv")]
        return self._run(argv, uv_environment(settings), self.env.parent, self._tell)

    def _warm_up(self) -> None:
        """Import once what the arms import; a private HOME keeps the user's settings out of it."""
        began = time.monotonic()
        self.on_step(f"importing {', '.join(self.lock.warm)} once, which compiles them")
        python = str(self.env / "bin" / "python")
        seen: list[str] = []
        home = self.scratch / "home"
        home.mkdir(parents=True)
        path = f"{self.env}/bin:/usr/local/bin:/usr/bin:/bin"
        env = {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8"}
        argv = [python, "-I", "-c", _IMPORT, *self.lock.warm]
        ended = self._run(argv, env, home, seen.append, WARM_LIMIT)
        if ended.code == 0 and "pytest" in self.lock.warm:
            # pytest compiles plugins in its own way, when it loads them.
            argv = [python, "-I", "-m", "pytest", "--help"]
            ended = self._run(argv, env, home, lambda line: None, WARM_LIMIT)
        if ended.code != 0:
            marks = [line.removeprefix(_MARK) for line in seen if line.startswith(_MARK)]
            how = "fails" if ended.code is not None else f"took more than {WARM_LIMIT:.0f} s"
            raise EngineError(
                f"image {self.image}: importing {(marks or ['Python'])[-1]} {how} "
                f"in the new environment:\n{ended.last_words()}",
                _remedy(ended, "Correct lock.warm or the lock, or use --engine docker."),
            )
        self.on_step(f"imported in {time.monotonic() - began:.0f} s")

    def _run(
        self,
        argv: list[str],
        env: dict[str, str],
        cwd: Path,
        on_line: OnLine,
        time_limit: float = 3600.0,
    ) -> Ended:
        (ended,) = run_all(
            [argv],
            env=env | {MARK: mark()},
            cwd=str(cwd),
            on_line=on_line,
            pass_fds=[self.held],
            time_limit=time_limit,
        )
        return ended

    def _tell(self, line: str) -> None:
        if line.strip() and not line.startswith((" + ", "Using ", "Activate ", "Creating ")):
            self.on_step(f"uv: {plain(line.strip())}")


def mark() -> str:
    """What marks every command that this process starts for an environment."""
    return f"environment@{owner()}"


def _remedy(ended: Ended, otherwise: str) -> str:
    return FULL if ended.says("no space left|quota exceeded") else otherwise
