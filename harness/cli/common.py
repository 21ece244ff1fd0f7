"""What several commands share: engines, the cache folder, output, the live display."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from harness import evidence, store
from harness.errors import HarnessError
from harness.report.text import plain, shown

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner

ENGINES = ("auto", "docker", "local")


def root() -> Path:
    """The project that the command was started in."""
    return store.project_root(Path.cwd())


class Display:
    """A live line on a terminal, plain lines elsewhere; always on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._live: Live | None = None
        self._started = time.monotonic()
        self._where = ""
        self._what = ""

    def __enter__(self) -> Display:
        from rich.live import Live

        if self._console.is_terminal:
            self._live = Live(get_renderable=self._line, console=self._console, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def step(self, text: str) -> None:
        """Something is being prepared."""
        self._what = shown(text)
        if self._live is None or text.startswith(("engine", "removed", "waiting")):
            self._say(self._what)

    def arm(self, case_id: str, target: str, arm: str) -> None:
        """An arm begins."""
        self._where = shown(f"{case_id} on {target}: {arm}")
        self._started = time.monotonic()
        self._say(f"{self._where} arm")

    def event(self, step: str, test: str) -> None:
        """The arm does another step, or another test."""
        self._what = shown(f"{step} {test}".strip())
        if self._live is None:
            self._say(f"  {self._what}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, style="dim", soft_wrap=True)

    def _line(self) -> Spinner:
        from rich.spinner import Spinner
        from rich.text import Text

        elapsed = time.monotonic() - self._started
        text = f"{self._where}  {self._what}  {elapsed:.0f} s"
        return Spinner("dots", text=Text(text, overflow="ellipsis", no_wrap=True))


def complete_case(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Case ids for the shell's completion."""
    return [name for name in store.case_names(root()) if name.startswith(incomplete)]


def complete_image(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Image names for the shell's completion."""
    return [name for name in store.image_names(root()) if name.startswith(incomplete)]


def command_line() -> tuple[str, ...]:
    """The command as it was typed, for the evidence."""
    return ("harness", *sys.argv[1:])


def warn(error: HarnessError) -> None:
    """Say that something could not be looked at, and go on."""
    click.echo(f"harness: {plain(str(error))}", err=True)


def write_out(text: str) -> None:
    """Print a whole document on standard output."""
    click.echo(text, nl=not text.endswith("\n"))


def folders(paths: Sequence[Path]) -> list[Path]:
    """All run folders at or below the given paths, each once."""
    return list(dict.fromkeys(run for path in paths for run in evidence.find_runs(path)))
