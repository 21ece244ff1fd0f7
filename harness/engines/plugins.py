"""pytest plugins that a case names and an image lacks: fetched on the host, never in an arm.

pip fetches wheels that are pure Python and no others, with what they need; nothing is built. They
are kept in the cache, by what was asked for, so that all arms get the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from filelock import FileLock

from harness.case import unsafe_path
from harness.engines import packages
from harness.engines.commands import Ended, plain, run_all
from harness.errors import EngineError

#: What the image has, or the harness brings along as pytest itself.
_PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_LIMIT = 64 << 20
_TIME_LIMIT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Wheels unpacked in memory: files by path relative to a folder on ``sys.path``.

    ``wheels`` are file names with their sha256; ``has_pytest`` says that a pytest is among them,
    since the one that the harness brings along does not go with the plugins.
    """

    files: dict[str, bytes]
    wheels: tuple[str, ...]
    has_pytest: bool


def bundle(plugins: Sequence[str], *, python: str, pytest: str, cache: Path) -> Bundle:
    """The wheels of exactly pinned plugins, with what they need, for a Python.

    ``pytest`` is the version that the image has, empty where it has none.

    Raises:
        EngineError: there is no such release, it isn't pure Python, it does not go with the
            image's pytest, or the index can't be reached.
    """
    minor = ".".join(python.split(".")[:2])
    ours = importlib.metadata.version("pytest")
    key = json.dumps([sorted(plugins), minor, pytest or f"{ours}, ours"])
    folder = cache / "plugins" / hashlib.sha256(key.encode()).hexdigest()[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            _fetch(plugins, minor, pytest, folder)
    wheels = [(wheel.name, wheel.read_bytes()) for wheel in sorted(folder.glob("*.whl"))]
    has_pytest = not pytest and f"pytest-{ours}" not in {_release(name) for name, _ in wheels}
    files: dict[str, bytes] = {}
    names = []
    for name, data in wheels:
        if has_pytest or name.partition("-")[0].lower() not in _PYTEST:
            files.update(_unpacked(name, data))
            names.append(f"{name} sha256:{hashlib.sha256(data).hexdigest()}")
    return Bundle(files=files, wheels=tuple(names), has_pytest=has_pytest)


def _release(wheel: str) -> str:
    """``NAME-VERSION`` of a wheel's file name (PyPA's binary distribution format)."""
    return "-".join(wheel.split("-")[:2])


def _fetch(plugins: Sequence[str], python: str, pytest: str, folder: Path) -> None:
    """For the image's pytest; else for the harness's own, or for one that goes with them."""
    pins = [pytest] if pytest else [importlib.metadata.version("pytest"), ""]
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        for number, pin in enumerate(pins):
            made = Path(scratch, str(number))
            ended = _download(plugins, python, pin, made)
            if ended.code == 0:
                os.replace(made, folder)
                return
            if not ended.says("ResolutionImpossible"):
                break
    lines = [re.sub(r" \(from versions: .*", "", plain(line)).strip() for line in ended.lines]
    told = [line for line in lines if re.search(r"ERROR|depends on|requested", line)]
    beside = f" and pytest {pytest}" if pytest else ""
    raise EngineError(
        f"pip cannot fetch {', '.join(plugins)} for Python {python}{beside}: "
        + "; ".join(told[:6]),
        "Plugins are brought along as pure-Python wheels only: pin a release that has one and "
        "goes with this pytest, or use an image that has the plugin.",
    )


def _download(plugins: Sequence[str], python: str, pytest: str, made: Path) -> Ended:
    constraint = made.with_suffix(".txt")
    constraint.write_text(f"pytest=={pytest}\n" if pytest else "", encoding="utf-8")
    argv = [sys.executable, "-P", "-m", "pip", "download", "--only-binary", ":all:"]
    argv += ["--platform", "any", "--implementation", "py", "--abi", "none"]
    argv += ["--python-version", python, "--progress-bar", "off", "--dest", str(made)]
    env = packages.uv_environment(packages.pip_settings())
    env |= {"PIP_CONSTRAINT": str(constraint), "PIP_NO_INPUT": "1", "TMPDIR": str(made.parent)}
    (ended,) = run_all([[*argv, *plugins]], env=env, cwd=str(made.parent), time_limit=_TIME_LIMIT)
    return ended


def _unpacked(name: str, data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            if sum(entry.file_size for entry in wheel.infolist()) > _LIMIT:
                raise EngineError(f"{name}: more than {_LIMIT >> 20} MiB")
            for entry in wheel.infolist():
                top = PurePosixPath(entry.filename).parts[:1]
                data_folder = top and top[0].endswith(".data")
                if not (entry.is_dir() or data_folder or unsafe_path(entry.filename)):
                    found[entry.filename] = wheel.read(entry)
    except zipfile.BadZipFile as error:
        raise EngineError(f"{name}: no wheel: {error}", packages.REMEDY) from error
    return found
