"""image.toml: what is accepted, and that every complaint names the file and the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import store
from harness.errors import BadInput
from harness.image import Image, parse_image

GOOD = """
schema = 1
title = "An image"
packages = ["pkg"]
platform = "cpu"

[lock]
python = "3.11"
requirements = "requirements.lock"

[container]
dockerfile = "Dockerfile"
base = "some:base"
"""


def parse(text: str) -> Image:
    return parse_image(text, name="img", folder="/x", where="images/img/image.toml")


def test_a_good_image() -> None:
    image = parse(GOOD)
    assert (image.name, image.platform) == ("img", "cpu")
    assert image.lock and image.container and image.container.python == "python3"


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("title", "titel", "titel"),
        ("schema = 1", "schema = 3", "schema"),
        ('platform = "cpu"', 'platform = "tpu"', "platform"),
        ('"requirements.lock"', '"../requirements.lock"', "lock.requirements"),
        ('dockerfile = "Dockerfile"', 'dockerfile = "/Dockerfile"', "container.dockerfile"),
        ('dockerfile = "Dockerfile"', 'dockerfile = "D"\nreference = "a:b"', "container"),
        ('dockerfile = "Dockerfile"', "", "container"),
        ('[lock]\npython = "3.11"\nrequirements = "requirements.lock"', "", "lock"),
    ],
)
def test_complaints_name_file_and_key(old: str, new: str, key: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as caught:
        parse(GOOD.replace(old, new))
    assert "images/img/image.toml" in str(caught.value)
    assert key in str(caught.value)


def test_nothing_to_run_in() -> None:
    with pytest.raises(BadInput, match="nothing to run in"):
        parse('schema = 1\ntitle = "x"\n')


def test_a_reference_needs_no_folder(tmp_path: Path) -> None:
    image = store.load_image("registry.local/name:tag", tmp_path)
    assert image.container and image.container.reference == "registry.local/name:tag"
    assert image.lock is None
    for wrong in ("nothing", "a b:c", "x:\x1b[0m"):
        with pytest.raises(BadInput):
            store.load_image(wrong, tmp_path)


def test_files_that_an_image_names_must_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "img"
    folder.mkdir(parents=True)
    (folder / "image.toml").write_text(GOOD)
    with pytest.raises(BadInput, match=r"lock\.requirements: no file"):
        store.load_image("img", tmp_path)
    (folder / "requirements.lock").touch()
    with pytest.raises(BadInput, match=r"container\.dockerfile: no file"):
        store.load_image("img", tmp_path)
    (folder / "Dockerfile").touch()
    assert store.load_image("img", tmp_path).folder == str(folder)
