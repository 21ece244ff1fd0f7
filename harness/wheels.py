"""An image from wheels, named by what is to be in it: ``pypi:click==8.1.7,pytest-asyncio==1.2.0``.

The first requirement states a released version exactly; those after a comma may leave it open, as
the lock (see engines/locking.py) states all of them. ``python==3.12`` chooses another Python than
the one that runs the harness.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from harness.errors import BadInput
from harness.image import SCHEMA, Container, Image, Lock

PREFIX = "pypi:"
LOCK, DOCKERFILE = "requirements.lock", "Dockerfile"
_REMEDY = "Write pypi:NAME==VERSION, such as pypi:click==8.1.7 or pypi:httpx[http2]==0.27.0."
_LONGEST = 1000
#: Between requirements, but neither inside of [a,b] nor within >=1,<2.
_COMMA = re.compile(r",(?![^\[]*\])(?=\s*[A-Za-z0-9])")
_PYTHON = re.compile(r"python\s*==\s*(3\.[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheels:
    """What an image from wheels was asked to hold.

    ``requirements`` are in PEP 508's words, their names normalised; ``python`` is the
    ``major.minor`` version that was asked for, or empty.
    """

    requirements: tuple[str, ...]
    python: str = ""

    def __str__(self) -> str:
        python = (f"python=={self.python}",) if self.python else ()
        return PREFIX + ",".join((*self.requirements, *python))

    @property
    def major_minor(self) -> str:
        """The Python that the image has: this program's own where none was asked for."""
        return self.python or f"{sys.version_info.major}.{sys.version_info.minor}"


def is_wheels(name: str) -> bool:
    """Whether an image's name is a reference to wheels."""
    return name.startswith(PREFIX)


def parse_wheels(text: str) -> Wheels:
    """Parse ``pypi:NAME==VERSION[,REQUIREMENT…]``.

    Raises:
        BadInput: it is not that, with what to write.
    """
    if len(text) > _LONGEST:
        raise BadInput(f"image {text[:80]!r}…: names far too many packages", _REMEDY)
    parts = [part.strip() for part in _COMMA.split(text.removeprefix(PREFIX))]
    python = [part for part in parts if re.match(r"python\s*(?![\w.\s-])", part)]
    wanted = [_requirement(part, text) for part in parts if part not in python]
    if not wanted:
        raise BadInput(f"image {text!r}: names no package", _REMEDY)
    names = [canonicalize_name(requirement.name) for requirement in wanted]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise BadInput(f"image {text!r}: {twice} stands there twice", "Name it once.")
    _check_version(wanted[0], text)
    return Wheels(requirements=tuple(map(_words, wanted)), python=_python(python, text))


def from_wheels(reference: str, folder: str = "") -> Image:
    """The Image of a reference to wheels; ``folder`` has its lock and Dockerfile, once locked.

    Raises:
        BadInput: it is no such reference.
    """
    wheels = parse_wheels(reference)
    first, *others = wheels.requirements
    more = f" with {', '.join(others)}" if others else ""
    return Image(
        name=str(wheels),
        folder=folder,
        schema=SCHEMA,
        title=f"{first.replace('==', ' ')}{more} from wheels, Python {wheels.major_minor}",
        lock=Lock(python=wheels.major_minor, requirements=LOCK),
        container=Container(
            dockerfile=DOCKERFILE,
            base=f"python:{wheels.major_minor}-slim-bookworm",
            python="/opt/venv/bin/python",
        ),
    )


def _requirement(text: str, whole: str) -> Requirement:
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        problem = str(error).partition("\n")[0]
        raise BadInput(f"image {whole!r}: {text!r} is no requirement: {problem}", _REMEDY) from None
    if found.url or found.marker:
        raise BadInput(
            f"image {whole!r}: {text!r} has an address or a marker",
            "Name released packages only: what is installed comes from the index of your pip.",
        )
    return found


def _check_version(requirement: Requirement, whole: str) -> None:
    """Refuse a first requirement that does not state one release."""
    name = _named(requirement)
    stated = [*requirement.specifier]
    if len(stated) == 1 and stated[0].operator == "==":
        try:
            Version(stated[0].version)
        except InvalidVersion:
            pass
        else:
            return
    raise BadInput(
        f"image {whole!r}: states no release of {name}",
        f"Write one exactly, such as {PREFIX}{name}==1.2.3: a row says which release it measured.",
    )


def _python(parts: list[str], whole: str) -> str:
    found = [_PYTHON.fullmatch(part) for part in parts]
    if not found:
        return ""
    if len(found) == 1 and found[0]:
        return found[0][1]
    raise BadInput(f"image {whole!r}: which Python?", "Write it once, such as python==3.12.")


def _named(requirement: Requirement) -> str:
    extras = ",".join(sorted(map(canonicalize_name, requirement.extras)))
    return canonicalize_name(requirement.name) + (f"[{extras}]" if extras else "")


def _words(requirement: Requirement) -> str:
    return f"{_named(requirement)}{requirement.specifier}"
