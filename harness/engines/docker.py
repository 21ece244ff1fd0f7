"""The Docker engine: a fresh container an arm, from the same image ID, over the API alone.

Nothing of the host is mounted, so that a remote daemon works like a local one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engines import archive
from harness.engines.base import Environment, ExecResult, OnLine, OnStep, Sandbox
from harness.engines.processes import is_alive, owner
from harness.errors import EngineError, EngineUnavailable, ImageUnavailable
from harness.image import Image
from harness.record import ImageIdentity

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "ab-harness.owner"
ROOT = "/ab-harness"
#: Made by .ci/make-base on a machine that reaches no registry of images.
OWN_BASE = "harness-base:bookworm"
GIB = 1 << 30
#: A container outlives a harness that was killed by at most this many seconds.
LIFETIME = 24 * 3600
PIDS = 4096
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
class DockerSandbox:
    """A running container."""

    client: DockerClient
    container: Container
    python: str
    root: str = ROOT
    disposable: bool = True
    killed: bool = field(default=False)

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
        """Run a command to its end or its time limit (seconds); at the limit the container dies."""
        from docker.utils.socket import frames_iter

        api = self.client.api
        with faults("running a command"):
            created = api.exec_create(
                self.container.id, list(argv), environment=dict(env), workdir=cwd
            )
            timer = threading.Timer(time_limit, self._time_out)
            timer.start()
            # The socket itself: the SDK's stream=True never closes its connection.
            stream = api.exec_start(created["Id"], socket=True)
            try:
                frames = frames_iter(stream, tty=False)  # type: ignore[no-untyped-call]
                _lines((data for _, data in frames), on_line)
            finally:
                timer.cancel()
                _close(stream)
            if self.killed:
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

    def _time_out(self) -> None:
        self.killed = True
        with contextlib.suppress(Exception):  # on a timer's thread: the waiting side reports
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
            return ExecResult(exit_code=code, killed="killed by SIGKILL from outside the tests")
        return ExecResult(exit_code=code, signal=code - 128 if 128 < code < 160 else 0)


class DockerEngine:
    """Starts each arm in a container without network, capabilities or anything of the host."""

    name = "docker"
    isolation = "a container without network and capabilities, nothing of the host in it"

    def __init__(self, *, base: str | None = None) -> None:
        self._base = base
        self._client: DockerClient | None = None

    @property
    def client(self) -> DockerClient:
        """The connection, made on first use (DOCKER_HOST and contexts as Docker has them).

        Raises:
            EngineUnavailable: there is no daemon, with the remedy.
        """
        if self._client is None:
            import docker
            import docker.errors

            try:
                self._client = docker.from_env(timeout=120)
                self._client.ping()
            except (docker.errors.DockerException, OSError) as error:
                self._client = None
                raise EngineUnavailable(
                    f"no Docker daemon answers: {_first_line(error)}",
                    "Start Docker (or set DOCKER_HOST), or use --engine local.",
                ) from error
        return self._client

    def unavailable(self) -> str:
        """Why the engine cannot be used here, with the remedy; empty where it can."""
        try:
            self.client  # noqa: B018 - connecting is the point
        except EngineUnavailable as error:
            return str(error)
        return ""

    def has(self, image: Image) -> str:
        """The image ID on the daemon, or an empty string."""
        with faults("looking for the image"):
            return self._find(image)

    def prepare(self, image: Image, *, on_step: OnStep) -> Environment:
        """Find, build or pull the image, and return its ID.

        Raises:
            ImageUnavailable: it is not here and cannot be had, with the reason and the remedy.
        """
        if image.container is None:
            raise ImageUnavailable(
                f"image {image.name} has no [container]: Docker cannot run it",
                "Use --engine local, or add [container] to its image.toml.",
            )
        with faults(f"preparing image {image.name}"):
            found = self._find(image)
            if not found:
                found = self._make(image, on_step)
            return self._environment(image, found)

    @contextlib.contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Sandbox]:
        """Start a container; it is removed, with all in it, when the context ends."""
        with faults("starting a container"):
            container = self.client.containers.create(
                environment.handle, **self._options(label, environment)
            )
        try:
            with faults("starting a container"):
                container.start()
            sandbox = DockerSandbox(
                client=self.client, container=container, python=environment.python
            )
            sandbox.put({"work/.keep": b"", "site/.keep": b""})
            yield sandbox
        finally:
            with faults("removing a container"):
                _remove(container)

    def reap(self) -> list[str]:
        """Remove the containers of dead runs of this machine."""
        removed = []
        with faults("looking for leftovers"):
            for container in self.client.containers.list(all=True, filters={"label": LABEL}):
                host, _, name = container.labels.get(LABEL, "").partition("/")
                if host == socket.gethostname() and not is_alive(name):
                    _remove(container)
                    removed.append(f"container {container.name}")
        return removed

    def _find(self, image: Image) -> str:
        import docker.errors

        from harness.engines import dockerbuild

        assert image.container is not None
        if image.container.dockerfile:
            return dockerbuild.find(self.client, Path(image.folder), image, self._base)
        try:
            return str(self.client.images.get(image.container.reference).id)
        except docker.errors.ImageNotFound:
            return ""

    def _make(self, image: Image, on_step: OnStep) -> str:
        from harness.engines import dockerbuild

        assert image.container is not None
        folder = Path(image.folder)
        if not image.container.dockerfile:
            return self._pull(image.container.reference, on_step)
        try:
            return dockerbuild.build(self.client, folder, image, self._base, on_step)
        except ImageUnavailable:
            if self._base is not None or not self.client.images.list(name=OWN_BASE):
                raise
            on_step(f"the base {image.container.base} cannot be had; {OWN_BASE} is here instead")
            return dockerbuild.build(self.client, folder, image, OWN_BASE, on_step)

    def _pull(self, reference: str, on_step: OnStep) -> str:
        import docker.errors

        on_step(f"pulling {reference}")
        try:
            for event in self.client.api.pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise ImageUnavailable(*self._no_image(reference, event["error"]))
                on_step(f"pulling {reference}: {event.get('status', '')} {event.get('id', '')}")
            return str(self.client.images.get(reference).id)
        except docker.errors.APIError as error:
            reason = error.explanation or str(error)
            raise ImageUnavailable(*self._no_image(reference, reason)) from error

    def _no_image(self, reference: str, reason: str) -> tuple[str, str]:
        problem = f"image {reference} is not on this machine and cannot be pulled: {reason.strip()}"
        if not self.gpu():
            problem += "; Docker here has no NVIDIA runtime either, so it cannot make a CUDA row"
        return problem, (
            "Pull or load it (docker pull, docker load) on a host that has it and the device; "
            "on a GPU host without Docker: --engine local --python PATH; "
            "without a GPU: harness ab --image vllm-cpu-0.27.0."
        )

    def gpu(self) -> bool:
        """Whether the daemon can hand an NVIDIA device to a container."""
        with faults("asking for runtimes"):
            return "nvidia" in self.client.info().get("Runtimes", {})

    def _environment(self, image: Image, image_id: str) -> Environment:
        assert image.container is not None
        attrs = self.client.images.get(image_id).attrs
        config = dict(v.partition("=")[::2] for v in attrs["Config"].get("Env") or ())
        digests = attrs.get("RepoDigests") or []
        note = digests[0] if digests else "built here, image ID"
        variables = {"PYTHONPATH": config["PYTHONPATH"]} if config.get("PYTHONPATH") else {}
        return Environment(
            identity=ImageIdentity(name=image.name, digest=image_id, note=note),
            handle=image_id,
            python=image.container.python,
            note=image.platform,
            variables=variables,
        )

    def _options(self, label: str, environment: Environment) -> dict[str, Any]:
        import docker.types

        options: dict[str, Any] = {
            "entrypoint": ["sleep"],
            "command": [str(LIFETIME)],
            "name": f"ab-harness-{label}-{os.urandom(3).hex()}",
            "hostname": "arm",
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": PIDS,
            "mem_limit": self._memory(),
            "labels": {LABEL: f"{socket.gethostname()}/{owner()}", "ab-harness.run": label},
            "detach": True,
        }
        if environment.note != "cpu" and self.gpu():
            request = docker.types.DeviceRequest(count=1, capabilities=[["gpu"]])
            options["device_requests"] = [request]
        return options

    def _memory(self) -> int:
        total = int(self.client.info().get("MemTotal", 16 * GIB))
        return min(64 * GIB, total * 9 // 10)


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


def _remove(container: Container) -> None:
    import docker.errors

    with contextlib.suppress(docker.errors.NotFound):
        try:
            container.remove(force=True, v=True)
        except docker.errors.APIError as error:
            if "already in progress" not in str(error):
                raise


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
