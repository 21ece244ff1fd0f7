"""``harness table``: the report again, from evidence alone."""

from __future__ import annotations

from pathlib import Path

import click

from harness import workflow
from harness.cli import common
from harness.report import jsondoc, markdown, terminal

FORMATS = ("markdown", "terminal", "json")


@click.command()
@click.argument("evidence", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="markdown",
    show_default=True,
    help="How to print it.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def table(evidence: tuple[Path, ...], form: str, as_json: bool) -> int:
    """Derive one table from evidence folders, also of runs made on different hosts.

    EVIDENCE is a folder that `harness ab` wrote, or one above it. Every cell is
    computed again from the raw JUnit files and journals. Runs of another case, patch
    or test file are refused: one table shows one claim.

    \b
    Examples:
      harness table reports/vllm-53163/20261201T140501Z-1a2b3c
      harness table reports/vllm-53163 > pull-request.md
      harness table from-host-a from-host-b --format terminal
    """
    report = workflow.assess(common.folders(evidence), one_case=True)
    if as_json or form == "json":
        common.write_out(jsondoc.dumps(jsondoc.document(report)))
    elif form == "markdown":
        common.write_out(markdown.render(report))
    else:
        terminal.render(report, common.console())
    return report.overall.exit_code
