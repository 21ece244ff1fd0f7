"""``harness doctor``: what can run on this machine, and the remedy where not."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from harness import __version__, store, targets
from harness.cli import common
from harness.engines.devices import devices
from harness.errors import ExitCode, HarnessError

GIB = 1 << 30
#: A built vLLM environment takes 1.4 GB, its container image about as much again.
DISK_NEEDED = 5 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at. ``state`` is ok, note or problem."""

    what: str
    state: str
    text: str
    remedy: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def doctor(as_json: bool) -> int:
    """Look at engines, devices, images and disk: what can run here, and the remedy where not.

    Exit code 0 when an engine can run something, 3 otherwise.

    \b
    Examples:
      harness doctor
      harness doctor --json
    """
    engines = _engines()
    findings = [_machine(), *engines, *_devices(), *_images(), _disk()]
    if as_json:
        document = {"schema": "ab-harness/doctor/1", "findings": [asdict(f) for f in findings]}
        common.write_out(json.dumps(document, indent=1))
    else:
        _print(findings)
    usable = any(finding.state == "ok" for finding in engines)
    return ExitCode.CONFIRMED if usable else ExitCode.INFRASTRUCTURE


def _machine() -> Finding:
    text = (
        f"harness {__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.release()} {platform.machine()}"
    )
    return Finding(what="machine", state="ok", text=text)


def _engines() -> list[Finding]:
    found = []
    for name, engine in targets.engines().items():
        reason, _, remedy = engine.unavailable().partition("\n")
        if reason:
            found.append(
                Finding(what=f"engine {name}", state="problem", text=reason, remedy=remedy.strip())
            )
        else:
            found.append(Finding(what=f"engine {name}", state="ok", text=engine.isolation))
    return found


def _devices() -> list[Finding]:
    return [
        Finding(
            what=f"platform {device.family}",
            state="ok" if device.present else "note",
            text=device.text,
            remedy=device.remedy,
        )
        for device in devices()
    ]


def _images() -> list[Finding]:
    root = common.root()
    usable = {name: e for name, e in targets.engines().items() if not e.unavailable()}
    found = []
    for name in store.image_names(root):
        try:
            wanted = store.load_image(name, root)
            ready = [engine for engine, e in usable.items() if e.has(wanted)]
        except HarnessError as error:
            found.append(
                Finding(
                    what=f"image {name}", state="problem", text=error.problem, remedy=error.remedy
                )
            )
            continue
        if ready:
            found.append(
                Finding(what=f"image {name}", state="ok", text=f"ready for {', '.join(ready)}")
            )
        else:
            remedy = f"harness image build {name} (or let harness ab do it)"
            found.append(
                Finding(what=f"image {name}", state="note", text="not built here", remedy=remedy)
            )
    if not found:
        found.append(
            Finding(
                what="images",
                state="note",
                text=f"none below {root}",
                remedy="Start harness in a project.",
            )
        )
    return found


def _disk() -> Finding:
    folder = targets.cache_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.0f} GiB free for environments in {folder}"
    if free < DISK_NEEDED:
        remedy = f"Free some: a vLLM environment and its image need about {DISK_NEEDED // GIB} GiB."
        return Finding(what="disk", state="problem", text=text, remedy=remedy)
    return Finding(what="disk", state="ok", text=text)


def _print(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    marks = {"ok": ("ok", "green"), "note": ("-", "yellow"), "problem": ("!!", "red")}
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = marks[finding.state]
        text = Text(finding.text)
        if finding.remedy:
            text.append(f"\n{finding.remedy}", style="dim")
        table.add_row(Text(mark, style=style), Text(finding.what), text)
    Console(highlight=False).print(table)
