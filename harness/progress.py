"""What a live display is told, by any thread; and a chance for those threads to stop."""

from __future__ import annotations

from typing import Protocol

from harness.parallel import Stop


class Progress(Protocol):
    """What a live display is told, from any thread."""

    def step(self, text: str) -> None:
        """Something is being prepared."""

    def arm(self, case_id: str, target: str, arm: str) -> None:
        """An arm begins."""

    def event(self, target: str, step: str, test: str) -> None:
        """The arm that runs on a target does another step, or another test."""

    def done(self, target: str) -> None:
        """A target has run both arms."""

    def tick(self) -> None:
        """Nothing is new; a chance to stop."""


class Stoppable:
    """Hands on to a display, and raises Stopped in a thread that tells it something too late."""

    def __init__(self, progress: Progress, stop: Stop) -> None:
        self._progress, self._stop = progress, stop

    def step(self, text: str) -> None:
        """Something is being prepared."""
        self._stop.check()
        self._progress.step(text)

    def arm(self, case_id: str, target: str, arm: str) -> None:
        """An arm begins."""
        self._stop.check()
        self._progress.arm(case_id, target, arm)

    def event(self, target: str, step: str, test: str) -> None:
        """The arm that runs on a target does another step, or another test."""
        self._stop.check()
        self._progress.event(target, step, test)

    def done(self, target: str) -> None:
        """A target has run both arms."""
        self._progress.done(target)

    def tick(self) -> None:
        """Stop here, if that was asked."""
        self._stop.check()
