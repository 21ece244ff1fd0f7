"""The output of a command in a container: read as it comes, told apart, cut into lines."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.engines.base import OnLine

if TYPE_CHECKING:
    from docker import APIClient
    from requests import Response

#: How the daemon marks what comes next: 1 is standard output, 2 standard error.
_HEADER = struct.Struct(">BxxxL")
OUTPUT = 1
_CHUNK = 1 << 16
_LINE = 1 << 16


def cutter(response: Response) -> Callable[[], None]:
    """What ends the connection of an answer that is being read, from any thread."""

    def cut() -> None:
        with contextlib.suppress(OSError, AttributeError):
            # As the SDK itself gets at the socket: requests has no way of its own.
            file: Any = response.raw._fp
            file.fp.raw._sock.shutdown(socket.SHUT_RDWR)

    return cut


class Stream:
    """A started exec's output, over a connection of its own that any thread may cut."""

    def __init__(self, api: APIClient, exec_id: str) -> None:
        """Start the exec, with whatever the SDK and its transport raise."""
        # The socket itself: the SDK's stream=True never closes its connection.
        handed: Any = api.exec_start(exec_id, socket=True)
        self._response = handed._response
        # The SDK hands out the socket, but the first bytes may be in the buffer around it by now.
        self._file = self._response.raw._fp.fp
        self._socket: socket.socket = getattr(self._file.raw, "_sock", handed)

    def frames(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        """Yield (which stream, bytes) to the end of the connection, or to the deadline.

        The form of a frame is documented at "Attach to a container" of the Docker Engine's API.
        """
        data = b""
        for chunk in self._chunks(deadline):
            data += chunk
            while len(data) >= _HEADER.size:
                kind, size = _HEADER.unpack_from(data)
                part = data[_HEADER.size : _HEADER.size + size]
                if len(part) < size:
                    break
                data = data[_HEADER.size + size :]
                yield kind, part

    def cut(self) -> None:
        """End the connection, from any thread; whoever reads it meets its end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        for layer in (self._response, self._file):
            with contextlib.suppress(OSError):
                layer.close()

    def _chunks(self, deadline: float) -> Iterator[bytes]:
        """A connection that breaks has ended, like one that was closed."""
        yield self._buffered()
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if not self._pending() and not poll.poll(left * 1000):
                return
            try:
                chunk = self._file.read1(_CHUNK)
            except OSError:
                return
            if not chunk:
                return
            yield chunk

    def _buffered(self) -> bytes:
        """What came together with the answer's header."""
        self._socket.setblocking(False)
        try:
            return self._file.read1(_CHUNK) or b""
        except (ssl.SSLWantReadError, ConnectionError):
            return b""
        finally:
            self._socket.setblocking(True)

    def _pending(self) -> bool:
        """Whether TLS has bytes already that the socket has no more."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0


class Lines:
    """Cuts bytes into lines; a very long line is handed on in pieces. ``size`` counts the bytes."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._rest = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        """Hand on the lines that are whole now."""
        self.size += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode("utf-8", "replace").rstrip("\r"))
        if len(self._rest) > _LINE:
            self.end()

    def end(self) -> None:
        """Hand on what has no line end."""
        if self._rest:
            self._on_line(self._rest.decode("utf-8", "replace"))
        self._rest = b""

    def remark(self, words: bytes) -> None:
        """Hand on what is not of the command itself."""
        for line in words.decode("utf-8", "replace").splitlines():
            self._on_line(line)
