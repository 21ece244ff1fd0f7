"""The connection to a Docker-compatible daemon, here or on another host, and its making again."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from harness.engines.base import OnStep
from harness.engines.commands import redact
from harness.engines.transport import faults, is_cut, is_lost, reason, release
from harness.engines.tunnel import CONNECT, DOCKER_SOCKET, Dropped, Tunnel
from harness.errors import EngineError, EngineUnavailable
from harness.parallel import interrupt_of_this_thread
from harness.settings import LOCAL, Host

if TYPE_CHECKING:
    from docker import APIClient, DockerClient

#: Seconds in which a lost connection to another host is made again, before its arm is given up.
RECONNECT = 120.0
#: Seconds that an arm's container outlives the harness, or the connection to it, by.
LEASE = 600.0
#: How often a call is made again when the connection is lost under it each time.
_TRIES = 4
_TIMEOUT = 120
_PING_TIMEOUT = 10.0
#: Seconds since a connection was lost in which who cleans up after Ctrl-C still tries.
_LAST_TRY = 1.0
T = TypeVar("T")


class Link:
    """One daemon; the connection is made on first use, and again when it is lost.

    ``patience`` and ``lease`` are RECONNECT and LEASE, ``made`` counts how often the connection was
    made again, ``drops`` says so in words, ``tell`` is told when that begins and ends. All may be
    used from several threads.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.patience = RECONNECT
        self.lease = LEASE
        self.made = 0
        self.drops: list[str] = []
        self.tell: OnStep = lambda text: None
        self._client: DockerClient | None = None
        self._tunnel: Tunnel | None = None
        self._address = ""
        self._lock = threading.RLock()
        self._lost: float | None = None
        self._stopped = threading.Event()
        self._ending: list[Callable[[], None]] = []

    @property
    def url(self) -> str:
        """Where the daemon is; empty for the default socket."""
        return self.host.docker or os.environ.get("DOCKER_HOST", "")

    @property
    def remote(self) -> bool:
        """Whether a connection may be lost while the daemon goes on."""
        return bool(self.url) and urlsplit(self.url).scheme != "unix"

    @property
    def name(self) -> str:
        """The host as its owner calls it."""
        unnamed = self.remote and self.host.name == LOCAL
        return redact(self.url) if unnamed else self.host.name

    @property
    def client(self) -> DockerClient:
        """The SDK's client. It stays the same while connections come and go.

        Raises:
            EngineUnavailable: no daemon answers, or one that did does so no more.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connected()
            elif self._tunnel is not None and not self._tunnel.alive:
                self.recover(self.made)
            return self._client

    def second(self, limit: float = _PING_TIMEOUT) -> APIClient:
        """Another connection to the same daemon; it gives up soon, after ``limit`` seconds."""
        assert self._client is not None, "the first connection comes first"
        version = self._client.api.api_version
        return _client(
            self._address, timeout=math.ceil(min(limit, _PING_TIMEOUT)), version=version
        ).api

    def call(self, doing: str, function: Callable[[], T], *, patience: float | None = None) -> T:
        """Call what may be repeated, again where the connection to another host is lost under it.

        ``patience`` is in seconds, where what is done is of use only soon.

        Raises:
            EngineError: the daemon refuses, does not answer any more, or all was stopped.
            KeyboardInterrupt: any of that while one is being handled; it counts for more.
        """
        interrupt, tries = interrupt_of_this_thread(), _TRIES
        while True:
            made = self.made
            try:
                with faults(doing):
                    answer = function()
                self._lost = None
                return answer
            except EngineError as error:
                lost = is_lost(error.__cause__)
                if lost:
                    release(error)
                self.check()
                tries -= 1
                if not (tries and lost and self.remote):
                    if interrupt is not None:
                        raise interrupt from None
                    raise
            self.recover(made, patience=patience)

    def recover(self, made: int, *, patience: float | None = None) -> None:
        """Make a connection to another host again; ``made`` is as it was before it was lost.

        ``patience`` is counted from when the first of all threads found it lost. Who cleans up
        after Ctrl-C has hardly any.

        Raises:
            EngineUnavailable: the host was out of reach for too long.
            EngineError: all was stopped.
            KeyboardInterrupt: the one that is being handled, if there is one, and no connection.
        """
        interrupt = interrupt_of_this_thread()
        with self._lock:
            if made != self.made:
                return  # another thread has done it
            limit = self.patience if patience is None else min(patience, self.patience)
            limit = limit if interrupt is None else min(limit, _LAST_TRY)
            began, pause = self._lost_since(limit), 0.1
            while why := self._silent(
                CONNECT if interrupt is None else began + limit - time.monotonic()
            ):
                lasted = time.monotonic() - began
                if lasted + pause > limit:
                    raise interrupt or self._given_up(lasted, why)
                self._stopped.wait(pause)
                pause = min(2 * pause, 5.0)
            self.made += 1
            self._lost = None
            after = f"made again after {time.monotonic() - began:.1f} s"
            self.drops.append(f"the connection to {self.name} was lost, and {after}")
            if interrupt is None:
                self.tell(f"connection to {self.name} {after}")

    @contextlib.contextmanager
    def once(self, doing: str) -> Iterator[None]:
        """As ``faults``, for what is not made again when the connection is lost under it.

        Raises:
            EngineError: the daemon refuses, or the connection to another host was lost.
        """
        try:
            with faults(doing):
                yield
        except EngineError as error:
            if type(error) is not EngineError or not (self.remote and is_cut(error.__cause__)):
                raise
            release(error)
            self.check()
            raise EngineError(
                f"the connection to {self.name} was lost while {doing}", "Run again."
            ) from None

    def check(self) -> None:
        """Refuse to go on once all was stopped.

        Raises:
            EngineError: it was.
        """
        if self._stopped.is_set():
            raise EngineError("stopped", "Run again.")

    @contextlib.contextmanager
    def stoppable(self, end: Callable[[], None]) -> Iterator[None]:
        """Have ``end`` called if all is stopped meanwhile; it must not wait or raise."""
        self._ending.append(end)
        try:
            self.check()
            yield
        finally:
            self._ending.remove(end)

    def stop(self) -> None:
        """From another thread: end what waits for the daemon; calls are answered to their end."""
        self._stopped.set()
        for end in tuple(self._ending):
            with contextlib.suppress(Exception):
                end()

    def close(self) -> None:
        """Let go of the connection, and of ssh."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None
            if self._tunnel is not None:
                self._tunnel.close()
                self._tunnel = None

    def _connected(self) -> DockerClient:
        self._address = self.url
        if urlsplit(self.url).scheme != "ssh":
            return self._answering()
        try:
            return self._over_ssh()
        except Dropped:
            self.check()
            return self._over_ssh()

    def _over_ssh(self) -> DockerClient:
        self._tunnel = tunnel = Tunnel(self.url, self._stopped)
        try:
            tunnel.open()
            self._address = tunnel.url
            try:
                return self._answering()
            except EngineUnavailable:
                raise tunnel.diagnose() from None
        except BaseException:
            tunnel.close()
            self._tunnel = None
            raise

    def _answering(self) -> DockerClient:
        """A client of the daemon that has answered once.

        Raises:
            EngineUnavailable: no daemon answers, with the remedy.
        """
        import docker.errors

        client = None
        try:
            client = _client(self._address, timeout=_TIMEOUT)
            client.ping()
        except (docker.errors.DockerException, OSError) as error:
            if client is not None:
                client.close()
            why = reason(error, self._address or f"unix://{DOCKER_SOCKET}")
            release(error)
            where = "" if self.host.name == LOCAL else f" on {self.host.name}"
            remedy = "Start Docker (or set DOCKER_HOST), or use --engine local."
            if self.host.docker:
                shown = redact(self.host.docker)
                remedy = f"Start Docker on that host, and check the URL: docker -H {shown} info"
            raise EngineUnavailable(f"no Docker daemon answers{where}: {why}", remedy) from error
        return client

    def _lost_since(self, limit: float) -> float:
        """When the connection was found lost (monotonic, seconds); the first to ask tells it."""
        if self._lost is None:
            self._lost = time.monotonic()
            if interrupt_of_this_thread() is None:
                self.tell(f"connection to {self.name} lost: trying again for up to {limit:.0f} s")
        return self._lost

    def _given_up(self, lasted: float, why: str) -> EngineUnavailable:
        return EngineUnavailable(
            f"the connection to {self.name} was lost, and not to be had again for "
            f"{lasted:.0f} s: {why}",
            "Run again when the host can be reached. What ran there ends and is "
            f"removed by itself within {self.lease / 60:.0f} minutes.",
        )

    def _silent(self, limit: float) -> str:
        """Try to reach the daemon, with a new ssh if need be: why it cannot be, or nothing.

        ``limit`` is in seconds; where it is over already, nothing is tried.
        """
        import docker.errors

        self.check()
        if limit <= 0:
            return "there is no time to try"
        try:
            if self._tunnel is not None and not self._tunnel.alive:
                self._tunnel.open(limit)
            with contextlib.closing(self.second(limit)) as api:
                api.ping()
        except EngineUnavailable as error:
            return error.problem
        except (docker.errors.DockerException, OSError) as error:
            why = reason(error, self._address)
            release(error)
            if self._tunnel is not None:
                self._tunnel.end()
            return why
        return ""


def _client(url: str, *, timeout: int, version: str | None = None) -> DockerClient:
    """As ``docker -H``: where TLS is asked for, its certificates count for every tcp:// URL."""
    import docker

    environment = {**os.environ, "DOCKER_HOST": url}
    return docker.from_env(timeout=timeout, version=version, environment=environment)
