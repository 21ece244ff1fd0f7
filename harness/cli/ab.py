"""``harness ab``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness import store, targets, workflow
from harness.cli import adhoc, common, design
from harness.device import parse_device
from harness.errors import BadInput
from harness.parallel import Stop
from harness.plan import CaseFiles, Design
from harness.report import jsondoc, terminal
from harness.settings import choose_hosts
from harness.upstream import Checkout
from harness.verdict import Report


@click.command()
@click.argument("cases", metavar="[CASE]...", nargs=-1, shell_complete=common.complete_case)
@click.option(
    "--image",
    metavar="NAME_OR_REF",
    shell_complete=common.complete_image,
    help="A name under images/, a container reference, or pypi:NAME==VERSION[,MORE…] for an image "
    "from wheels. Default: each case's first image.",
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
    "--host",
    "hosts",
    metavar="NAME[=URL]",
    multiple=True,
    shell_complete=common.complete_host,
    help="Make a row on this Docker host: a name of harness.toml, 'all' of them, 'local', or "
    "NAME=ssh://user@host. Several times: a row on each, side by side.",
)
@click.option(
    "--device",
    "devices",
    metavar="DEVICE",
    multiple=True,
    help="cpu, cuda, cuda:1, cuda:GPU-<UUID>, xpu:0, rocm:0 or a CDI name such as "
    "nvidia.com/gpu=0. Default: the host's, else the first that fits the image. Several times: "
    "a row for each.",
)
@click.option(
    "--allow-moved-tag",
    is_flag=True,
    help="Run what the image's tag names now, though another digest is pinned; both are recorded.",
)
@click.option(
    "--upstream",
    metavar="REPO@REV",
    help="Compare the files that the failure passes through, and those that the patch touches, "
    "with a revision of a git checkout: identical, or by how many lines they differ.",
)
@click.option(
    "--patch",
    type=click.Path(path_type=Path),
    help="No case: this patch, with --tests. The claims are drafted from one run and checked by "
    "another.",
)
@click.option(
    "--tests",
    metavar="PATH",
    multiple=True,
    help="With --patch: a test file, or a folder of them. Several times: all of them.",
)
@click.option(
    "--package", metavar="NAME", default="", help="With --patch: the import name, where unclear."
)
@click.option(
    "--tests-from",
    metavar="SPEC",
    help="Take test files that a case lacks (with --patch: all of --tests) from PATH, REPO@REV or "
    "sdist:NAME==VERSION, with the helpers, conftest and data files that they need.",
)
@design.options
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
    hosts: tuple[str, ...],
    devices: tuple[str, ...],
    allow_moved_tag: bool,
    upstream: str | None,
    patch: Path | None,
    tests: tuple[str, ...],
    package: str,
    tests_from: str | None,
    expression: str,
    out: Path | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Run cases in two arms, unpatched and patched, and print the flip table.

    CASE is an id under cases/ or a folder with a case.toml. With no CASE, every case
    that fits the image is run. Both arms get the same image and the same test files;
    the patch is applied strictly (no fuzz) in one of them.

    \b
    Examples:
      harness ab vllm-53163
      harness ab --image vllm/vllm-openai:v0.27.0
      harness ab ./my-case --image pypi:click==8.1.7
      harness ab vllm-53163 --engine local -k MARLIN
      harness ab vllm-53163 --python /usr/bin/python3     on a GPU host without Docker
      harness ab vllm-53163 --host local --host l40s=ssh://me@l40s.lab
      harness ab vllm-53163 --image vllm-cuda-0.27.0 --device cuda:1
      harness ab vllm-53163 --repeat 5 --ablate           how sure, and which hunks?
      harness ab vllm-53163 --base-tests ../vllm@main~1   do old tests change state?
      harness ab vllm-53163 --upstream ../vllm@main       does it transfer?
      harness ab vllm-53163 --json > result.json
      harness ab --patch fix.patch --tests tests/test_x.py --package click --image pypi:click==8.1.7
    """
    root = common.root()
    choice = targets.Choice(
        image=image,
        engine=engine,
        python=python,
        hosts=choose_hosts(hosts, store.load_hosts(root)),
        default_host=not hosts,
        devices=tuple(parse_device(text) for text in devices),
        allow_moved_tag=allow_moved_tag,
    )
    request = adhoc.request(patch, tests, package, tests_from, cases)
    if request is not None:
        files, choice = adhoc.draft(request, choice, root)
        chosen = _choose([files], expression)
    else:
        chosen = _choose(_cases(cases, choice, root, tests_from or ""), expression)
    checkouts = [Checkout.open(upstream, files) if upstream else None for files, _ in chosen]
    with common.Display() as display:
        designs = design.Asked(**asked).designs([files for files, _ in chosen], display)
    folders = _run(chosen, checkouts, designs, choice, out or root / "reports", root)
    report = workflow.assess(folders)
    _show(report, as_json)
    return report.overall.exit_code


def _run(
    chosen: list[tuple[CaseFiles, tuple[str, ...]]],
    checkouts: list[Checkout | None],
    designs: list[Design],
    choice: targets.Choice,
    out: Path,
    root: Path,
) -> list[Path]:
    """Prepare every target first (one's lack should not end a run half-way), then run the cases."""
    stop = Stop()
    rows = [targets.wanted(files.case, choice, root) for files, _ in chosen]
    with common.Display() as display:
        if choice.image and choice.python:
            display.step("--image only selects cases here: --python names the environment")
        everything = [row for own in rows for row in own]
        with targets.prepared(everything, choice, progress=display, stop=stop) as ready:
            return [
                workflow.run(
                    workflow.Job(
                        files=files,
                        nodes=nodes,
                        out=out,
                        command=common.command_line(),
                        upstream=checkout,
                        design=own_design,
                    ),
                    [ready[row.key] for row in own],
                    cache=targets.cache_folder(),
                    progress=display,
                    stop=stop,
                )
                for (files, nodes), checkout, own_design, own in zip(
                    chosen, checkouts, designs, rows, strict=True
                )
            ]


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
    names: tuple[str, ...], choice: targets.Choice, root: Path, tests_from: str
) -> list[CaseFiles]:
    """The named cases, or every case that fits the image; a case that is named always fits."""
    if names:
        folders = [store.find_case(name, root) for name in names]
        return [store.load_case(folder, tests_from=tests_from) for folder in folders]
    if tests_from:
        raise BadInput("--tests-from is for named cases", "Name the case.")
    everything = [store.load_case(root / "cases" / name) for name in store.case_names(root)]
    if not everything:
        raise BadInput(
            f"no cases below {root}", "Name a case folder, or start harness in a project."
        )
    if choice.image is None or choice.python is not None:
        return everything
    wanted = store.load_image(choice.image, root)  # a wrong name is the better complaint
    names = (choice.image, wanted.name)
    fitting = [files for files in everything if any(map(files.case.fits, names))]
    if not fitting:
        raise BadInput(
            f"no case fits image {choice.image!r}",
            "Name the case, or add the image to 'images' in its case.toml.",
        )
    return fitting


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        common.write_out(jsondoc.dumps(jsondoc.document(report)))
        return
    terminal.render(report, common.console())
