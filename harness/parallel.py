"""Jobs side by side, each in a thread, that stop together and leave nothing running."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

#: How often the waiting thread looks for a Ctrl-C, in seconds.
_TICK = 0.2


#: Of the whole process: whoever reports its end must know what any thread could not remove.
_LEFT: list[str] = []


def leave(what: str) -> None:
    """Note in words that something could not be removed, and what becomes of it."""
    _LEFT.append(what)


def left() -> tuple[str, ...]:
    """What could not be removed so far."""
    return tuple(_LEFT)


def interrupt_of_this_thread() -> KeyboardInterrupt | None:
    """The Ctrl-C that this thread is handling right now: the caller is part of a clean-up."""
    handled = sys.exc_info()[1]
    return handled if isinstance(handled, KeyboardInterrupt) else None


class Stopped(KeyboardInterrupt):
    """Raised in a job's thread once the others are to stop: it unwinds as Ctrl-C does."""


class Stop:
    """Asks jobs in other threads to stop, where they look, and ends what they wait for."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._endings: list[Callable[[], None]] = []

    def set(self) -> None:
        """Ask, and end what is waited for; it may be done again."""
        self._event.set()
        for end in tuple(self._endings):
            with contextlib.suppress(Exception):
                end()

    def check(self) -> None:
        """Stop here, if that was asked.

        Raises:
            Stopped: in the thread that looks.
        """
        if self._event.is_set():
            raise Stopped

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Have ``end`` called if all is to stop meanwhile; it must not wait.

        Raises:
            Stopped: instead of whatever comes of it.
        """
        self._endings.append(end)
        try:
            self.check()
            yield
        except Exception:
            self.check()
            raise
        finally:
            self._endings.remove(end)
        self.check()


class _Current(threading.local):
    """A thread that is no job is never asked to stop: it gets the Ctrl-C itself."""

    stop = Stop()


_CURRENT = _Current()


def current() -> Stop:
    """What may ask this thread to stop."""
    return _CURRENT.stop


def side_by_side(
    jobs: Sequence[Callable[[], None]], *, stop: Stop, on_stop: Callable[[], None]
) -> None:
    """Run jobs to their ends, each in its own thread; a single one in this thread.

    Where one fails, or on Ctrl-C, ``stop`` is set and ``on_stop`` called, which is to end what
    the jobs wait for, until the others have ended; then the first error is raised.
    """
    if len(jobs) == 1:
        jobs[0]()
        return
    with ThreadPoolExecutor(max_workers=max(1, len(jobs))) as pool:
        futures: list[Future[None]] = []
        try:
            futures += [pool.submit(_stoppable, job, stop) for job in jobs]
            _watch(futures)
        except BaseException:
            # Again and again: a job may just be about to wait for the next thing.
            while True:
                stop.set()
                on_stop()
                if not wait(futures, timeout=_TICK).not_done:
                    break
            raise


def _stoppable(job: Callable[[], None], stop: Stop) -> None:
    _CURRENT.stop = stop
    try:
        stop.check()
        job()
    finally:
        del _CURRENT.stop


def _watch(futures: Sequence[Future[None]]) -> None:
    """Wait for all; raise the first error as soon as it is there."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=_TICK, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
