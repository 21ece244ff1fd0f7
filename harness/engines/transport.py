"""What goes wrong on the way to a Docker daemon: told apart, and put in words."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import traceback
import warnings
from collections.abc import Iterator
from urllib.parse import urlsplit

from harness.engines.commands import plain
from harness.errors import EngineError

#: What warnings are shown is of the whole process.
_RELEASING = threading.Lock()


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


def is_cut(error: BaseException | None) -> bool:
    """As ``is_lost``, where other things than the daemon (a disk) may have failed, too."""
    import requests
    import urllib3.exceptions

    kinds = requests.ConnectionError, requests.exceptions.ChunkedEncodingError, ConnectionError
    return is_lost(error) and isinstance(error, (*kinds, urllib3.exceptions.HTTPError))


def reason(error: BaseException, url: str) -> str:
    """Why the daemon at ``url`` does not answer, in words of a user."""
    parts = urlsplit(url)
    unix = parts.scheme == "unix"
    where = parts.path if unix else parts.netloc.rpartition("@")[2]
    said = {
        FileNotFoundError: f"there is no socket {where}",
        PermissionError: f"this user may not use {where}",
        ConnectionRefusedError: f"nothing listens on {where}",
        socket.gaierror: f"the host {parts.hostname} is not known",
        TimeoutError: f"{where} does not answer",
        ConnectionResetError: f"{where} ended the connection",
    }
    for each in _beneath(error):
        for kind, words in said.items():
            if isinstance(each, kind) and (unix or kind is not FileNotFoundError):
                return plain(words)
    return plain(str(error)).splitlines()[0] if str(error) else type(error).__name__


def _beneath(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was made of: requests and urllib3 have them in their own ways."""
    todo, seen = [error], set[int]()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        its = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        todo += [one for one in its if isinstance(one, BaseException)]


def release(error: BaseException | None) -> None:
    """Let go of the socket that the SDK leaves open when it finds no daemon.

    Else it is closed at some later time, with a warning that fails whatever test runs then.
    """
    with _RELEASING, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for each in _beneath(error) if error is not None else ():
            traceback.clear_frames(each.__traceback__)
        gc.collect()
