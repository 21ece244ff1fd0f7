"""A tiny package, cases about it, and environments that have it: for every engine alike."""

from __future__ import annotations

import difflib
import io
import json
import os
import py_compile
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import store, workflow
from harness.engines.base import Engine
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.engines.toolkit import toolkit
from harness.image import Image, from_reference
from harness.parallel import Stop
from harness.plan import Design
from harness.settings import Host
from harness.targets import Target, Wanted
from harness.verdict import NodeVerdict, Report

BASE = "harness-base:bookworm"
INIT = '"""A package with a bug, for the golden cases."""\n'
CORE = '''"""Things that are scaled and added."""


def scale(values, factor=None):
    """Multiply all values; an unset factor is meant to be 1."""
    if factor <= 0:
        raise ValueError("factor must be above 0")
    return [value * factor for value in values]


def add(left, right):
    """Add two values."""
    return left + right


def setting(name):
    """A setting that nobody made."""
    return {}[name]
'''
#: Line of CORE that raises when the factor is unset.
RAISES = CORE.splitlines().index("    if factor <= 0:") + 1
FIXED = CORE.replace(
    "    if factor <= 0:", "    factor = 1 if factor is None else factor\n    if factor <= 0:"
)
PACKAGE = {"minipkg/__init__.py": INIT, "minipkg/core.py": CORE}
TESTS = """import pytest

from minipkg import core


def test_unset_factor():
    assert core.scale([1, 2]) == [1, 2]


def test_add():
    assert core.add(1, 2) == 3
"""
SIGNATURE = {
    "exception": "TypeError",
    "message": "'<=' not supported between instances of 'NoneType' and 'int'",
    "at": f"minipkg/core.py:{RAISES}",
}
FILE = "tests/test_core.py"
FLIP = f"{FILE}::test_unset_factor"
CONTROL = f"{FILE}::test_add"


def diff(before: str, after: str, path: str = "minipkg/core.py", *, shift: int = 0) -> str:
    """A patch; ``shift`` moves the line numbers in its hunk headers."""
    lines = list(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{path}",
            f"b/{path}",
        )
    )
    if shift:
        lines = [_moved(line, shift) if line.startswith("@@") else line for line in lines]
    return "".join(lines)


def _moved(header: str, shift: int) -> str:
    parts = header.split()
    for index in (1, 2):
        start, _, rest = parts[index].partition(",")
        parts[index] = f"{start[0]}{int(start[1:]) + shift},{rest}"
    return " ".join(parts) + "\n"


FIX = diff(CORE, FIXED)


def write_case(
    folder: Path,
    *,
    patch: str = FIX,
    tests: Mapping[str, str] | None = None,
    flips: Iterable[str] = (FLIP,),
    controls: Iterable[str] = (CONTROL,),
    signature: Mapping[str, object] | None = None,
    package: str = "minipkg",
    extra: str = "",
) -> Path:
    """Write a case folder and return it. TOML strings are JSON strings here."""
    files = {FILE: TESTS} if tests is None else tests
    folder.mkdir(parents=True)
    (folder / "fix.patch").write_bytes(patch.encode())
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    lines = [
        "schema = 1",
        f"title = {json.dumps(folder.name)}",
        f"package = {json.dumps(package)}",
        'patch = "fix.patch"',
        f"tests = {json.dumps(list(files))}",
        'images = ["*"]',
        'platforms = ["cpu"]',
        extra,
    ]
    flips = list(flips)
    if flips:
        lines.append("[signatures.declared]")
        for key, value in (SIGNATURE if signature is None else signature).items():
            lines.append(f"{key} = {json.dumps(value)}")
    for role, ids in (("flip", flips), ("control", controls)):
        for node_id in ids:
            lines += [
                "[[nodes]]",
                f"id = {json.dumps(node_id, ensure_ascii=False)}",
                f'role = "{role}"',
            ]
            if role == "flip":
                lines.append('signature = "declared"')
    (folder / "case.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Spec:
    """What an environment is like."""

    pytest: bool = True
    patch: bool = True
    editable: bool = False
    stale_pyc: bool = False
    files: tuple[tuple[str, str], ...] = tuple(PACKAGE.items())

    def site_files(self, source: str) -> dict[str, bytes]:
        """What lies in site-packages; ``source`` is where an editable install's code is."""
        files: dict[str, bytes] = {}
        if self.pytest:
            files.update(toolkit())
        if self.editable:
            files["__editable__.minipkg.pth"] = f"{source}\n".encode()
        else:
            files.update(self.package_files())
        return files

    def package_files(self) -> dict[str, bytes]:
        return {name: text.encode() for name, text in self.files}


def stale_pyc(folder: Path) -> None:
    """Compile minipkg.core so that Python never looks at the source again."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(folder / "minipkg/core.py"), doraise=True, invalidation_mode=mode)


def target_of(engine: Engine, image: Image, *, host: Host | None = None) -> Target:
    """A target whose engine has prepared the image."""
    environment = engine.prepare(image, on_step=lambda _: None)
    wanted = Wanted(image=image, host=host or Host(), device=None)
    return Target(wanted=wanted, engine=engine, environment=environment)


class LocalEnvironments:
    """Virtual environments, without a network."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.engine_cache = cache
        self.made: dict[Spec, Path] = {}

    def target(self, spec: Spec) -> Target:
        """A target that has what ``spec`` says; PATH without patch is the caller's to set."""
        if spec not in self.made:
            self.made[spec] = self._make(spec)
        engine = LocalEngine(cache=self.engine_cache, python=self.made[spec])
        image = from_reference("golden:1")
        return target_of(engine, image)

    def _make(self, spec: Spec) -> Path:
        venv = self.folder / f"env{len(self.made)}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        site = next(venv.glob("lib/python3*/site-packages"))
        source = venv / "src"
        for name, data in spec.site_files(str(source)).items():
            _write(site / name, data)
        if spec.editable:
            for name, data in spec.package_files().items():
                _write(source / name, data)
        if spec.stale_pyc:
            stale_pyc(site)
        return venv / "bin" / "python"


class DockerEnvironments:
    """Container images on the base image, built without a network by the engine's daemon."""

    site = "usr/lib/python3/dist-packages"

    def __init__(self, engine: DockerEngine) -> None:
        self.engine = engine
        self.made: dict[Spec, str] = {}

    def target(self, spec: Spec) -> Target:
        """A target that has what ``spec`` says."""
        if spec not in self.made:
            self.made[spec] = self._make(
                spec, f"ab-harness-test/golden:{os.getpid()}-{len(self.made)}"
            )
        image = from_reference(self.made[spec])
        return target_of(self.engine, image)

    def close(self) -> None:
        for tag in self.made.values():
            self.engine.client.images.remove(tag, force=True)

    def _make(self, spec: Spec, tag: str) -> str:
        context = io.BytesIO()
        files = {f"root/{self.site}/{n}": d for n, d in spec.site_files("/opt/src").items()}
        if spec.editable:
            files.update({f"root/opt/src/{n}": d for n, d in spec.package_files().items()})
        lines = [f"FROM {BASE}", "COPY root/ /"]
        if not spec.patch:
            lines.append("RUN rm /usr/bin/patch")
        if spec.stale_pyc:
            compile_it = (
                "import py_compile as p; p.compile('minipkg/core.py', "
                "invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
            )
            lines.append(f'RUN cd /{self.site} && python3 -c "{compile_it}"')
        files["Dockerfile"] = "\n".join(lines).encode()
        with tarfile.open(fileobj=context, mode="w") as tar:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        context.seek(0)
        client = self.engine.client
        client.images.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            rm=True,
            forcerm=True,
            network_mode="none",
        )
        return tag


class Silent:
    """A progress display that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def step(self, text: str) -> None:
        self.told.append(text)

    def arm(self, case_id: str, target: str, arm: str) -> None:
        self.told.append(f"{case_id} {target} {arm}")

    def event(self, target: str, step: str, test: str) -> None:
        self.told.append(f"{step} {test}")

    def done(self, target: str) -> None:
        self.told.append(f"{target} done")

    def tick(self) -> None:
        pass


def run_case(
    folder: Path, target: Target, out: Path, cache: Path, design: Design | None = None
) -> Report:
    """Run a case as ``harness ab`` does and derive the report from the evidence."""
    files = store.load_case(folder)
    job = workflow.Job(
        files=files,
        nodes=workflow.select(files, ""),
        out=out,
        command=("test",),
        design=design or Design(),
    )
    evidence = workflow.run(job, [target], cache=cache, progress=Silent(), stop=Stop())
    return workflow.assess([evidence])


def by_id(report: Report) -> dict[str, NodeVerdict]:
    """Node verdicts of a report with one row, by node ID without its file."""
    (row,) = report.rows
    return {node.node_id.partition("::")[2]: node for node in row.nodes}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
