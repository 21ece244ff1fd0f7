"""The contracts of an engine: what starts an environment, and the sandbox of one arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.image import Image
from harness.record import ImageIdentity

#: Called with each line that a command in the sandbox prints, without its line end.
OnLine = Callable[[str], None]
#: Called with what is being done now, for the progress display.
OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command in a sandbox ended.

    ``exit_code`` is None after the time limit; ``signal`` is set where a signal
    ended the command; ``killed`` says why the engine itself ended it (memory).
    """

    exit_code: int | None
    timed_out: bool = False
    signal: int = 0
    killed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The one device that arms may use, and no more.

    ``words`` say it in the evidence, ``key`` names the device among those of its host (rows that
    share it take turns), ``options`` are the engine's own way to give it.
    """

    family: str
    key: str
    words: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A prepared image: what arms of a target are started from.

    ``handle`` is the engine's own (an image ID, a folder); ``host`` is the name that the machine
    itself has on which the arms run: two ways to one machine share its devices.
    """

    identity: ImageIdentity
    handle: str
    python: str
    host: str
    access: Access
    variables: Mapping[str, str] = field(default_factory=dict)


class Sandbox(Protocol):
    """A started environment for one arm. Paths are absolute inside the sandbox."""

    root: str
    python: str
    disposable: bool

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, by path relative to ``root``; folders are made."""

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

    def get(self, path: str, *, limit: int) -> bytes | None:
        """Read a file relative to ``root``: None where there is none, cut at ``limit`` bytes."""

    def notes(self) -> tuple[str, ...]:
        """What was remarkable so far, such as a connection that was lost and made again."""


class Engine(Protocol):
    """Starts sandboxes. Every fault of its own is an EngineError."""

    name: str
    isolation: str

    def unavailable(self) -> str:
        """Why the engine cannot be used here, with the remedy; empty where it can."""

    def has(self, image: Image) -> str:
        """The digest of the prepared image on this machine, or an empty string."""

    def prepare(self, image: Image, *, on_step: OnStep) -> Environment:
        """Make the image ready (build, pull or install what is missing)."""

    def open(self, environment: Environment, *, label: str) -> AbstractContextManager[Sandbox]:
        """Start a fresh sandbox; it is gone, with all in it, when the context ends."""

    def reap(self) -> list[str]:
        """Remove what dead runs of this machine left; return what was removed."""

    def stop(self) -> None:
        """From another thread: end all open sandboxes; what runs in them raises EngineError."""

    def close(self) -> None:
        """Let go of connections. No sandbox is open any more."""
