"""The sandbox of one arm in a running container, over the Docker API alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.engines import archive
from harness.engines.base import ExecResult, OnLine
from harness.engines.link import Link
from harness.engines.processes import KILLED
from harness.engines.stream import OUTPUT, Lines, Stream
from harness.engines.toolkit import guest
from harness.engines.transport import faults, is_lost, release
from harness.errors import EngineError

if TYPE_CHECKING:
    from docker import APIClient
    from docker.models.containers import Container

ROOT = "/ab-harness"
#: Spares the caller and the container's first process.
_KILL = "import os; os.kill(-1, 9)"
#: Seconds for the last words of a command that was killed.
_LAST_WORDS = 10.0
#: How often the rest of the output of a command that ended is asked for.
_TRIES = 3
_CONFLICT = 409
_SIGKILL = 128 + 9
#: How a command ended, where that is no exit code: keep.py itself was killed, or nobody knows.
_KILLED = "?"
_UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class ContainerSandbox:
    """A running container, maybe on another host; what runs in it survives a lost connection."""

    link: Link
    container: Container
    python: str
    root: str = ROOT
    disposable: bool = True
    _commands: int = field(default=0, init=False)
    _started: str = field(default="", init=False)
    _drops: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._drops = len(self.link.drops)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, by path relative to ``root``; folders are made."""
        data = archive.pack(files, self.root)
        self.link.call("copying files in", lambda: self.container.put_archive("/", data))

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        time_limit: float,
        on_line: OnLine,
    ) -> ExecResult:
        """Run a command to its end or its time limit (seconds), when all processes are killed.

        It runs under guest/keep.py, so that its output can be read on when a connection is lost.
        """
        deadline = time.monotonic() + time_limit
        self._commands += 1
        log = f"{self.root}/output-{self._commands}"
        lines = Lines(on_line)
        made = self.link.made
        command = self._created("run", log, *argv, env=env, cwd=cwd)
        try:
            ending = self._attend(command, log, lines, deadline)
            if not ending:
                self._kill_all()
                follow = self._created("follow", log, str(lines.size))
                self._read(follow, lines, time.monotonic() + _LAST_WORDS)
                return ExecResult(exit_code=None, timed_out=True)
        finally:
            lines.end()
        return self._result(command, ending, dropped=made != self.link.made)

    def get(self, path: str, *, limit: int) -> bytes | None:
        """Read a regular file relative to ``root``: None where there is none."""
        import docker.errors

        def fetch() -> bytes | None:
            try:
                chunks, _ = self.container.get_archive(f"{self.root}/{path}")
            except docker.errors.NotFound:
                return None
            return archive.unpack_one(chunks, limit)

        return self.link.call("copying files out", fetch)

    def notes(self) -> tuple[str, ...]:
        """What was remarkable so far: connections that were lost and made again."""
        return tuple(self.link.drops[self._drops :])

    def _attend(self, command: str, log: str, lines: Lines, deadline: float) -> str:
        """Hand on a command's output to its end, over as many connections as that takes.

        Returns how it ended: a code, or _KILLED or _UNKNOWN; empty where the deadline came first.
        """
        attached, tries, made = command, _TRIES, self.link.made
        while not (ending := self._read(attached, lines, deadline)):
            if time.monotonic() >= deadline:
                return ""
            if not self._runs():
                return _UNKNOWN
            if made == self.link.made:
                tries -= 1
                if attached is not command:
                    time.sleep(1)
            made = self.link.made
            if not tries:
                return _UNKNOWN
            if attached is not command or self._has_begun(command):
                attached = self._created("follow", log, str(lines.size))
        return ending

    @property
    def _api(self) -> APIClient:
        client = self.container.client
        assert client is not None
        return client.api

    def _created(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: str = "") -> str:
        """The ID of an exec of guest/keep.py, ready to be started."""
        # By its text: code under test cannot have changed it.
        argv = [self.python, "-I", "-S", "-c", guest()["keep.py"].decode(), *arguments]
        return self._exec_created(argv, environment=dict(env or {}), workdir=cwd or None)

    def _exec_created(self, argv: Sequence[str], **options: Any) -> str:
        api = self._api
        return self.link.call(
            "running a command",
            lambda: str(api.exec_create(self.container.id, list(argv), **options)["Id"]),
        )

    def _read(self, exec_id: str, lines: Lines, deadline: float) -> str:
        """Start an exec of keep.py and hand on its output.

        Returns how the command ended, as keep.py says it last; empty before that.
        """
        stream = self._stream(exec_id)
        if stream is None:
            return ""
        words = b""
        with contextlib.closing(stream), self.link.stoppable(stream.cut):
            for kind, data in stream.frames(deadline):
                if kind == OUTPUT:
                    lines.add(data)
                else:
                    words += data
        self.link.check()
        size, _, ending = words.decode("utf-8", "replace").partition(" ")
        if size == str(lines.size) and ending.endswith("\n"):
            return ending.strip()
        if words and not size.isdigit():
            lines.remark(words)  # a Python that cannot run at all, for one
        return ""

    def _stream(self, exec_id: str) -> Stream | None:
        """Start an exec; None where the connection was lost over that, or it cannot be any more.

        It is not simply started again: of an exec that runs already, the daemon complains in the
        midst of what would be its output.
        """
        import docker.errors

        made = self.link.made
        try:
            with faults("running a command"):
                return Stream(self._api, exec_id)
        except EngineError as error:
            cause = error.__cause__
            if isinstance(cause, docker.errors.APIError) and cause.status_code == _CONFLICT:
                return None
            if not (self.link.remote and is_lost(cause)):
                raise
            release(error)
        self.link.recover(made)
        return None

    def _has_begun(self, exec_id: str) -> bool:
        """Whether an exec whose start was not answered was started all the same."""
        for pause in (1.0, 0.0):  # the daemon may just be about to
            state = self._inspected(exec_id)
            if state["Running"] or state["ExitCode"] is not None:
                return True
            time.sleep(pause)
        return False

    def _kill_all(self) -> None:
        """Kill all that runs but the container's first process: its files are still of use.

        Where even that fails, the container goes.
        """
        api = self._api

        def kill() -> bool:
            created = api.exec_create(self.container.id, [self.python, "-I", "-S", "-c", _KILL])
            api.exec_start(created["Id"])
            return bool(api.exec_inspect(created["Id"])["ExitCode"] == 0)

        with contextlib.suppress(EngineError):
            if self.link.call("ending a command", kill):
                return
        self.link.check()
        with contextlib.suppress(EngineError):
            self.link.call("ending a container", self.container.kill)

    def _runs(self) -> bool:
        """Look at the container: whether it still runs, as it was started.

        Raises:
            EngineError: it is gone.
        """
        import docker.errors

        try:
            self.link.call("looking at the container", self.container.reload)
        except EngineError as error:
            if isinstance(error.__cause__, docker.errors.NotFound):
                raise EngineError(
                    "the container is gone: it ended, or somebody removed it, while a command ran",
                    "Look at the daemon's host (memory, docker events), then run again.",
                ) from error
            raise
        state = self.container.attrs["State"]
        self._started = self._started or state["StartedAt"]
        return bool(state["Running"]) and state["StartedAt"] == self._started

    def _result(self, command: str, ending: str, *, dropped: bool) -> ExecResult:
        """``dropped`` says whether the connection was lost, so that the daemon forgot the code."""
        runs = self._runs()
        code = int(ending) if ending.isdecimal() else None
        if code is None and dropped and ending == _KILLED:
            code = _SIGKILL
        elif code is None and runs and not dropped:
            code = self._inspected(command)["ExitCode"]
        state: dict[str, Any] = self.container.attrs["State"]
        if state.get("OOMKilled"):
            return ExecResult(exit_code=code, killed="killed: the container's memory limit")
        if not runs:
            raise EngineError(
                f"the container stopped while a command ran in it (status {state.get('Status')})",
                "Somebody removed or restarted it, or the daemon went down. Run again.",
            )
        if code is None:
            raise EngineError("Docker lost the command's exit code", "Run again.")
        if code == _SIGKILL:
            return ExecResult(exit_code=code, killed=KILLED)
        return ExecResult(exit_code=code, signal=code - 128 if 128 < code < 160 else 0)

    def _inspected(self, exec_id: str) -> dict[str, Any]:
        return self.link.call("looking at a command", lambda: dict(self._api.exec_inspect(exec_id)))
