"""Jobs side by side, each in a thread, that stop together and leave nothing running."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

#: How often the waiting thread looks for a Ctrl-C, in seconds.
_TICK = 0.2


class Stopped(KeyboardInterrupt):
    """Raised in a job's thread once the others are to stop: it unwinds as Ctrl-C does."""


class Stop:
    """Asks jobs in other threads to stop, where they look."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask."""
        self._event.set()

    def check(self) -> None:
        """Stop here, if that was asked.

        Raises:
            Stopped: in the thread that looks.
        """
        if self._event.is_set():
            raise Stopped


def side_by_side(
    jobs: Sequence[Callable[[], None]], *, stop: Stop, on_stop: Callable[[], None]
) -> None:
    """Run jobs to their ends, each in its own thread; a single one in this thread.

    Where one fails, or on Ctrl-C, ``stop`` is set and ``on_stop`` called, which is to end what
    the jobs wait for; then the others' ends are waited for, and the first error is raised.
    """
    if len(jobs) == 1:
        jobs[0]()
        return
    with ThreadPoolExecutor(max_workers=max(1, len(jobs))) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            _watch(futures)
        except BaseException:
            stop.set()
            on_stop()
            wait(futures)
            raise


def _watch(futures: Sequence[Future[None]]) -> None:
    """Wait for all; raise the first error as soon as it is there."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=_TICK, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
