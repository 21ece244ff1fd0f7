"""What several commands share: engines, the cache folder, output, the live display."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from harness import evidence, store
from harness.engines.commands import redact
from harness.errors import HarnessError
from harness.report.text import plain, shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

ENGINES = ("auto", "docker", "local")
#: Columns of a report that goes to a file or to another program.
_PIPED_WIDTH = 160


def root() -> Path:
    """The project that the command was started in."""
    return store.project_root(Path.cwd())


def console() -> Console:
    """What reports are printed on; where it is no terminal, lines are long enough for node IDs."""
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if known else _PIPED_WIDTH)


class Display:
    """Live lines on a terminal, one for each target; plain lines elsewhere. On standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.spinner import Spinner

        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        self._step = Line(what="", started=time.monotonic())
        self._lines: dict[str, Line] = {}
        self._several = False

    def __enter__(self) -> Display:
        from rich.live import Live

        if self._console.is_terminal:
            self._live = Live(get_renderable=self._shown, console=self._console, transient=True)
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
        self._step = Line(what=shown(text), started=time.monotonic())
        if self._live is None or text.startswith(_LASTING):
            self._say(self._step.what)

    def arm(self, case_id: str, target: str, arm: str) -> None:
        """An arm begins."""
        where = shown(f"{case_id} on {target}: {arm}")
        self._lines[target] = Line(what="", where=where, started=time.monotonic())
        self._several = self._several or len(self._lines) > 1
        self._say(f"{where} arm")

    def event(self, target: str, step: str, test: str) -> None:
        """The arm that runs on a target does another step, or another test."""
        line = self._lines[target]
        if self._live is not None and "::" in test:
            test = f"…::{test.partition('::')[2]}"
        what = shown(f"{step} {test}".strip())
        self._lines[target] = Line(what=what, where=line.where, started=line.started)
        if self._live is None:
            self._say(f"  {f'{line.where}: ' if self._several else ''}{what}")

    def done(self, target: str) -> None:
        """A target has run both arms."""
        self._lines.pop(target, None)

    def tick(self) -> None:
        """Nothing is new."""

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, style="dim", soft_wrap=True)

    def _shown(self) -> Text:
        from rich.text import Text

        frame = str(self._spinner.render(self._console.get_time()))
        # A copy in one step: other threads add lines while this one draws.
        lines = list(self._lines.values()) or [self._step]
        text = Text("\n".join(f"{frame} {line.text()}" for line in lines), no_wrap=True)
        text.overflow = "ellipsis"
        return text


#: Steps that stay on a terminal; others say how far something is, and come and go in its line.
_LASTING = (
    "engine",
    "draft",
    "removed",
    "waiting",
    "tag",
    "the base",
    "connect",
    "--image",
    "--ablate",
    "arms",
    "lost",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one live line says; ``started`` is of the monotonic clock, in seconds."""

    what: str
    started: float
    where: str = ""

    def text(self) -> str:
        """The time it has taken so far, which must not be what is cut off, and the rest."""
        words = (f"{time.monotonic() - self.started:.0f} s", self.where, self.what)
        return "  ".join(filter(None, words))


def complete_case(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Case ids for the shell's completion."""
    return [name for name in store.case_names(root()) if name.startswith(incomplete)]


def complete_image(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Image names for the shell's completion."""
    return [name for name in store.image_names(root()) if name.startswith(incomplete)]


def complete_host(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Host names for the shell's completion."""
    names = dict.fromkeys(("local", "all", *store.load_hosts(root())))
    return [name for name in names if name.startswith(incomplete)]


def command_line() -> tuple[str, ...]:
    """The command as it was typed, for the evidence: but for who logs in where."""
    return ("harness", *map(redact, sys.argv[1:]))


def warn(error: HarnessError) -> None:
    """Say that something could not be looked at, and go on."""
    click.echo(f"harness: {plain(str(error))}", err=True)


def write_out(text: str) -> None:
    """Print a whole document on standard output."""
    click.echo(text, nl=not text.endswith("\n"))


def folders(paths: Sequence[Path]) -> list[Path]:
    """All run folders at or below the given paths, each once."""
    return list(dict.fromkeys(run for path in paths for run in evidence.find_runs(path)))
