"""The lock of an image from wheels: resolved once, over the network, and kept from then on.

``<cache>/pypi/<name>-<key>/`` is a whole image folder, as those under ``images/``: image.toml,
Dockerfile, requirements.in and requirements.lock. The same reference means the same lock as long as
the folder is there; copied to ``images/NAME`` it is an image like any other. uv resolves, from
where the user's pip would install, and wheels only: nothing is ever built from source.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

from harness.engines.base import OnStep
from harness.engines.commands import Ended, plain, run_all
from harness.engines.packages import (
    REMEDY,
    PipSettings,
    parse_lock,
    pip_settings,
    uv_argv,
    uv_environment,
    uv_program,
)
from harness.engines.tree import remove
from harness.errors import BadInput, EngineError
from harness.image import Image
from harness.wheels import DOCKERFILE, LOCK, PREFIX, Wheels, from_wheels, is_wheels, parse_wheels

#: Part of the key: raise it when locks, or their Dockerfile, are made in another way.
FORMAT = 1
#: Seconds for uv to resolve one reference.
LIMIT = 600.0
_ASKED = "requirements.in"
#: glibc of Debian bookworm, which the base images have.
_LIBC = "manylinux_2_36"
#: What uv says where the index, and not the requirement, is to blame.
_UNREACHABLE = "network was disabled|could not be queried|Failed to fetch|Request failed"


def ensure(image: Image, cache: Path, on_step: OnStep) -> Image:
    """The image with a folder that has its lock; made first where there is none yet.

    Images that are not named by wheels are returned as they are.

    Raises:
        BadInput: no such package or release, or no wheel of it for this Python.
        EngineError: the index is out of reach, or the cache folder cannot be written.
    """
    if not is_wheels(image.name) or image.folder:
        return image
    wheels = parse_wheels(image.name)
    folder = _folder(wheels, cache)
    if not (folder / LOCK).is_file():
        on_step(f"locking {wheels} for Python {wheels.major_minor}")
        text = _resolve(wheels)
        on_step(f"locked to {len(parse_lock(text))} packages, kept in {folder}")
        try:
            _keep(folder, wheels, text)
        except OSError as error:
            raise EngineError(
                f"{folder}: the lock cannot be kept: {error.strerror or error}",
                "Free space on that disk, or move the cache: XDG_CACHE_HOME names its place.",
            ) from error
    return from_wheels(str(wheels), str(folder))


def kept(cache: Path) -> list[Image]:
    """The images from wheels that were locked before, by name."""
    found = []
    for asked in (cache / "pypi").glob(f"*/{_ASKED}"):
        with contextlib.suppress(OSError, UnicodeDecodeError, BadInput):
            name = asked.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            if _folder(parse_wheels(name), cache) == asked.parent:  # not of another machine
                found.append(from_wheels(name, str(asked.parent)))
    return sorted(found, key=lambda image: image.name)


def newest(name: str, *, python: str = "") -> str:
    """The newest release of a package that has a wheel for ``python`` (default: the one here).

    Raises:
        BadInput: no such package, or no wheel of any release.
        EngineError: the index is out of reach.
    """
    wheels = parse_wheels(f"{PREFIX}{name}==0")  # for the check of the name alone
    bare = Requirement(wheels.requirements[0]).name
    what = f"the newest release of {bare}"
    return parse_lock(_compile([bare], python or wheels.major_minor, what, "--no-deps"))[0].version


def _folder(wheels: Wheels, cache: Path) -> Path:
    parts = [FORMAT, wheels.major_minor, _platform(), *wheels.requirements, str(wheels)]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    name = "".join(c if c.isalnum() or c in "._" else "-" for c in str(wheels)[len(PREFIX) :])
    return cache.absolute() / "pypi" / f"{name.replace('--', '-')[:60]}-{key}"


def _platform() -> str:
    """What wheels are resolved for: Linux of this machine's architecture, as the base images."""
    machine = platform.machine().lower()
    return f"{ {'amd64': 'x86_64', 'arm64': 'aarch64'}.get(machine, machine) }-{_LIBC}"


def _resolve(wheels: Wheels) -> str:
    text = _compile(wheels.requirements, wheels.major_minor, str(wheels), "--generate-hashes")
    return f"# {wheels}, Python {wheels.major_minor}, {_platform()}\n{text}"


def _compile(requirements: Sequence[str], python: str, what: str, *more: str) -> str:
    """Run ``uv pip compile`` and return the lock that it wrote.

    Raises:
        BadInput: there are no such packages, with the nearest remedy.
        EngineError: the index is out of reach.
    """
    settings = pip_settings()
    ended, text = _uv(requirements, python, settings, *more)
    if ended.code == 0:
        return text
    # Offline, uv does not tell a release that is not there from one that it may not look for.
    offline = bool(os.environ.get("UV_OFFLINE")) and not settings.no_index
    if ended.code != 1 or offline or ended.says(_UNREACHABLE):
        remedy = "Unset UV_OFFLINE: locking needs a network." if offline else REMEDY
        raise EngineError(f"uv cannot lock {what}:\n{ended.last_words()}", remedy)
    raise _refusal(ended, [Requirement(text) for text in requirements], what, python, settings)


def _uv(
    requirements: Sequence[str], python: str, settings: PipSettings, *more: str
) -> tuple[Ended, str]:
    with tempfile.TemporaryDirectory(prefix="harness-lock-") as scratch:
        asked, out = Path(scratch, _ASKED), Path(scratch, LOCK)
        asked.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        argv = [uv_program(), "pip", "compile", str(asked), "--quiet", "-o", str(out), *more]
        argv += ["--no-header", "--no-annotate", "--only-binary=:all:", *uv_argv(settings)]
        argv += [f"--python={sys.executable}", f"--python-version={python}"]
        argv += [f"--python-platform={_platform()}"]
        env = uv_environment(settings)
        (ended,) = run_all([argv], env=env, cwd=scratch, time_limit=LIMIT)
        return ended, out.read_text(encoding="utf-8") if ended.code == 0 else ""


def _refusal(
    ended: Ended, requirements: Sequence[Requirement], what: str, python: str, settings: PipSettings
) -> BadInput:
    """What is wrong with the requirements, in the user's words where uv's are of one of them."""
    words = ended.last_words()
    for requirement in requirements:
        name, release = requirement.name, str(requirement.specifier).removeprefix("==")
        one = rf"{re.escape(name)}(\[.*\])?"
        if ended.says(rf"\b{re.escape(name)} was not found in the "):
            return BadInput(
                f"{what}: no package {name} where pip installs from (pip config list)",
                "Correct the name: it is the distribution's, which may differ from the import "
                "name.",
            )
        if ended.says(rf"no version of {one}==\S+ and you require"):
            nearest = _nearest(name, release, python, settings)
            return BadInput(f"{what}: {name} has no release {release}", f"Correct it{nearest}.")
        if ended.says(rf"\b({one}==\S+ has|all versions of {one} have) no (usable )?wheels"):
            nearest = _nearest(name, "", python, settings)
            return BadInput(
                f"{what}: no wheel of {name} for Python {python} on {_platform()}, and nothing is "
                f"built from source:\n{words}",
                f"Take a release that has one{nearest}, or another Python: add ,python==3.X.",
            )
    return BadInput(
        f"{what}: uv finds no wheels that fit together:\n{words}",
        "Change what uv names: its release, or another Python (add ,python==3.X).",
    )


def _nearest(name: str, release: str, python: str, settings: PipSettings) -> str:
    """In words, the newest release, and the one next below what was asked for."""
    found: list[str] = []
    for requirement in (name, f"{name}<{release}") if release else (name,):
        _, text = _uv([requirement], python, settings, "--no-deps")
        found += [plain(pin.version) for pin in parse_lock(text)]
    if not found:
        return ""
    below = f", the one before {release} is {found[-1]}" if found[-1] != found[0] else ""
    return f": the newest with a wheel is {found[0]}{below}"


def _keep(folder: Path, wheels: Wheels, lock: str) -> None:
    """Write the image's folder so that it is there whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    try:
        asked = "".join(f"{line}\n" for line in wheels.requirements)
        dockerfile = Path(__file__).with_name("wheels.Dockerfile").read_text(encoding="utf-8")
        files = {
            LOCK: lock,
            _ASKED: f"# {wheels}\n{asked}",
            DOCKERFILE: dockerfile.replace("@PYTHON@", wheels.major_minor),
            "image.toml": _toml(from_wheels(str(wheels))),
        }
        for name, text in files.items():
            (scratch / name).write_text(text, encoding="utf-8")
        scratch.chmod(0o755)
        try:
            os.rename(scratch, folder)
        except OSError:  # another process may have been first: then its lock counts
            if not (folder / LOCK).is_file():
                raise
    finally:
        if scratch.exists():
            remove(scratch)


def _toml(image: Image) -> str:
    """The image.toml, so that the folder is an image also where it is copied to."""
    import tomlkit

    assert image.lock is not None and image.container is not None
    lock, container = image.lock, image.container
    document = tomlkit.document()
    document.update({"schema": image.schema, "title": image.title})
    document["lock"] = {"python": lock.python, "requirements": lock.requirements}
    document["container"] = {
        "dockerfile": container.dockerfile,
        "base": container.base,
        "python": container.python,
    }
    return tomlkit.dumps(document)
