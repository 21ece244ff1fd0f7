"""``harness doctor``: what can run on this machine, and the remedy where not."""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import click

from harness import __version__, store, targets
from harness.cli import common
from harness.engines.base import Engine
from harness.engines.devices import Device, Offer, devices, offers
from harness.engines.docker import DockerEngine
from harness.errors import EngineError, ExitCode, HarnessError
from harness.settings import Host

GIB = 1 << 30
#: A built vLLM environment takes 1.4 GB, its container image about as much again.
DISK_NEEDED = 5 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at. ``state`` is ok, note or problem.

    ``engines`` are those that can run a platform.
    """

    what: str
    state: str
    text: str
    remedy: str = ""
    engines: tuple[str, ...] = ()


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def doctor(as_json: bool) -> int:
    """Look at engines, hosts, devices, images and disk: what can run, and the remedy where not.

    Exit code 0 when an engine can run something, 3 otherwise.

    \b
    Examples:
      harness doctor
      harness doctor --json
    """
    with targets.opened() as available:
        engines = _engines(available)
        platforms, images = _platforms(available["docker"]), _images(available)
    findings = [_machine(), *engines, *_hosts(), *platforms, *images, _disk()]
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


def _engines(available: Mapping[str, Engine]) -> list[Finding]:
    found = []
    for name, engine in available.items():
        reason, _, remedy = engine.unavailable().partition("\n")
        if reason:
            found.append(
                Finding(what=f"engine {name}", state="problem", text=reason, remedy=remedy.strip())
            )
        else:
            found.append(Finding(what=f"engine {name}", state="ok", text=engine.isolation))
    return found


def _hosts() -> list[Finding]:
    """The hosts of harness.toml, asked side by side: an unreachable one takes its time."""
    hosts = [h for h in store.load_hosts(common.root()).values() if h.docker]
    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        return list(pool.map(_host, hosts))


def _host(host: Host) -> Finding:
    what = f"host {host.name}"
    with contextlib.closing(DockerEngine(host=host)) as engine:
        if reason := engine.unavailable():
            problem, _, remedy = reason.partition("\n")
            return Finding(what=what, state="problem", text=problem, remedy=remedy.strip())
        try:
            daemon = engine.describe()
            given = offers(engine.client, devices())
        except EngineError as error:
            return Finding(what=what, state="problem", text=error.problem, remedy=error.remedy)
    can = ", ".join(offer.family for offer in given if offer.able)
    unsure = ", ".join(offer.family for offer in given if offer.able is None)
    text = f"{daemon}; can give {can}" + (f", perhaps {unsure}: only a run tells" if unsure else "")
    return Finding(what=what, state="ok", text=text, engines=("docker",))


def _platforms(docker: Engine) -> list[Finding]:
    """What this host shows, and what the daemon can give; no container is started."""
    seen = devices()
    given: list[Offer | None] = [None] * len(seen)
    if isinstance(docker, DockerEngine):
        with contextlib.suppress(EngineError):
            given = [*offers(docker.client, seen)]
    return [_platform(device, offer) for device, offer in zip(seen, given, strict=True)]


def _platform(device: Device, offer: Offer | None) -> Finding:
    said, remedies = [f"local: {device.text}"], [device.remedy]
    if offer is None:
        said.append("docker: no daemon answers")
    elif offer.text == device.text:
        said = [device.text]
    else:
        said.append(f"docker: {offer.text}")
        remedies = (
            [offer.remedy] if offer.able and not device.present else [*remedies, offer.remedy]
        )
    can = [name for name, able in (("local", device.present), ("docker", _able(offer))) if able]
    verdict = f"runs with {' and '.join(can)}" if can else "cannot run here"
    return Finding(
        what=f"platform {device.family}",
        state="ok" if can else "note",
        text=f"{verdict}: {'; '.join(said)}",
        remedy=" ".join(filter(None, remedies)),
        engines=tuple(can),
    )


def _able(offer: Offer | None) -> bool:
    return offer is not None and offer.able is True


def _images(available: Mapping[str, Engine]) -> list[Finding]:
    root = common.root()
    usable = {name: e for name, e in available.items() if not e.unavailable()}
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
            pulled = wanted.container is not None and wanted.container.reference
            text = f"not pulled here: {pulled}" if pulled else "not built here"
            remedy = f"harness image build {name} (or let harness ab do it)"
            found.append(Finding(what=f"image {name}", state="note", text=text, remedy=remedy))
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
    common.console().print(table)
