"""``harness image``: build, pin and list environments."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness import store, targets
from harness.cli import common
from harness.engines import locking, registry
from harness.engines.base import Engine
from harness.engines.docker import DockerEngine
from harness.errors import BadInput, EngineError, EngineUnavailable, ExitCode, HarnessError
from harness.image import Container, Image, parse_reference

if TYPE_CHECKING:
    from rich.text import Text

#: How ``digest_from`` begins where a registry was asked.
_ASKED = "registry"


@click.group()
def image() -> None:
    """Build, pin and list environments (images/<name>/image.toml).

    \b
    Examples:
      harness image list
      harness image build vllm-cpu-0.27.0
      harness image pin vllm-cuda-0.27.0
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

    A container image is built from its Dockerfile, or pulled where image.toml names a reference.

    \b
    Examples:
      harness image build vllm-cpu-0.27.0
      harness image build vllm-cpu-0.27.0 --engine local
      harness image build vllm-cpu-0.27.0 --base python:3.11-slim-bookworm
      harness image build vllm-cuda-0.27.0     pulls it
      harness image build pypi:click==8.1.7    locks it first, which needs a network
    """
    wanted = store.load_image(name, common.root())
    with targets.opened(base=base) as available, common.Display() as display:
        chosen = engine
        if engine == "auto":
            usable = wanted.container is not None and not available["docker"].unavailable()
            chosen = "docker" if usable else "local"
        if base and chosen == "local":
            raise BadInput(
                "--base is for a container image", "Leave it out, or use --engine docker."
            )
        if reason := available[chosen].unavailable():
            problem, _, remedy = reason.partition("\n")
            raise EngineUnavailable(problem, remedy.strip())
        wanted = locking.ensure(wanted, targets.cache_folder(), display.step)
        environment = available[chosen].prepare(wanted, on_step=display.step)
    common.write_out(f"{name} is ready for engine {chosen}: {environment.identity.digest}")
    return 0


@image.command()
@click.argument("name", shell_complete=common.complete_image)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the tag has moved.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def pin(name: str, check: bool, as_json: bool) -> int:
    """Ask the registry what an image's tag names, and write the digest into its image.toml.

    The Docker daemon asks, with the credentials of docker login. With --check the exit code
    is 0 where the image is pinned to what the tag names now, and 1 where it is not.

    \b
    Examples:
      harness image pin vllm-cuda-0.27.0
      harness image pin vllm-cuda-0.27.0 --check
      harness image pin vllm-cuda-0.27.0 --json
    """
    wanted = store.load_image(name, common.root())
    container = _with_tag(wanted)
    with contextlib.closing(DockerEngine()) as engine:
        now = registry.resolve(engine.client, wanted)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    # What a registry said stays, with its date, until it says something else.
    known = now == container.digest and container.digest_from.startswith(_ASKED)
    if not check and not known:
        store.write_pin(wanted, now, f"{_ASKED}, {today}")
    if as_json:
        document = {
            "schema": "ab-harness/pin/1",
            "name": wanted.name,
            "reference": container.reference,
            "pinned": container.digest,
            "now": now,
            "written": not check and not known,
        }
        common.write_out(json.dumps(document, indent=1))
    else:
        common.write_out(_pin_text(wanted, container, now, written=not check and not known))
    return ExitCode.NOT_CONFIRMED if check and now != container.digest else ExitCode.CONFIRMED


def _with_tag(wanted: Image) -> Container:
    """The image's container, whose tag can be asked for and whose digest can be written.

    Raises:
        BadInput: there is no tag, or no file to write the digest into.
    """
    container = wanted.container
    if container is None or not container.reference:
        raise BadInput(
            f"{wanted.name} is made from a lock, whose hashes pin it: no registry has it",
            "Pin an image whose image.toml has container.reference.",
        )
    if not wanted.folder:
        raise BadInput(
            f"{wanted.name} has no folder under images/ to keep a digest in",
            f'Write images/NAME/image.toml with reference = "{wanted.name}", then: harness image '
            "pin NAME.",
        )
    parsed = parse_reference(container.reference)
    if parsed.digest or (container.digest and not parsed.tag):
        raise BadInput(
            f"{wanted.name} is named by its digest alone: there is no tag to ask the registry for",
            f"Write container.reference with a tag in {wanted.folder}/image.toml, and no digest.",
        )
    return container


def _pin_text(wanted: Image, container: Container, now: str, *, written: bool) -> str:
    lines = [f"{wanted.name}: {container.reference}"]
    if now == container.digest:
        lines.append(f"  {now}, as pinned")
    else:
        lines += [f"  was  {container.digest or 'not pinned'}", f"  now  {now}"]
    if written:
        lines.append(f"written to {Path(wanted.folder) / 'image.toml'}")
    return "\n".join(lines)


@image.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def list_images(as_json: bool) -> int:
    """List images: what there is, and what is ready on this machine for which engine.

    Those from wheels (pypi:NAME==VERSION) are listed once they were locked here.

    \b
    Examples:
      harness image list
      harness image list --json
    """
    root = common.root()
    rows, code = [], ExitCode.CONFIRMED
    with targets.opened() as available:
        usable = {name: e for name, e in available.items() if not e.unavailable()}
        for name in store.image_names(root):
            try:
                rows.append(_describe(store.load_image(name, root), usable))
            except HarnessError as error:
                common.warn(error)
                code = error.exit_code
        rows += [_describe(image, usable) for image in locking.kept(targets.cache_folder())]
    if as_json:
        common.write_out(json.dumps({"schema": "ab-harness/images/1", "images": rows}, indent=1))
    else:
        _print(rows, usable, root)
    return code


def _describe(wanted: Image, usable: dict[str, Engine]) -> dict[str, object]:
    container = wanted.container or Container()
    fitting = {"docker": wanted.container is not None, "local": wanted.lock is not None}
    ready = {}
    for name, engine in usable.items():
        if not fitting[name]:
            continue
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
        "reference": container.reference,
        "digest": container.pin,
        "digest_from": container.digest_from,
        "ready": ready,
    }


def _print(rows: list[dict[str, object]], usable: dict[str, Engine], root: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    console = common.console()
    if not rows:
        console.print(f"No images below {root}.", markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("image", "platform", "pinned to", "for engine", "ready", "what it is"):
        table.add_column(heading)
    for row in rows:
        ready = row["ready"]
        assert isinstance(ready, dict)
        lacking = "not pulled" if row["reference"] else "not built"
        for index, (engine, digest) in enumerate(ready.items() or [("none", "")]):
            state = Text(digest[:19], style="green") if digest else Text(lacking, style="yellow")
            first = (str(row["name"]), str(row["platform"])) if index == 0 else ("", "")
            pinned = _pinned_to(row) if index == 0 else Text("")
            title = str(row["title"]) if index == 0 else ""
            table.add_row(*map(Text, first), pinned, Text(engine), state, Text(title))
    console.print(table)
    for name in {"docker", "local"} - set(usable):
        console.print(f"Engine {name} cannot be used here: see harness doctor.", style="dim")


def _pinned_to(row: dict[str, object]) -> Text:
    from rich.text import Text

    if not row["reference"]:
        return Text("built from a lock")
    return Text(str(row["digest"])[:19]) if row["digest"] else Text("not pinned", style="yellow")
