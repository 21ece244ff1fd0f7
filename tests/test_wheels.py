"""References to wheels: what is accepted, and that every complaint says what to write."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import store
from harness.case import Case
from harness.errors import BadInput
from harness.plan import slug
from harness.wheels import from_wheels, parse_wheels

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("text", "requirements", "python"),
    [
        ("pypi:click==8.1.7", ("click==8.1.7",), ""),
        ("pypi:torch==2.13.0+cpu", ("torch==2.13.0+cpu",), ""),
        ("pypi:A_b.C==1.0rc1", ("a-b-c==1.0rc1",), ""),
        ("pypi:click==8.1.7, attrs", ("click==8.1.7", "attrs"), ""),
        ("pypi:a[y,X]==1,b[z]>=2,<3,c~=1.1", ("a[x,y]==1", "b[z]<3,>=2", "c~=1.1"), ""),
        ("pypi:click==8.1.7,python==3.12", ("click==8.1.7",), "3.12"),
        ("pypi:a==1,python-dateutil", ("a==1", "python-dateutil"), ""),
    ],
)
def test_references_are_read(text: str, requirements: tuple[str, ...], python: str) -> None:
    wheels = parse_wheels(text)
    assert (wheels.requirements, wheels.python) == (requirements, python)
    assert wheels.major_minor == (python or HERE)
    assert parse_wheels(str(wheels)) == wheels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pypi:", "no requirement"),
        ("pypi:click", "pypi:click==1.2.3"),
        ("pypi:click>=8", "pypi:click==1.2.3"),
        ("pypi:click==8.*", "pypi:click==1.2.3"),
        ("pypi:click===8", "pypi:click==1.2.3"),
        ("pypi:click==8,<9", "pypi:click==1.2.3"),
        ("pypi:httpx[http2]", "pypi:httpx[http2]==1.2.3"),
        ("pypi:click==8.1.7,--index-url=x", "no requirement"),
        ("pypi:-r secrets.txt", "no requirement"),
        ("pypi:../click==1", "no requirement"),
        ("pypi:click==8.1.7\nattrs", "no requirement"),
        ("pypi:click @ https://host/click.whl", "an address"),
        ('pypi:click==8;python_version<"4"', "a marker"),
        ("pypi:click==8,Click==9", "click stands there twice"),
        ("pypi:click==8,python>=3.12", "which Python"),
        ("pypi:click==8,python==3.12.1", "which Python"),
        ("pypi:python==3.12", "names no package"),
        ("pypi:a==1," + "b," * 600, "far too many"),
    ],
)
def test_others_are_refused(text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_wheels(text)
    assert words in str(caught.value)


def test_the_image_of_a_reference(tmp_path: Path) -> None:
    image = store.load_image("pypi:Click==8.1.7", tmp_path)
    assert image == from_wheels("pypi:click==8.1.7")
    assert image.name == "pypi:click==8.1.7"
    assert image.lock and image.lock.python == HERE
    assert image.container and image.container.base == f"python:{HERE}-slim-bookworm"
    assert slug(image.name) == "pypi-click-8.1.7"


@pytest.mark.parametrize(
    ("images", "default", "fits"),
    [
        (("pypi:click==8.1.*",), "", True),
        (("pypi:click==8.1.*", "pypi:click==8.1.7"), "pypi:click==8.1.7", True),
        (("pypi:click==8.0.*",), "", False),
        (("pypi:click==8.1.[5-7]",), "", True),
        (("pypi:click[a]==8.1.7",), "pypi:click[a]==8.1.7", False),
    ],
)
def test_a_case_names_them(images: tuple[str, ...], default: str, fits: bool) -> None:
    case = Case(
        id="x", schema=1, title="", package="click", patch="p", tests=(), nodes=(), images=images
    )
    assert case.default_image == default
    assert case.fits("pypi:click==8.1.7") == fits
    assert not default or case.fits(default)
