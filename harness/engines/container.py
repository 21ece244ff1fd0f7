"""The sandbox of one arm in a running container, over the Docker API alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.engines import archive
from harness.engines.base import ExecResult, OnLine
from harness.engines.processes import KILLED
from harness.errors import EngineError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

ROOT = "/ab-harness"
_LINE = 1 << 16


@contextlib.contextmanager
def faults(doing: str) -> Iterator[None]:
    """Turn whatever the SDK and its transport raise into an EngineError that says what was done."""
    import docker.errors
    import requests

    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        text = getattr(error, "explanation", None) or str(error)
        raise EngineError(f"Docker failed while {doing}: {text}") from error


@dataclass(slots=True, kw_only=True)
class ContainerSandbox:
    """A running container."""

    client: DockerClient
    container: Container
    python: str
    root: str = ROOT
    disposable: bool = True
    timed_out: bool = field(default=False)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, by path relative to ``root``; folders are made."""
        with faults("copying files in"):
            self.container.put_archive("/", archive.pack(files, self.root))

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        time_limit: float,
        on_line: OnLine,
    ) -> ExecResult:
        """Run a command to its end or its time limit (seconds), when all processes are killed."""
        from docker.utils.socket import frames_iter

        api = self.client.api
        with faults("running a command"):
            created = api.exec_create(
                self.container.id, list(argv), environment=dict(env), workdir=cwd
            )
            # The socket itself: the SDK's stream=True never closes its connection.
            stream = api.exec_start(created["Id"], socket=True)
            timer = threading.Timer(time_limit, self._time_out)
            timer.daemon = True
            timer.start()
            try:
                frames = frames_iter(stream, tty=False)  # type: ignore[no-untyped-call]
                _lines((data for _, data in frames), on_line)
            finally:
                timer.cancel()
                _close(stream)
            if self.timed_out:
                self.timed_out = False
                return ExecResult(exit_code=None, timed_out=True)
            code = api.exec_inspect(created["Id"])["ExitCode"]
            self.container.reload()
        return self._result(code)

    def get(self, path: str, *, limit: int) -> bytes | None:
        """Read a regular file relative to ``root``: None where there is none."""
        import docker.errors

        with faults("copying files out"):
            try:
                chunks, _ = self.container.get_archive(f"{self.root}/{path}")
            except docker.errors.NotFound:
                return None
            return archive.unpack_one(chunks, limit)

    def notes(self) -> tuple[str, ...]:
        """What was remarkable so far."""
        return ()

    def _time_out(self) -> None:
        """Kill all that runs but the container itself, whose files are still to be looked at.

        On a timer's thread. Where even that fails, the container goes, which ends the exec.
        """
        self.timed_out = True
        code = "import os; os.kill(-1, 9)"  # spares the caller and the container's first process
        try:
            created = self.client.api.exec_create(self.container.id, [self.python, "-c", code])
            self.client.api.exec_start(created["Id"], detach=True)
        except Exception:
            with contextlib.suppress(Exception):
                self.container.kill()

    def _result(self, code: int | None) -> ExecResult:
        state: dict[str, Any] = self.container.attrs["State"]
        if state.get("OOMKilled"):
            return ExecResult(exit_code=code, killed="killed: the container's memory limit")
        if not state.get("Running"):
            raise EngineError(
                f"the container stopped while a command ran in it (status {state.get('Status')})",
                "Somebody removed it, or the daemon went down. Run again.",
            )
        if code is None:
            raise EngineError("Docker lost the command's exit code", "Run again.")
        if code == 128 + 9:
            return ExecResult(
                exit_code=code,
                killed=KILLED,
            )
        return ExecResult(exit_code=code, signal=code - 128 if 128 < code < 160 else 0)


def _close(stream: Any) -> None:
    """Close the connection of an exec, whatever layer of it the SDK handed out."""
    response = getattr(stream, "_response", None)
    for layer in (response, stream):
        if layer is not None:
            with contextlib.suppress(OSError):
                layer.close()


def _lines(chunks: Iterator[bytes], on_line: OnLine) -> None:
    """Cut a stream of bytes into lines; a very long line is handed on in pieces."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode("utf-8", "replace").rstrip("\r"))
        if len(rest) > _LINE:
            on_line(rest.decode("utf-8", "replace"))
            rest = b""
    if rest:
        on_line(rest.decode("utf-8", "replace"))
