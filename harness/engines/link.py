"""The connection to a Docker-compatible daemon, here or on another host, and its making again."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from harness.engines.commands import plain, redact
from harness.engines.tunnel import Tunnel
from harness.errors import EngineError, EngineUnavailable
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
_PING_TIMEOUT = 10
#: What warnings are shown is of the whole process.
_RELEASING = threading.Lock()
T = TypeVar("T")


class Link:
    """One daemon; the connection is made on first use, and again when it is lost.

    ``patience`` and ``lease`` are RECONNECT and LEASE, ``made`` counts how often the connection was
    made again, ``drops`` says so in words. All may be used from several threads.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.patience = RECONNECT
        self.lease = LEASE
        self.made = 0
        self.drops: list[str] = []
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

    def second(self) -> APIClient:
        """Another connection to the same daemon, for another thread; it gives up soon."""
        assert self._client is not None, "the first connection comes first"
        version = self._client.api.api_version
        return _client(self._address, timeout=_PING_TIMEOUT, version=version).api

    def call(self, doing: str, function: Callable[[], T], *, patience: float | None = None) -> T:
        """Call what may be repeated, again where the connection to another host is lost under it.

        ``patience`` is in seconds, where what is done is of use only soon.

        Raises:
            EngineError: the daemon refuses, does not answer any more, or all was stopped.
        """
        tries = _TRIES
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
                    raise
            self.recover(made, patience=patience)

    def recover(self, made: int, *, patience: float | None = None) -> None:
        """Make a connection to another host again; ``made`` is as it was before it was lost.

        ``patience`` is counted from when the first of all threads found it lost.

        Raises:
            EngineUnavailable: the host was out of reach for too long.
            EngineError: all was stopped.
        """
        with self._lock:
            if made != self.made:
                return  # another thread has done it
            self._lost = began = self._lost or time.monotonic()
            limit = self.patience if patience is None else min(patience, self.patience)
            pause = 0.1
            while reason := self._silent():
                lasted = time.monotonic() - began
                if lasted + pause > limit:
                    raise EngineUnavailable(
                        f"the connection to {self.name} was lost, and not to be had again for "
                        f"{lasted:.0f} s: {reason}",
                        "Run again when the host can be reached. What ran there ends and is "
                        f"removed by itself within {self.lease / 60:.0f} minutes.",
                    )
                self._stopped.wait(pause)
                pause = min(2 * pause, 5.0)
            self.made += 1
            self._lost = None
            lasted = time.monotonic() - began
            self.drops.append(
                f"the connection to {self.name} was lost, and made again after {lasted:.1f} s"
            )

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
            return _answering(self._address)
        self._tunnel = Tunnel(self.url, self._stopped)
        try:
            self._tunnel.open()
            try:
                self._address = self._tunnel.url
                return _answering(self._address)
            except EngineUnavailable:
                raise self._tunnel.diagnose() from None
        except BaseException:
            self._tunnel.close()
            self._tunnel = None
            raise

    def _silent(self) -> str:
        """Try to reach the daemon, with a new ssh if need be: why it cannot be, or nothing."""
        import docker.errors

        self.check()
        try:
            if self._tunnel is not None and not self._tunnel.alive:
                self._tunnel.open()
            with contextlib.closing(self.second()) as api:
                api.ping()
        except EngineUnavailable as error:
            return error.problem
        except (docker.errors.DockerException, OSError) as error:
            reason = _first_line(error)
            release(error)
            if self._tunnel is not None:
                self._tunnel.end()
            return reason
        return ""


def is_lost(error: BaseException | None) -> bool:
    """Whether the connection failed, rather than the daemon refused.

    What requests and urllib3 raise for it are kinds of OSError, and so is the SDK's own
    APIError, an answer of the daemon.
    """
    import docker.errors
    import urllib3.exceptions

    if isinstance(error, docker.errors.DockerException):
        return False
    return isinstance(error, (OSError, urllib3.exceptions.HTTPError))


@contextlib.contextmanager
def faults(doing: str) -> Iterator[None]:
    """Turn whatever the SDK and its transport raise into an EngineError that says what was done."""
    import docker.errors
    import urllib3.exceptions

    try:
        yield
    except (docker.errors.DockerException, urllib3.exceptions.HTTPError, OSError) as error:
        text = getattr(error, "explanation", None) or str(error)
        raise EngineError(
            f"Docker failed while {doing}: {plain(' '.join(text.split()))}"
        ) from error


def _answering(url: str) -> DockerClient:
    """A client of the daemon at ``url`` (empty: the default socket) that has answered once.

    Raises:
        EngineUnavailable: no daemon answers, with the remedy.
    """
    import docker.errors

    client = None
    try:
        client = _client(url, timeout=_TIMEOUT)
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        if client is not None:
            client.close()
        reason = _first_line(error)
        release(error)
        remedy = "Start Docker (or set DOCKER_HOST), or use --engine local."
        if url and url != os.environ.get("DOCKER_HOST"):
            remedy = f"Start Docker on that host, and check the URL: docker -H {redact(url)} info"
        raise EngineUnavailable(f"no Docker daemon answers: {reason}", remedy) from error
    return client


def _client(url: str, *, timeout: int, version: str | None = None) -> DockerClient:
    """As ``docker -H``: where TLS is asked for, its certificates count for every tcp:// URL."""
    import docker

    environment = {**os.environ, "DOCKER_HOST": url}
    return docker.from_env(timeout=timeout, version=version, environment=environment)


def release(error: BaseException | None) -> None:
    """Let go of the socket that the SDK leaves open when it finds no daemon.

    Else it is closed at some later time, with a warning that fails whatever test runs then.
    """
    with _RELEASING, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        gc.collect()


def _first_line(error: BaseException) -> str:
    return plain(str(error)).splitlines()[0] if str(error) else type(error).__name__
