"""Pinning, pulling and moved tags through the command, against a real registry."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.golden import DockerEnvironments, Spec, write_case
from support.registry import Registry, Shelf, SlowLine, serving
from support.required import lacking

from .conftest import ROOT, Cli

TOML = """# An image of a test.
schema = 1
title = "tiny"
packages = ["minipkg"]
platform = "cpu"

[container]  # pulled
reference = "{reference}"  # the tag
python = "python3"

# Nothing follows.
"""


@pytest.fixture(scope="module")
def shelf(docker_reason: str) -> Iterator[Shelf]:
    if docker_reason:
        lacking(docker_reason)
    made = Shelf()
    yield made
    made.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, shelf: Shelf) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("hub") / "registry") as running:
        yield running


def write_image(cli: Cli, reference: str, name: str = "tiny") -> Path:
    toml = cli.cwd / "images" / name / "image.toml"
    toml.parent.mkdir(parents=True)
    toml.write_text(TOML.format(reference=reference))
    return toml


@pytest.mark.docker
def test_pin_writes_the_digest_and_leaves_the_rest(cli: Cli, shelf: Shelf, hub: Registry) -> None:
    toml = write_image(cli, f"{hub.address}/pin/tiny:1")
    toml.chmod(0o640)
    before = toml.read_text()
    old = shelf.push(hub, "pin/tiny:1")
    assert cli("image", "pin", "tiny", "--check").returncode == 1
    assert toml.read_text() == before
    assert "not pinned" in cli("image", "list").stdout

    done = cli("image", "pin", "tiny")
    assert done.returncode == 0, done.stderr
    assert "not pinned" in done.stdout and old in done.stdout
    today = time.strftime("%Y-%m-%d", time.gmtime())
    line = next(line for line in before.splitlines(True) if line.startswith("reference"))
    added = f'digest = "{old}"\ndigest_from = "registry, {today}"\n'
    assert toml.read_text() == before.replace(line, line + added)
    assert toml.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in toml.parent.iterdir()] == ["image.toml"]
    assert cli("image", "pin", "tiny", "--check").returncode == 0

    new = shelf.push(hub, "pin/tiny:1")
    document = cli.json("image", "pin", "tiny", "--check", code=1)
    assert (document["pinned"], document["now"], document["written"]) == (old, new, False)
    document = cli.json("image", "pin", "tiny", code=0)
    assert (document["pinned"], document["now"], document["written"]) == (old, new, True)
    assert toml.read_text() == before.replace(line, line + added).replace(old, new)
    (listed,) = cli.json("image", "list", code=0)["images"]
    assert listed["digest"] == new and listed["digest_from"].startswith("registry, ")
    assert new[:19] in cli("image", "list").stdout


@pytest.mark.docker
def test_pin_confirms_a_digest_that_was_only_quoted(cli: Cli, shelf: Shelf, hub: Registry) -> None:
    digest = shelf.push(hub, "quoted/tiny:1")
    toml = write_image(cli, f"{hub.address}/quoted/tiny:1")
    quoted = f'\ndigest = "{digest}"\ndigest_from = "quoted"  # by whom?\npython'
    toml.write_text(toml.read_text().replace("\npython", quoted))
    done = cli("image", "pin", "tiny")
    assert done.returncode == 0 and f"{digest}, as pinned" in done.stdout
    assert 'digest_from = "registry, ' in toml.read_text()
    assert "# by whom?" in toml.read_text()
    assert not cli.json("image", "pin", "tiny", code=0)["written"], "it is known already"


def test_what_cannot_be_pinned_says_why(cli: Cli) -> None:
    toml = write_image(cli, "lab/tiny")
    digest = "sha256:" + "0" * 64
    toml.write_text(toml.read_text().replace("\npython", f'\ndigest = "{digest}"\npython'))
    (cli.cwd / "images" / "built").mkdir()
    for file in (ROOT / "images" / "vllm-cpu-0.27.0").iterdir():
        (cli.cwd / "images" / "built" / file.name).write_bytes(file.read_bytes())
    for name, words in (
        ("built", "made from a lock"),
        ("lab/other:1", "has no folder under images/"),
        ("tiny", "no tag to ask the registry for"),
        ("nothing", "no image 'nothing'"),
    ):
        done = cli("image", "pin", name)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    assert "built from a lock" in cli("image", "list").stdout


def test_pin_needs_a_daemon(cli: Cli) -> None:
    toml = write_image(cli, "lab/tiny:1")
    before = toml.read_text()
    done = cli("image", "pin", "tiny", env={"DOCKER_HOST": "unix:///nowhere"})
    assert done.returncode == 3 and "no Docker daemon" in done.stderr
    assert toml.read_text() == before


@pytest.mark.docker
def test_pin_uses_dockers_credentials(cli: Cli, shelf: Shelf, tmp_path: Path) -> None:
    with serving(tmp_path / "private", private=True) as private:
        write_image(cli, f"{private.address}/lab/tiny:1")
        digest = shelf.push(private, "lab/tiny:1")
        (tmp_path / "empty").mkdir()
        done = cli("image", "pin", "tiny", env={"DOCKER_CONFIG": str(tmp_path / "empty")})
        assert done.returncode == 3 and f"docker login {private.address}" in done.stderr
        login = {"DOCKER_CONFIG": str(private.credentials(tmp_path / "login"))}
        done = cli("image", "pin", "tiny", env=login)
        assert done.returncode == 0 and digest in done.stdout
        done = cli("image", "build", "tiny", env=login)
        assert done.returncode == 0, done.stderr
        assert f"pulling {private.address}/lab/tiny@{digest}" in done.stderr


@pytest.mark.docker
def test_both_arms_run_in_the_pinned_image_and_not_in_what_the_tag_became(
    cli: Cli, shelf: Shelf, hub: Registry, docker_environments: DockerEnvironments
) -> None:
    write_case(cli.cwd / "cases" / "unset-factor")
    base = docker_environments.target(Spec()).wanted.image.name
    reference = f"{hub.address}/lab/golden:1"
    write_image(cli, reference, "golden-1.0")
    old = shelf.push(hub, "lab/golden:1", base=base)
    assert cli("image", "pin", "golden-1.0").returncode == 0

    # By the reference as by the name, the folder's pin counts.
    document = cli.json("ab", "unset-factor", "--image", reference, code=0)
    assert recorded(cli) == [("golden-1.0", old, old)]
    assert document["rows"][0]["image"].startswith("golden-1.0@")

    new = shelf.push(hub, "lab/golden:1", base=base)
    done = cli("ab", "unset-factor", "--image", "golden-1.0")
    assert done.returncode == 3
    assert f"pinned {old}, now {new}" in done.stderr and "--allow-moved-tag" in done.stderr

    done = cli("ab", "unset-factor", "--image", f"{hub.address}/lab/golden@{old}", "--out", "old")
    assert done.returncode == 0, done.stderr
    assert recorded(cli, "old") == [("golden-1.0", old, old)]
    (report,) = cli.cwd.glob("old/**/report.md")
    assert f"(registry digest `{old[:19]}…`)" in report.read_text(), report.read_text()

    document = cli.json(
        "ab", "unset-factor", "--image", "golden-1.0", "--allow-moved-tag", "--out", "new", code=0
    )
    assert recorded(cli, "new") == [("golden-1.0", new, old)]
    assert any("has moved" in gap and old in gap and new in gap for gap in document["gaps"])


def recorded(cli: Cli, out: str = "reports") -> list[tuple[str, str, str]]:
    """What the arms' records say of the image: its name, what was run, what is pinned."""
    arms = [json.loads(path.read_text()) for path in cli.cwd.glob(f"{out}/**/arm.json")]
    assert len(arms) == 2
    return sorted(
        {(i["name"], i["registry_digest"], i["pinned"]) for i in (arm["image"] for arm in arms)}
    )


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_pull_ends_at_once(
    cli: Cli, shelf: Shelf, hub: Registry, number: signal.Signals
) -> None:
    shelf.push(hub, "lab/big:1", content=os.urandom(8_000_000))
    line = SlowLine(hub.address, rate=1_000_000)
    shelf.also(line.address)
    try:
        reference = f"{line.address}/lab/big:1"
        write_case(cli.cwd / "cases" / "unset-factor")
        argv = cli.argv("ab", "unset-factor", "--image", reference, "--engine", "docker")
        with subprocess.Popen(
            argv, cwd=cli.cwd, env=cli.env, stderr=subprocess.PIPE, text=True
        ) as process:
            seen = until(process, " of 8.0 MB, 0 of 1 layers")
            assert f"pulling {reference}: " in seen
            began = time.monotonic()
            process.send_signal(number)
            _, rest = process.communicate(timeout=20)
        assert time.monotonic() - began < 3
        assert process.returncode == 130 and "Warning" not in rest, rest
    finally:
        line.close()


@pytest.mark.docker
def test_pulls_on_two_hosts_that_say_nothing_end_at_once(
    cli: Cli, shelf: Shelf, hub: Registry, docker_environments: DockerEnvironments
) -> None:
    url = docker_environments.engine.client.api.base_url
    if not url.startswith("http+docker://"):
        lacking("the daemon is not behind a socket")
    shelf.push(hub, "lab/slow:1", content=os.urandom(1_000_000))
    line = SlowLine(hub.address, rate=500)  # half a minute from one word to the next
    shelf.also(line.address)
    try:
        write_case(cli.cwd / "cases" / "unset-factor")
        hosts = [f"--host={name}=unix:///var/run/docker.sock" for name in ("one", "two")]
        argv = cli.argv("ab", "unset-factor", "--image", f"{line.address}/lab/slow:1", *hosts)
        with subprocess.Popen(
            argv, cwd=cli.cwd, env=cli.env, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            for _ in hosts:
                assert "pulling " in process.stderr.readline()
            time.sleep(2)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
        assert time.monotonic() - began < 10
        assert process.returncode == 130 and "Warning" not in rest, rest
    finally:
        line.close()


def until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line and not line.split(": ")[1].startswith("0.0"):
            return line
    raise AssertionError(seen)
