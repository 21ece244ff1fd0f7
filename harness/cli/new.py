"""``harness new``: a case from a pull request's diff, or from two revisions of a repository."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from harness import change, drafting, store, targets
from harness.case import Role
from harness.cli import common
from harness.device import parse_device
from harness.draft_text import to_fill_in
from harness.engines.trees import open_tree
from harness.errors import BadInput, ExitCode
from harness.parallel import Stop
from harness.report import jsondoc
from harness.report.text import shown
from harness.settings import choose_hosts


@click.command()
@click.option(
    "--diff",
    type=click.Path(path_type=Path),
    help="A pull request's diff: git diff, git format-patch, or diff -ruN.",
)
@click.option("--git", "repository", type=click.Path(path_type=Path), help="A git repository …")
@click.option("--base", metavar="REV", help="… where the change began (main, say) …")
@click.option("--head", metavar="REV", default="HEAD", show_default=True, help="… and its end.")
@click.option("--package", metavar="NAME", default="", help="The import name, where it is unclear.")
@click.option(
    "--tests-from",
    metavar="SPEC",
    help="With --diff: the tests before the change, for those that it changes. PATH, REPO@REV or "
    "sdist:NAME==VERSION.",
)
@click.option(
    "--image",
    metavar="NAME_OR_REF",
    shell_complete=common.complete_image,
    help="As for harness ab. Default: the package's newest release from wheels.",
)
@click.option(
    "--engine", type=click.Choice(common.ENGINES), default="auto", show_default=True, help="As ab."
)
@click.option("--python", type=click.Path(path_type=Path), help="As for harness ab.")
@click.option("--device", metavar="DEVICE", help="As for harness ab.")
@click.option("--id", "wanted", metavar="ID", default="", help="Default: of package and diff.")
@click.option("--force", is_flag=True, help="Overwrite a case that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def new(
    diff: Path | None,
    repository: Path | None,
    base: str | None,
    head: str,
    package: str,
    tests_from: str | None,
    image: str | None,
    engine: str,
    python: Path | None,
    device: str | None,
    wanted: str,
    force: bool,
    as_json: bool,
) -> int:
    """Write a case from a pull request's diff, as a run of its tests shows it.

    Production hunks become fix.patch, the tests that the change brings or touches are run with
    and without it, and what they did is written down as the claim: a person compares it with the
    issue. Documentation, packaging and the like are left out and listed.

    \b
    Examples:
      harness new --git ../click --base main --head fix-2934
      harness new --diff pr.diff --image pypi:click==8.1.7
      harness new --diff pr.diff --tests-from sdist:click==8.1.7
      harness new --diff pr.diff --package mypkg --id mypkg-42 --python .venv/bin/python

    Exit codes: 0 a case with at least one flip is written, 1 a case without a flip;
    2, 3, 4 and 130 as for every command.
    """
    root = common.root()
    proposal = _proposal(diff, repository, base, head, package, tests_from)
    name = drafting.case_id(proposal, wanted)
    place = root / "cases" / name
    drafting.refuse_existing(place, force=force)
    choice = targets.Choice(
        image=image,
        engine=engine,
        python=python,
        hosts=choose_hosts((), store.load_hosts(root)),
        devices=(parse_device(device),) if device else (),
    )
    with tempfile.TemporaryDirectory(prefix="harness-new-") as scratch, common.Display() as display:
        found = drafting.scout(
            proposal,
            name=name,
            choice=drafting.with_image(proposal, choice, display),
            folder=Path(scratch),
            root=root,
            progress=display,
            stop=Stop(),
        )
        drafting.keep(found, place, force=force)
    rerun = f"harness ab {name}" + (f" --python {python}" if python else "")
    _show(found, proposal, place, rerun, as_json)
    flips = found.draft.of(Role.FLIP)
    return ExitCode.CONFIRMED if flips else ExitCode.NOT_CONFIRMED


def _proposal(
    diff: Path | None,
    repository: Path | None,
    base: str | None,
    head: str,
    package: str,
    tests_from: str | None,
) -> change.Proposal:
    if (diff is None) == (repository is None):
        raise BadInput("give either --diff FILE or --git REPO --base REV --head REV")
    if repository is not None:
        if base is None or tests_from:
            problem = "--tests-from goes with --diff" if tests_from else "--git needs --base REV"
            raise BadInput(problem, "With --git, the tests are those of --head.")
        return change.from_git(repository, base, head, package=package)
    assert diff is not None
    tree = open_tree(tests_from) if tests_from else None
    return change.from_diff(diff, package=package, tests_from=tree)


def _show(
    found: drafting.Drafted, proposal: change.Proposal, place: Path, rerun: str, as_json: bool
) -> None:
    fill_in = to_fill_in(found.head, found.draft)
    if as_json:
        common.write_out(jsondoc.dumps(_document(found, proposal, place, rerun, fill_in)))
        return
    case = found.files.case
    click.echo(f"{_place(place)}: package {case.package}, {len(proposal.tests)} test files")
    for line in drafting.summary(found):
        click.echo(f"  {shown(line)}")
    if not found.draft.of(Role.FLIP):
        click.echo("  no test fails without the change and passes with it: nothing is shown yet")
    if proposal.left_out:
        click.echo("left out of the change:")
        for each in proposal.left_out:
            click.echo(f"  {shown(f'{each.path}: {each.why}')}")
    click.echo("to fill in, in its case.toml:")
    for line in fill_in:
        click.echo(f"  - {shown(line)}")
    click.echo(f"next: {rerun}")


def _document(
    found: drafting.Drafted,
    proposal: change.Proposal,
    place: Path,
    rerun: str,
    fill_in: tuple[str, ...],
) -> dict[str, object]:
    made = found.draft
    return {
        "schema": 1,
        "id": found.files.case.id,
        "folder": _place(place),
        "package": found.files.case.package,
        "image": found.files.case.default_image,
        "platform": found.head.platform,
        "flips": [node.id for node in made.of(Role.FLIP)],
        "controls": [node.id for node in made.of(Role.CONTROL)],
        "skipped": [node.id for node in made.skipped],
        "remarks": list(made.remarks),
        "left_out": [{"path": each.path, "why": each.why} for each in proposal.left_out],
        "to_fill_in": list(fill_in),
        "next": rerun,
    }


def _place(folder: Path) -> str:
    """The folder as seen from here."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)
