"""Commands of ours (uv, pip): several at once, their lines as they come, none left behind.

``processes`` is for code that nobody trusts; here it is known what runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.engines.base import OnLine
from harness.errors import EngineError
from harness.parallel import current

_KEPT = 200
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: ``lines`` are its last ones, ``code`` is None after the time limit."""

    code: int | None
    lines: tuple[str, ...]

    def says(self, pattern: str) -> bool:
        """Whether the output matches the regular expression somewhere, in any case."""
        return re.search(pattern, "\n".join(self.lines), re.IGNORECASE) is not None

    def last_words(self, count: int = 12) -> str:
        """The last lines, indented, without credentials or control characters."""
        return "\n".join(f"  | {plain(line)}" for line in self.lines[-count:])


def run_all(
    commands: Sequence[Sequence[str]],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    on_line: OnLine = lambda line: None,
    pass_fds: Sequence[int] = (),
    time_limit: float = 3600.0,
) -> list[Ended]:
    """Run commands at once; none outlives this call, not even on Ctrl-C.

    ``env`` is the whole environment, ``time_limit`` is in seconds and for all together; the
    commands have the file descriptors ``pass_fds`` open.

    Raises:
        EngineError: one cannot be started.
    """
    children: list[subprocess.Popen[bytes]] = []
    try:
        with current().ending(lambda: _kill(children)):
            for argv in commands:
                children.append(_start(argv, env, cwd, pass_fds))
            outputs = [deque[str](maxlen=_KEPT) for _ in children]
            in_time = _read(children, outputs, on_line, time.monotonic() + time_limit)
            codes = [child.wait() if in_time else child.poll() for child in children]
        return [Ended(code=c, lines=tuple(o)) for c, o in zip(codes, outputs, strict=True)]
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if child.stdout:
                child.stdout.close()


def _kill(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """From another thread, which must not wait for them: that is for their own."""
    for child in tuple(children):
        if child.returncode is None:  # else the number may be another's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)


def plain(text: str) -> str:
    """One line that is safe to print: no credentials, no control characters, 500 at most."""
    visible = _ESCAPE.sub("", text.replace("\t", " "))
    return redact("".join(filter(str.isprintable, visible))).rstrip()[:500]


def redact(text: str) -> str:
    """Replace the credentials in every address of the text."""
    return re.sub(r"(?<=://)[^/\s'\"<>]*@", "***@", text)


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    except OSError as error:
        raise EngineError(f"cannot start {argv[0]}: {error}") from error


def _read(
    children: Sequence[subprocess.Popen[bytes]],
    outputs: Sequence[deque[str]],
    on_line: OnLine,
    deadline: float,
) -> bool:
    """Read until all outputs are at their end; False where the time limit came first."""
    rests = [b""] * len(children)
    with selectors.DefaultSelector() as selector:
        for number, child in enumerate(children):
            assert child.stdout is not None
            selector.register(child.stdout, selectors.EVENT_READ, number)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in selector.select(left):
                number = key.data
                data = os.read(key.fd, 1 << 16)
                *lines, rests[number] = (rests[number] + data).split(b"\n")
                if not data:
                    selector.unregister(key.fileobj)
                    lines = [rests[number]] if rests[number] else []
                for line in (raw.decode("utf-8", "replace").rstrip("\r") for raw in lines):
                    outputs[number].append(line)
                    on_line(line)
    return True
