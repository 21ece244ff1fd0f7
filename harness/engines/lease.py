"""How long an arm's container lives: while somebody says that it is still wanted.

A harness that was killed, or a host that never comes back, says nothing: the container's first
process sees that by itself and ends, and on another host the daemon then removes the container.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from harness.engines import archive
from harness.engines.link import Link
from harness.engines.transport import release

#: Seconds between two renewals.
EVERY = 20.0
_FILE = "lease"
_WATCHDOG = """
import os, time
seen, end = None, time.monotonic() + {lease}
while time.monotonic() < end:
    time.sleep({pause})
    try:
        now = os.stat({file!r}).st_ctime_ns
    except OSError:
        continue
    if now != seen:
        seen, end = now, time.monotonic() + {lease}
"""


def watchdog(root: str, seconds: float) -> str:
    """A container's first process, for ``python -c``: it ends when it was not renewed for long.

    By the container's own clock, and from changes alone: no two clocks are compared.
    """
    pause = min(5.0, seconds / 10)
    return _WATCHDOG.format(lease=seconds, pause=pause, file=f"{root}/{_FILE}")


@contextlib.contextmanager
def renewed(link: Link, container_id: str, root: str) -> Iterator[None]:
    """Renew a container's lease meanwhile, over a connection of its own."""
    ended = threading.Event()
    thread = threading.Thread(
        target=_renew, args=(link, container_id, root, ended), daemon=True, name="lease"
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=1)  # a renewal that hangs is no reason to wait


def _renew(link: Link, container_id: str, root: str, ended: threading.Event) -> None:
    """Nothing that goes wrong here is told: the arm itself meets a lost connection soon enough."""
    data = archive.pack({_FILE: b""}, root)
    while not ended.wait(min(EVERY, link.lease / 4)):
        try:
            with contextlib.closing(link.second()) as api:
                api.put_archive(container_id, "/", data)
        except Exception as error:
            release(error)
