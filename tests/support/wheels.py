"""Tiny wheels, locks and images, made by hand: no index and no network is needed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from harness.image import Image, parse_image

DOCKERFILE = """
ARG BASE=none
FROM ${BASE} AS build
COPY requirements.lock wheels* /build/
RUN python3 -m pip install --quiet --no-index --no-deps --find-links /build --target /opt/site uv
RUN PYTHONPATH=/opt/site python3 -m pip install --quiet --no-index --no-deps \\
    --find-links /build --target /opt/site -r /build/requirements.lock
ARG WARM=
RUN PYTHONPATH=/opt/site python3 -c "import ${WARM}; print('warmed', '${WARM}')"
FROM ${BASE}
COPY --from=build /opt/site /opt/site
"""


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    needs: Iterable[str] = (),
    tag: str = "py3-none-any",
) -> Path:
    """Write a pure Python wheel, which says that it ``needs`` others, and return its path."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        f"Tag: {tag}\n",
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.writerow((path, f"sha256={digest.decode()}", len(text.encode())))
    rows.writerow((f"{info}/RECORD", "", ""))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace('-', '_')}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**contents, f"{info}/RECORD": record.getvalue()}.items():
            archive.writestr(zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0)), text)
    return path


def lock(wheels: Iterable[Path]) -> str:
    """A lock that pins these wheels by hash, as uv writes one."""
    lines = ["# made by a test"]
    for path in wheels:
        name, version = path.name.split("-")[:2]
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{digest}")
    return "\n".join(lines) + "\n"


def image(
    folder: Path,
    wheels: Iterable[Path],
    *,
    python: str = "3.11",
    warm: Iterable[str] = (),
    backend: str = "",
    dockerfile: str = DOCKERFILE,
    base: str = "",
) -> Image:
    """Write the folder of an image and return what ``image.toml`` says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements.lock").write_text(lock(wheels))
    (folder / "Dockerfile").write_text(dockerfile)
    modules = ", ".join(f'"{name}"' for name in warm)
    text = f"""
schema = 1
title = "tiny"
[lock]
python = "{python}"
requirements = "requirements.lock"
torch_backend = "{backend}"
warm = [{modules}]
[container]
dockerfile = "Dockerfile"
base = "{base}"
"""
    (folder / "image.toml").write_text(text)
    return parse_image(text, name=folder.name, folder=str(folder), where="image.toml")


def configure_pip(monkeypatch: pytest.MonkeyPatch, home: Path, text: str) -> None:
    """Give pip (and uv) a home of their own, with this configuration and nothing of the user's."""
    import os

    home.mkdir(parents=True, exist_ok=True)
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_", "VIRTUAL_ENV")):
            monkeypatch.delenv(name)
    (home / "pip.conf").write_text(text)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(home / "pip.conf"))
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(home))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")


def only_wheels_of(folder: Path) -> str:
    """A pip configuration that knows one folder of wheels and no index."""
    return f"[global]\nno-index = true\nfind-links = {folder}\n"
