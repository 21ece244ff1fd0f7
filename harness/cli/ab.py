"""``harness ab``: the main job."""

from __future__ import annotations

from pathlib import Path

import click

from harness import store, targets, workflow
from harness.cli import common
from harness.errors import BadInput
from harness.plan import CaseFiles
from harness.report import jsondoc, terminal
from harness.verdict import Report


@click.command()
@click.argument("cases", metavar="[CASE]...", nargs=-1, shell_complete=common.complete_case)
@click.option(
    "--image",
    metavar="NAME_OR_REF",
    shell_complete=common.complete_image,
    help="A name under images/ or a container reference. Default: each case's first image.",
)
@click.option(
    "--engine",
    type=click.Choice(common.ENGINES),
    default="auto",
    show_default=True,
    help="What starts the environment; auto prefers Docker.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="Use the environment of this interpreter (a GPU host without Docker).",
)
@click.option(
    "-k", "expression", metavar="EXPR", default="", help="Only these node IDs, as in pytest."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where evidence is written. Default: reports/ of the project.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def ab(
    cases: tuple[str, ...],
    image: str | None,
    engine: str,
    python: Path | None,
    expression: str,
    out: Path | None,
    as_json: bool,
) -> int:
    """Run cases in two arms, unpatched and patched, and print the flip table.

    CASE is an id under cases/ or a folder with a case.toml. With no CASE, every case
    that fits the image is run. Both arms get the same image and the same test files;
    the patch is applied strictly (no fuzz) in one of them.

    \b
    Examples:
      harness ab vllm-53163
      harness ab --image vllm/vllm-openai:v0.27.0
      harness ab vllm-53163 --engine local -k MARLIN
      harness ab vllm-53163 --python /usr/bin/python3     on a GPU host without Docker
      harness ab vllm-53163 --json > result.json
    """
    root = common.root()
    chosen = _choose(_cases(cases, image, root, given=python is not None), expression)
    with common.Display() as display:
        if image and python:
            display.step(f"--image {image} only selects cases: --python names the environment")
        images = [targets.choose_image(files.case, image, root, python) for files, _ in chosen]
        prepared: dict[str, targets.Target] = {}
        for wanted in images:  # all first: the last one's lack should not end a run half-way
            if wanted.name not in prepared:
                prepared[wanted.name] = targets.prepare(
                    wanted, engine, python=python, progress=display
                )
        folders = []
        for (files, nodes), wanted in zip(chosen, images, strict=True):
            job = workflow.Job(
                files=files,
                nodes=nodes,
                out=out or root / "reports",
                command=common.command_line(),
            )
            cache = targets.cache_folder()
            folders.append(
                workflow.run(job, [prepared[wanted.name]], cache=cache, progress=display)
            )
    report = workflow.assess(folders)
    _show(report, as_json)
    return report.overall.exit_code


def _choose(cases: list[CaseFiles], expression: str) -> list[tuple[CaseFiles, tuple[str, ...]]]:
    """The cases with the node IDs that -k leaves of them."""
    chosen: dict[str, tuple[CaseFiles, tuple[str, ...]]] = {}
    for files in cases:
        if files.case.id in chosen:
            raise BadInput(
                f"two cases with the id {files.case.id!r}",
                "Run them one by one, or rename a folder.",
            )
        if nodes := workflow.select(files, expression):
            chosen[files.case.id] = (files, nodes)
    if not chosen:
        raise BadInput(
            f"-k {expression!r} matches no declared node ID", "See the ids in case.toml."
        )
    return list(chosen.values())


def _cases(
    names: tuple[str, ...], image: str | None, root: Path, *, given: bool
) -> list[CaseFiles]:
    """The named cases, or every case that fits the image; a case that is named always fits."""
    if names:
        return [store.load_case(store.find_case(name, root)) for name in names]
    everything = [store.load_case(root / "cases" / name) for name in store.case_names(root)]
    if not everything:
        raise BadInput(
            f"no cases below {root}", "Name a case folder, or start harness in a project."
        )
    if image is None or given:
        return everything
    store.load_image(image, root)  # a wrong name is the better complaint
    fitting = [files for files in everything if files.case.fits(image)]
    if not fitting:
        raise BadInput(
            f"no case fits image {image!r}",
            "Name the case, or add the image to 'images' in its case.toml.",
        )
    return fitting


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        common.write_out(jsondoc.dumps(jsondoc.document(report)))
        return
    from rich.console import Console

    terminal.render(report, Console(highlight=False))
