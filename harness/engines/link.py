"""The connection to a Docker-compatible daemon, here or on another host."""

from __future__ import annotations

import gc
import traceback
import warnings
from typing import TYPE_CHECKING

from harness.errors import EngineUnavailable
from harness.settings import Host

if TYPE_CHECKING:
    from docker import DockerClient


class Link:
    """One daemon; the connection is made on first use."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._client: DockerClient | None = None

    @property
    def client(self) -> DockerClient:
        """The SDK's client.

        Raises:
            EngineUnavailable: no daemon answers, with the remedy.
        """
        if self._client is None:
            import docker
            import docker.errors

            try:
                self._client = docker.from_env(timeout=120)
                self._client.ping()
            except (docker.errors.DockerException, OSError) as error:
                self._client = None
                reason = _first_line(error)
                _release(error)
                raise EngineUnavailable(
                    f"no Docker daemon answers: {reason}",
                    "Start Docker (or set DOCKER_HOST), or use --engine local.",
                ) from error
        return self._client

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _release(error: BaseException) -> None:
    """Let go of the socket that the SDK leaves open when it finds no daemon.

    Else it is closed at some later time, with a warning that fails whatever test runs then.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        link: BaseException | None = error
        while link is not None:
            traceback.clear_frames(link.__traceback__)
            link = link.__cause__ or link.__context__
        gc.collect()


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
