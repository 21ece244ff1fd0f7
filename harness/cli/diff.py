"""``harness diff``: any two JUnit files."""

from __future__ import annotations

from pathlib import Path

import click

from harness import flips, junit
from harness.cli import common
from harness.errors import BadInput, ExitCode
from harness.report import jsondoc, markdown, terminal

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a block for a pull request.")
def diff(before: Path, after: Path, as_json: bool, as_markdown: bool) -> int:
    """Compare two JUnit files, test by test: pytest, JUnit 5, gotestsum, ctest, googletest …

    Exit code 1 when a test that passed before fails afterwards or is gone: missing is
    never a pass. Exit code 3 when one that passed has no result afterwards (stopped, not
    run), and 2 when a file cannot be read as JUnit.

    \b
    Examples:
      harness diff before.xml after.xml
      harness diff main.xml branch.xml --json
    """
    table = flips.diff(_read(before), _read(after))
    if as_json:
        common.write_out(jsondoc.dumps(jsondoc.diff_document(table, str(before), str(after))))
    elif as_markdown:
        common.write_out(markdown.render_diff(table, str(before), str(after)))
    else:
        terminal.render_diff(table, str(before), str(after), common.console())
    if table.worse:
        return ExitCode.NOT_CONFIRMED
    return ExitCode.INFRASTRUCTURE if table.inconclusive else ExitCode.CONFIRMED


def _read(path: Path) -> junit.Document:
    try:
        with path.open("rb") as stream:
            return junit.read(stream, where=str(path), texts=True)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
