"""image.toml: what is accepted, and that every complaint names the file and the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import store
from harness.errors import BadInput
from harness.image import Image, parse_image, parse_reference

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


DIGEST = "sha256:" + "0a" * 32
PULLED = f"""
schema = 1
title = "A published image"

[container]
reference = "lab/name:1"
digest = "{DIGEST}"
digest_from = "a test"
python = "/opt/venv/bin/python"
"""


def test_a_pinned_image() -> None:
    container = parse(PULLED).container
    assert container is not None and container.pin == container.digest == DIGEST


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (f'"{DIGEST}"', '"0a0a"', "container.digest"),
        (f'"{DIGEST}"', f'"{DIGEST.upper()}"', "container.digest"),
        (f'"{DIGEST}"', f'"{DIGEST}0"', "container.digest"),
        (f'digest = "{DIGEST}"', "", "container.digest_from"),
        ('reference = "lab/name:1"', 'dockerfile = "D"', "container.digest"),
        ("lab/name:1", f"lab/name:1@{DIGEST}", "container.reference"),
        ("lab/name:1", "Lab/Name:1", "container.reference"),
        ("lab/name:1", "lab/name:", "container.reference"),
        (f'lab/name:1"\ndigest = "{DIGEST}"\ndigest_from = "a test', DIGEST, "container.reference"),
    ],
)
def test_a_pin_that_cannot_hold_is_named(old: str, new: str, key: str) -> None:
    assert old in PULLED
    with pytest.raises(BadInput, match=rf"images/img/image\.toml: {key}: "):
        parse(PULLED.replace(old, new))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("debian", ("debian", "", "", "docker.io", "debian")),
        (
            "docker.io/library/debian:12",
            ("docker.io/library/debian", "12", "", "docker.io", "debian"),
        ),
        ("vllm/vllm-openai:v0.27.0", ("vllm/vllm-openai", "v0.27.0", "", "docker.io", None)),
        (f"a/b@{DIGEST}", ("a/b", "", DIGEST, "docker.io", None)),
        (f"h.test:5000/a/b_c:t@{DIGEST}", ("h.test:5000/a/b_c", "t", DIGEST, "h.test:5000", None)),
        ("localhost/a", ("localhost/a", "", "", "localhost", None)),
        ("[::1]:5000/a:1", ("[::1]:5000/a", "1", "", "[::1]:5000", None)),
        (DIGEST, ("", "", DIGEST, "docker.io", None)),
    ],
)
def test_references_in_their_parts(text: str, parts: tuple[str, ...]) -> None:
    found = parse_reference(text)
    assert str(found) == text
    assert (found.repository, found.tag, found.digest, found.registry) == parts[:4]
    assert found.familiar == (parts[4] or found.repository)


@pytest.mark.parametrize(
    "text",
    ["", "A/b", "a b", "a:", ":a", "a/", "/a", "a//b", "a@", "a@sha256:0", "a:1:2", "-a", "a:-"],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(BadInput, match="not a container reference"):
        parse_reference(text)


def write(root: Path, name: str, text: str) -> Path:
    folder = root / "images" / name
    folder.mkdir(parents=True)
    (folder / "image.toml").write_text(text)
    return folder / "image.toml"


@pytest.mark.parametrize("text", ["lab/name:1", "docker.io/lab/name:1"])
def test_a_reference_that_a_folder_has_is_that_folders_image(tmp_path: Path, text: str) -> None:
    write(tmp_path, "known", PULLED)
    image = store.load_image(text, tmp_path)
    assert image.name == "known"
    assert image == store.load_image("known", tmp_path)


@pytest.mark.parametrize("text", [f"lab/name@{DIGEST}", f"lab/name:1@{DIGEST}"])
def test_the_pinned_digest_is_that_folders_image_whatever_its_tag_says(
    tmp_path: Path, text: str
) -> None:
    write(tmp_path, "known", PULLED)
    image = store.load_image(text, tmp_path)
    assert image.name == "known" and image.container is not None
    assert image.container.python == "/opt/venv/bin/python"
    assert (image.container.pin, image.container.digest) == (DIGEST, "")


@pytest.mark.parametrize(
    "text",
    [
        "lab/name:2",
        "lab/name",
        "else/name:1",
        f"lab/name:2@{DIGEST}",
        "lab/name@sha256:" + "0" * 64,
        "lab/name:1@sha256:" + "0" * 64,
    ],
)
def test_another_reference_is_not_the_folders_image(tmp_path: Path, text: str) -> None:
    write(tmp_path, "known", PULLED)
    image = store.load_image(text, tmp_path)
    assert (image.name, image.folder) == (text, "")


def test_an_image_pinned_by_its_digest_alone_is_not_the_latest(tmp_path: Path) -> None:
    write(tmp_path, "known", PULLED.replace("lab/name:1", "lab/name"))
    assert store.load_image("lab/name", tmp_path).name == "known"
    assert store.load_image(f"lab/name@{DIGEST}", tmp_path).name == "known"
    assert store.load_image("lab/name:latest", tmp_path).name == "lab/name:latest"


def test_two_folders_with_one_reference_are_named(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path, name, PULLED)
    with pytest.raises(BadInput, match="one and other") as caught:
        store.load_image("lab/name:1", tmp_path)
    assert "Give the name of one" in caught.value.remedy


UNPINNED = PULLED.replace(f'digest = "{DIGEST}"\ndigest_from = "a test"\n', "")
LINES = f'digest = "{DIGEST}"\ndigest_from = "a \\"test\\""\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            UNPINNED.replace('name:1"', 'name:1"  # why') + "\n# the end\n",
            UNPINNED.replace('name:1"\n', 'name:1"  # why\n' + LINES) + "\n# the end\n",
        ),
        (
            UNPINNED.replace("reference", "  reference"),
            UNPINNED.replace("reference", "  reference").replace(
                'name:1"\n', 'name:1"\n' + "".join(f"  {x}" for x in LINES.splitlines(True))
            ),
        ),
        (
            UNPINNED.replace("\n", "\r\n"),
            UNPINNED.replace('name:1"\n', 'name:1"\n' + LINES).replace("\n", "\r\n"),
        ),
        (
            'schema = 1\ntitle = "x"\n[container]\nreference = "a:1"',
            'schema = 1\ntitle = "x"\n[container]\nreference = "a:1"\n' + LINES.rstrip("\n"),
        ),
    ],
)
def test_a_pin_is_written_below_the_reference(tmp_path: Path, before: str, after: str) -> None:
    toml = write(tmp_path, "img", "")
    toml.write_bytes(before.encode())
    store.write_pin(store.load_image("img", tmp_path), DIGEST, 'a "test"')
    assert toml.read_bytes().decode() == after


@pytest.mark.parametrize(
    "text",
    [
        'schema = 1\ntitle = "x"\ncontainer = {reference = "a:1"}\n',
        'schema = 1\ncontainer.reference = "a:1"\ntitle = "x"\n',
    ],
)
def test_a_pin_is_written_into_any_table(tmp_path: Path, text: str) -> None:
    write(tmp_path, "img", text)
    store.write_pin(store.load_image("img", tmp_path), DIGEST, "a test")
    container = store.load_image("img", tmp_path).container
    assert container and (container.digest, container.digest_from) == (DIGEST, "a test")


def test_a_pin_goes_through_a_link(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.toml"
    real.write_text(UNPINNED)
    link = write(tmp_path, "img", "")
    link.unlink()
    link.symlink_to(real)
    store.write_pin(store.load_image("img", tmp_path), DIGEST, "a test")
    assert link.is_symlink() and DIGEST in real.read_text()


def test_every_published_image_says_where_its_digest_is_from() -> None:
    root = Path(store.__file__).parents[1]
    published = [store.load_image(name, root) for name in store.image_names(root)]
    pulled = [image for image in published if image.container and image.container.reference]
    assert {image.platform for image in pulled} == {"cpu", "cuda", "rocm", "xpu"}
    for image in pulled:
        assert image.container is not None and image.packages == ("vllm",)
        assert bool(image.container.digest) == bool(image.container.digest_from)


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
