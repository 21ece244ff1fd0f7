"""Images built on a real daemon, from wheels that are made here."""

from __future__ import annotations

import importlib.metadata
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest
from support.golden import BASE, DockerEnvironments
from support.wheels import DOCKERFILE, configure_pip, image, only_wheels_of, wheel

from harness.engines import builder, dockerbuild
from harness.errors import BadInput, EngineError, ImageUnavailable
from harness.image import Image, from_reference

ROOT = Path(dockerbuild.__file__).parents[2]
UV = importlib.metadata.version("uv")
PROGRAM = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
import docker
from harness.engines import dockerbuild
from harness.image import parse_image
folder = Path(sys.argv[1])
image = parse_image(
    (folder / "image.toml").read_text(), name=folder.name, folder=str(folder), where="image.toml"
)
step = lambda text: print(text, flush=True)
dockerbuild.build(docker.from_env(), folder, image, None, step)
"""
HANGS = DOCKERFILE.replace(
    "ARG WARM=", 'RUN echo "before the end"; for i in $(seq 600); do sleep 0.1; done\nARG WARM='
)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip knows, with a stand-in for uv's."""
    folder = tmp_path / "shelf"
    wheel(folder, "tiny", "1.0", {"tiny.py": "VALUE = 1\n"})
    wheel(folder, "uv", UV, {"uv.py": ""})
    configure_pip(monkeypatch, tmp_path / "home", only_wheels_of(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def client(
    container_environments: DockerEnvironments, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A daemon with the base image; images that a test makes go when it ends."""
    if url := container_environments.engine.link.url:
        monkeypatch.setenv("DOCKER_HOST", url)  # for processes of the test as well
    with_client = docker.from_env()
    before = _ours(with_client)
    yield with_client
    for name in _ours(with_client) - before:
        with_client.images.remove(name, force=True)
    with_client.close()


def _ours(client: Any) -> set[str]:
    listed = client.images.list(filters={"label": f"{dockerbuild.LABEL}=tiny-image"})
    return {tag for found in listed for tag in found.tags}


def _make(tmp_path: Path, dockerfile: str = DOCKERFILE, base: str = BASE) -> Image:
    wheels = [tmp_path / "shelf" / "tiny-1.0-py3-none-any.whl"]
    folder = tmp_path / "tiny-image"
    return image(folder, wheels, warm=["tiny"], dockerfile=dockerfile, base=base)


def _build(
    client: Any,
    made: Image,
    on_step: Callable[[str], None] = lambda step: None,
    base: str | None = None,
) -> str:
    return dockerbuild.build(client, Path(made.folder), made, base, on_step)


def _layers(client: Any, pid: int) -> list[str]:
    """What the builds of a process left on the daemon, which others use at the same time."""
    found = client.api.images(all=True, filters={"label": builder.BUILD_LABEL})
    found += client.api.containers(all=True, filters={"label": builder.BUILD_LABEL})
    return [one["Id"] for one in found if f":{pid}:" in one["Labels"][builder.BUILD_LABEL]]


def _contexts(tmp_path: Path) -> list[Path]:
    return [*tmp_path.glob("harness-*")]


# What needs no daemon


def test_the_name_follows_all_that_the_image_is_made_of(tmp_path: Path, shelf: Path) -> None:
    made = _make(tmp_path)
    folder = Path(made.folder)
    names = [dockerbuild.tag(folder, made), dockerbuild.tag(folder, made, "another:base")]
    for file in ("Dockerfile", "requirements.lock", "image.toml"):
        (folder / file).write_text((folder / file).read_text() + "\n")
        names.append(dockerbuild.tag(folder, made))
    assert len(set(names)) == 5
    assert all(name.startswith("harness/tiny-image:") for name in names)
    assert len(names[0].partition(":")[2]) == 12


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm-cpu-0.27.0", "vllm-cpu-0.27.0"),
        ("My_Image", "my-image"),
        ("a..b.", "a-b"),
        ("._", "image"),
    ],
)
def test_any_folder_gives_a_valid_name(tmp_path: Path, name: str, expected: str) -> None:
    made = image(tmp_path / name, [], base="b")
    assert dockerbuild.tag(tmp_path / name, made).startswith(f"harness/{expected}:")


def test_a_missing_file_is_named(tmp_path: Path, shelf: Path) -> None:
    made = _make(tmp_path)
    Path(made.folder, "Dockerfile").unlink()
    with pytest.raises(BadInput, match="Dockerfile: cannot be read"):
        dockerbuild.tag(Path(made.folder), made)


def test_what_is_not_built_has_no_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not built"):
        dockerbuild.tag(tmp_path, from_reference("some:image"))


def test_the_base_must_be_known(tmp_path: Path, shelf: Path) -> None:
    made = _make(tmp_path, base="")
    with pytest.raises(BadInput, match="has no base"):
        dockerbuild.tag(Path(made.folder), made)


def test_a_folder_becomes_a_tar(tmp_path: Path) -> None:
    long = "w/" + "x" * 200 + ".whl"
    contents = {"Dockerfile": b"a", "w/empty": b"", "w/block": b"b" * 512, long: b"c" * 3_000_000}
    for name, data in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    pieces = [*builder._tar(tmp_path)]
    assert max(map(len, pieces)) <= 1 << 20
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
        read = {item.name: archive.extractfile(item).read() for item in archive}
    assert read == contents


# On the daemon


def test_an_image_is_built_without_network(tmp_path: Path, shelf: Path, client: Any) -> None:
    dockerfile = DOCKERFILE.replace("ARG WARM=", "RUN ls /sys/class/net >/opt/site/net\nARG WARM=")
    made = _make(tmp_path, dockerfile)
    folder = Path(made.folder)
    assert dockerbuild.find(client, folder, made) == ""
    steps: list[str] = []
    image_id = _build(client, made, steps.append)
    assert image_id.startswith("sha256:")
    assert dockerbuild.find(client, folder, made) == image_id
    assert dockerbuild.find(client, folder, made, "another:base") == ""
    assert "warmed tiny" in steps
    assert any("step 1/" in step.casefold() for step in steps)
    assert not any("--->" in step for step in steps)
    out = _run(client, image_id, "cat /opt/site/net; ls /opt/site")
    assert out.split()[0] == "lo"
    assert {"tiny.py", "uv.py"} <= set(out.split())


def _run(client: Any, image_id: str, script: str) -> str:
    # Not containers.run, which follows the log: Podman's may never end after a short command.
    container = client.containers.create(image_id, ["sh", "-c", script], network_mode="none")
    try:
        container.start()
        container.wait(timeout=60)
        return str(container.logs(stderr=False).decode())
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("target", ["", "build"])
def test_labels_say_what_it_is_made_of(
    tmp_path: Path, shelf: Path, client: Any, target: str
) -> None:
    made = _make(tmp_path)
    built = dockerbuild.build(client, Path(made.folder), made, None, print, target=target)
    labels = client.images.get(built).labels
    assert bool(_run(client, built, "ls /build || true")) is bool(target)
    assert labels[dockerbuild.LABEL] == "tiny-image"
    assert len(labels["ab-harness.lock"]) == len(labels["ab-harness.recipe"]) == 64
    assert labels["ab-harness.base"] == client.images.get(BASE).id
    assert labels[builder.BUILD_LABEL] == ""


def test_no_layer_of_an_earlier_stage_stays(tmp_path: Path, shelf: Path, client: Any) -> None:
    base = client.images.get(BASE).id
    image_id = _build(client, _make(tmp_path))
    history = {layer["Id"] for layer in client.api.history(image_id)}
    assert {*_layers(client, os.getpid())} <= history
    assert client.images.get(BASE).id == base
    assert _contexts(tmp_path) == []
    client.images.remove(image_id, force=True)
    assert _layers(client, os.getpid()) == []


def test_a_failing_step_shows_its_last_lines(tmp_path: Path, shelf: Path, client: Any) -> None:
    script = r"RUN for i in $(seq 40); do echo line $i; done; printf '\033[31mred\n'; exit 3"
    made = _make(tmp_path, DOCKERFILE.replace("ARG WARM=", f"{script}\nARG WARM="))
    with pytest.raises(EngineError, match=r"code: 3|exit status 3") as caught:
        _build(client, made)
    text = str(caught.value)
    assert "line 40\n" in text
    assert "line 20\n" not in text
    assert "| red\n" in text
    assert _layers(client, os.getpid()) == []
    assert _contexts(tmp_path) == []
    assert dockerbuild.find(client, Path(made.folder), made) == ""


def test_a_dockerfile_that_is_none(tmp_path: Path, shelf: Path, client: Any) -> None:
    with pytest.raises(EngineError, match=r"(?i)unknown instruction|no FROM"):
        _build(client, _make(tmp_path, "FROM ${BASE}\nNONSENSE\n"))


def test_a_wheel_that_is_missing(tmp_path: Path, shelf: Path, client: Any) -> None:
    made = _make(tmp_path)
    (shelf / "tiny-1.0-py3-none-any.whl").unlink()
    with pytest.raises(EngineError, match="PIP_FIND_LINKS"):
        _build(client, made)


def test_a_base_that_is_nowhere(tmp_path: Path, shelf: Path, client: Any) -> None:
    made = _make(tmp_path, base="localhost:9/nowhere:1")
    with pytest.raises(ImageUnavailable, match="localhost:9/nowhere:1") as caught:
        _build(client, made)
    assert "harness image build tiny-image --base IMAGE" in caught.value.remedy
    assert ".ci/make-base" in caught.value.remedy
    built, folder = _build(client, made, base=BASE), Path(made.folder)
    assert built == dockerbuild.find(client, folder, made, BASE)
    assert built == dockerbuild.find(client, folder, made), "any base will do"


@pytest.mark.docker
def test_a_daemon_that_does_not_answer(tmp_path: Path, shelf: Path) -> None:
    gone = docker.DockerClient(base_url="tcp://127.0.0.1:9", version="1.41")
    made = _make(tmp_path)
    with pytest.raises(EngineError, match="the Docker daemon failed"):
        dockerbuild.find(gone, Path(made.folder), made)
    with pytest.raises(EngineError, match="the Docker daemon failed"):
        _build(gone, made)
    gone.close()


def _start(made: Image) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", PROGRAM, made.folder]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line == "before the end\n":
            return child
    raise AssertionError(child.communicate())


def test_an_interrupted_build_leaves_nothing(tmp_path: Path, shelf: Path, client: Any) -> None:
    with _start(_make(tmp_path, HANGS)) as child:
        assert _layers(client, child.pid)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert _layers(client, child.pid) == []
    assert _contexts(tmp_path) == []


def test_what_a_killed_build_left_is_reaped(tmp_path: Path, shelf: Path, client: Any) -> None:
    with _start(_make(tmp_path, HANGS)) as child:
        dockerbuild.reap(client)
        assert _layers(client, child.pid), "it is being built"
        child.send_signal(signal.SIGKILL)
    removed = []
    for _ in range(100):  # the daemon ends the build when it finds nobody there
        removed += dockerbuild.reap(client)
        if not _layers(client, child.pid):
            break
        time.sleep(0.1)
    assert _layers(client, child.pid) == []
    assert any(words.endswith("layers of an unfinished image") for words in removed)
    assert any(words.startswith("wheels in ") for words in removed)
    assert _contexts(tmp_path) == []
