"""One run of a daemon's builder: the context goes in, lines come out, and no layer is left over."""

from __future__ import annotations

import contextlib
import json
import tarfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines import podman
from harness.engines.base import OnStep
from harness.engines.commands import plain
from harness.engines.stream import cutter
from harness.errors import EngineError
from harness.parallel import current, leave

if TYPE_CHECKING:
    from docker import DockerClient

#: On every layer and container of a build, with whose build it is.
BUILD_LABEL = "ab-harness.build"
#: Seconds in which a daemon may still end a build after its connection ended.
CLEANING = 20.0
_CHUNK = 1 << 20
#: Lines of the classic builder, and of uv, that say nothing to a reader.
_BOOKKEEPING = ("--->", "Removing intermediate ", "+ ")


def _tar(folder: Path) -> Iterator[bytes]:
    """The folder as a tar, piece by piece: the wheels are never in memory or twice on the disk."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        info = tarfile.TarInfo(path.relative_to(folder).as_posix())
        info.size, info.mode = path.stat().st_size, 0o644
        yield info.tobuf(tarfile.PAX_FORMAT)
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                current().check()
                yield data
        yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build on the daemon; all that it makes there carries its ``mark`` as a label."""

    client: DockerClient
    name: str
    mark: str
    on_step: OnStep

    def run(self, context: Path, options: dict[str, str]) -> str:
        """Build and return the image's ID.

        The SDK's own ``build`` keeps the connection to itself; ending that is how a build is
        ended, so its session is used as requests has it.
        """
        api, began = self.client.api, time.monotonic()
        fixed = {"t": self.name, "rm": "1", "forcerm": "1"}
        network = {"networkmode": podman.no_network(self.client)}
        try:
            with (
                api.post(
                    f"{api.base_url}/v{api.api_version}/build",
                    params=options | fixed | network,
                    data=_tar(context),
                    headers={"Content-Type": "application/tar"},
                    stream=True,
                    timeout=None,
                ) as response,
                current().ending(cutter(response)),
            ):
                if response.status_code != 200:
                    raise EngineError(f"{self.name}: {plain(response.text)}")
                self._follow(response.iter_lines())
            image_id = str(self.client.images.get(self.name).id)
        except BaseException:
            self._clean_up(time.monotonic() + CLEANING)
            raise
        remove_layers(self.client, self.mark, containers=False)
        self.on_step(f"image built in {time.monotonic() - began:.0f} s")
        return image_id

    def _follow(self, events: Iterator[bytes]) -> None:
        """Hand on the build's lines; an event is any piece of its output, or the error."""
        tail: deque[str] = deque(maxlen=20)
        rest = ""
        for event in map(json.loads, filter(None, events)):
            error = str(event.get("error", ""))
            *lines, rest = f"{rest}{event.get('stream', '')}".split("\n")
            for line in (*lines, rest, *error.splitlines()) if error else lines:
                text = plain(line).strip()
                if text and not text.startswith(_BOOKKEEPING):
                    tail.append(text)
                    self.on_step(text)
            if error:
                words = "\n".join(f"  | {line}" for line in tail)
                raise EngineError(
                    f"building {self.name} failed:\n{words}",
                    "Correct the Dockerfile, the lock or the base image (see the lines above).",
                )

    def _clean_up(self, deadline: float) -> None:
        """Remove what this build made and no image needs; until ``deadline`` more may appear."""
        quiet = 0
        try:
            while quiet < 4 and time.monotonic() < deadline:
                found = remove_layers(self.client, self.mark, containers=True)
                quiet = 0 if found else quiet + 1
                time.sleep(0.25)
        except daemon_errors():
            leave(f"layers of {self.name}: the next run from this machine removes them")


def remove_layers(client: DockerClient, mark: str, *, containers: bool) -> int:
    """Remove the unnamed images (and containers) of a build; return how many there were."""
    import docker.errors

    api, removed = client.api, 0
    filters = {"label": f"{BUILD_LABEL}={mark}"}
    for container in api.containers(all=True, filters=filters) if containers else ():
        with contextlib.suppress(docker.errors.APIError):
            api.remove_container(container["Id"], force=True, v=True)
            removed += 1
    while True:  # a layer can go when those on top of it are gone
        before = removed
        for layer in api.images(all=True, filters=filters):
            if not {*(layer.get("RepoTags") or ())} - {"<none>:<none>"}:
                with contextlib.suppress(docker.errors.APIError):
                    # Podman's builder has containers that it lists nowhere: they go by force.
                    api.remove_image(layer["Id"], noprune=True, force=True)
                    removed += 1
        if removed == before:
            return removed


def daemon_errors() -> tuple[type[Exception], ...]:
    """What the SDK raises when the daemon refuses or does not answer."""
    import docker.errors
    import requests

    return docker.errors.DockerException, requests.RequestException
