"""Locks of images from wheels, by the real uv from a folder of tiny wheels."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from support.wheels import configure_pip, only_wheels_of, wheel

from harness.engines import locking, packages
from harness.engines.local import LocalEngine
from harness.errors import BadInput, EngineError
from harness.image import Image, from_reference, parse_image
from harness.wheels import from_wheels

REFERENCE = "pypi:tiny==1.0"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, which is all that pip and uv know."""
    folder = tmp_path / "shelf"
    wheel(folder, "tiny", "1.0", {"tiny.py": "import part\n"}, needs=["part>=1"])
    wheel(folder, "tiny", "1.2", {"tiny.py": ""})
    wheel(folder, "part", "1.0", {"part.py": "VALUE = 1\n"})
    wheel(folder, "old", "1.0", {"old.py": ""}, tag="cp36-cp36m-manylinux2014_x86_64")
    _sdist(folder, "source", "1.0")
    configure_pip(monkeypatch, tmp_path / "home", only_wheels_of(folder))
    return folder


def _sdist(folder: Path, name: str, version: str) -> None:
    """A source distribution whose build would be noticed."""
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
        text = f"open({str(folder / 'built')!r}, 'w')\n".encode()
        entry = tarfile.TarInfo(f"{name}-{version}/setup.py")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def _ensure(reference: str, cache: Path, steps: list[str] | None = None) -> Image:
    told = [] if steps is None else steps
    return locking.ensure(from_wheels(reference), cache, told.append)


def _pins(image: Image) -> list[str]:
    lock = Path(image.folder, "requirements.lock").read_text()
    return [f"{pin.name}=={pin.version}" for pin in packages.parse_lock(lock)]


def test_a_reference_is_locked_with_all_that_it_needs(tmp_path: Path, shelf: Path) -> None:
    steps: list[str] = []
    image = _ensure(REFERENCE, tmp_path, steps)
    assert _pins(image) == ["part==1.0", "tiny==1.0"]
    lock = Path(image.folder, "requirements.lock").read_text()
    assert lock.count("--hash=sha256:") == 2
    assert str(tmp_path) not in lock
    assert steps[0].startswith(f"locking {REFERENCE} for Python 3.")
    assert steps[1].startswith("locked to 2 packages")


def test_the_same_reference_means_the_same_lock_later_on(tmp_path: Path, shelf: Path) -> None:
    image = _ensure(REFERENCE, tmp_path)
    before = Path(image.folder, "requirements.lock").read_bytes()
    wheel(shelf, "part", "2.0", {"part.py": ""})
    steps: list[str] = []
    assert _ensure(REFERENCE, tmp_path, steps) == image
    assert Path(image.folder, "requirements.lock").read_bytes() == before
    assert steps == []
    assert _pins(_ensure("pypi:tiny==1.0,part", tmp_path)) == ["part==2.0", "tiny==1.0"]
    assert _pins(_ensure(REFERENCE, tmp_path / "another")) == ["part==2.0", "tiny==1.0"]


def test_kept_locks_are_listed(tmp_path: Path, shelf: Path) -> None:
    assert locking.kept(tmp_path) == []
    made = [_ensure(f"{REFERENCE},part", tmp_path), _ensure("pypi:tiny==1.2", tmp_path)]
    Path(tmp_path, "pypi", "elsewhere").mkdir()
    Path(tmp_path, "pypi", "elsewhere", "requirements.in").write_text(f"# {REFERENCE}\n")
    assert locking.kept(tmp_path) == made


def test_the_folder_is_an_image_like_any_other(tmp_path: Path, shelf: Path) -> None:
    image = _ensure(REFERENCE, tmp_path)
    text = Path(image.folder, "image.toml").read_text()
    read = parse_image(text, name=image.name, folder=image.folder, where="image.toml")
    assert read == image
    assert "@" not in re.sub("#.*", "", Path(image.folder, "Dockerfile").read_text())


def test_the_local_engine_makes_it(tmp_path: Path, shelf: Path) -> None:
    engine = LocalEngine(cache=tmp_path)
    environment = engine.prepare(_ensure(REFERENCE, tmp_path), on_step=lambda step: None)
    program = "import tiny; print(tiny.part.VALUE)"
    assert subprocess.check_output([environment.python, "-c", program], text=True) == "1\n"
    assert environment.identity.digest == engine.has(_ensure(REFERENCE, tmp_path))


def test_other_images_are_left_alone(tmp_path: Path) -> None:
    image = from_reference("some:image")
    assert locking.ensure(image, tmp_path, lambda step: None) is image


def test_several_at_once_get_one_lock(tmp_path: Path, shelf: Path) -> None:
    made: list[Image] = []
    threads = [
        threading.Thread(target=lambda: made.append(_ensure(REFERENCE, tmp_path))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4 and len(set(made)) == 1
    assert [path.name for path in (tmp_path / "pypi").iterdir()] == [Path(made[0].folder).name]


@pytest.mark.parametrize(
    ("reference", "problem", "remedy"),
    [
        ("pypi:tinny==1.0", "no package tinny", "Correct the name"),
        ("pypi:tiny==1.0,patr", "no package patr", "Correct the name"),
        ("pypi:tiny==1.1", "tiny has no release 1.1", "newest with a wheel is 1.2, the one before"),
        ("pypi:tiny==1.0,part==9", "part has no release 9", "newest with a wheel is 1.0"),
        ("pypi:source==1.0", "no wheel of source", "Take a release that has one"),
        ("pypi:old==1.0", "no wheel of old", "python==3.X"),
        ("pypi:tiny==1.0,part<1", "no wheels that fit together", "what uv names"),
    ],
)
def test_what_cannot_be_is_the_users_input(
    tmp_path: Path, shelf: Path, reference: str, problem: str, remedy: str
) -> None:
    with pytest.raises(BadInput) as caught:
        _ensure(reference, tmp_path)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert not (tmp_path / "pypi").exists()
    assert not (shelf / "built").exists()


def _no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[global]\nindex-url = http://user:secret@127.0.0.1:9/simple\n"
    configure_pip(monkeypatch, tmp_path / "home", text)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


@pytest.mark.parametrize("offline", [False, True])
def test_an_index_out_of_reach_is_not_the_users_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    _no_index(tmp_path, monkeypatch)
    if not offline:
        monkeypatch.delenv("UV_OFFLINE")
    with pytest.raises(EngineError, match="cannot lock") as caught:
        _ensure(REFERENCE, tmp_path)
    assert ("UV_OFFLINE" if offline else "network") in caught.value.remedy
    assert "secret" not in str(caught.value)


def test_a_cache_that_cannot_be_written(tmp_path: Path, shelf: Path) -> None:
    (tmp_path / "pypi").write_text("a file")
    with pytest.raises(EngineError, match="the lock cannot be kept") as caught:
        _ensure(REFERENCE, tmp_path)
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_the_newest_release(shelf: Path) -> None:
    assert locking.newest("Tiny") == "1.2"
    wheel(shelf, "tiny", "2.0rc1", {"tiny.py": ""})
    assert locking.newest("tiny") == "1.2"
    with pytest.raises(BadInput, match="no package tinny"):
        locking.newest("tinny")
    with pytest.raises(BadInput, match="no wheel of source"):
        locking.newest("source")
    with pytest.raises(BadInput):
        locking.newest("tiny --index-url=x")
