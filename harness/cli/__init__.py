"""The command line: one file a command, loaded when it is used; the only place that prints."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn, TextIO

import click

from harness import __version__
from harness.errors import ExitCode, HarnessError
from harness.parallel import left

#: Command name to (module, one-line help); the module is imported only when it is run.
_COMMANDS = {
    "ab": ("harness.cli.ab", "Run cases in two arms and print the flip table."),
    "new": ("harness.cli.new", "Write a case from a pull request's diff, as a run shows it."),
    "diff": ("harness.cli.diff", "Compare two JUnit files of any runner."),
    "table": (
        "harness.cli.table",
        "Derive one table from evidence folders, also of several hosts.",
    ),
    "image": ("harness.cli.image", "Build, pin and list environments."),
    "doctor": ("harness.cli.doctor", "Say what can run on this machine, and the remedy where not."),
    "completion": ("harness.cli.completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use, so that ``harness --help`` starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of importance."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(_COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Check "fails before my patch, passes after, on this hardware".

    Both arms run in the same image with the same test files; only the patch differs.
    Every cell of the table can be derived again from the evidence folder.

    \b
    Examples:
      harness ab                              every case that fits its default image
      harness ab vllm-53163 --engine local    one case, without Docker
      harness ab --image vllm/vllm-openai:v0.27.0
      harness new --diff pr.diff --image pypi:click==8.1.7
      harness diff before.xml after.xml
      harness doctor

    Exit codes: 0 every claim confirmed, 1 a claim not confirmed or a regression,
    2 bad input, 3 infrastructure or inconclusive, 4 a bug in harness, 130 interrupted.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with a code of ``ExitCode``."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    for name in ("stdout", "stderr"):
        setattr(sys, name, _Lenient(getattr(sys, name)))
    sys.exit(_run(list(sys.argv[1:] if argv is None else argv)))


def _run(argv: list[str]) -> int:
    try:
        result = cli.main(args=argv, prog_name="harness", standalone_mode=False)
        return int(result or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT
    except HarnessError as error:
        _complain(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        if lasting := left():
            _complain("interrupted; evidence so far is kept, but not everything could be removed:")
            for what in lasting:
                click.echo(f"  {what}", err=True)
            return ExitCode.INTERRUPTED
        _complain("interrupted; everything that was started is removed, evidence so far is kept")
        return ExitCode.INTERRUPTED
    except Exception as error:
        import traceback

        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            _complain(f"cannot write: {error.strerror}")
            return ExitCode.INFRASTRUCTURE

        traceback.print_exc()
        _complain("this is a bug in harness: please report it with the lines above")
        return ExitCode.BUG


class _Lenient:
    """A standard stream whose reader may go away (``| head``): the work goes on all the same."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or throw away when nobody reads any more."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._give_up(len(text))

    def flush(self) -> None:
        """Flush, or throw away when nobody reads any more."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._give_up(0)

    def _give_up(self, written: int) -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        return written


def _complain(text: str) -> None:
    click.echo(f"harness: {text}", err=True)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Stop once, also when the terminal is closed; a second signal must not stop the clean-up."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _wait)
    raise KeyboardInterrupt


def _wait(number: int, frame: FrameType | None) -> None:
    _complain("cleaning up; a moment")
