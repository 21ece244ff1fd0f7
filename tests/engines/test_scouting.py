"""The container that looks for device nodes, and the program in it: on real and stand-in nodes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient
from support import nodes
from support.golden import BASE
from support.required import lacking

import harness.guest
from harness.engines.docker import DockerEngine
from harness.engines.scouting import Node, parse_nodes, scout
from harness.errors import EngineError

PYTHON = os.environ.get("HARNESS_GUEST_PYTHON", sys.executable)
PROGRAM = Path(harness.guest.__file__).parent / "scout.py"
FULL, ZERO = os.makedev(1, 7), os.makedev(1, 5)


@pytest.fixture(scope="module")
def client(docker_reason: str) -> Iterator[DockerClient]:
    if docker_reason:
        lacking(docker_reason)
    engine = DockerEngine()
    if engine.client.info()["Name"] != platform.node():
        lacking("the daemon is on another machine, where no stand-in device nodes can be made")
    yield engine.client
    engine.close()


@pytest.mark.docker
def test_the_scout_says_what_it_was_given(client: DockerClient) -> None:
    with nodes.stand_ins(nodes.ROCM):
        seen = scout(
            client,
            BASE,
            "python3",
            {"devices": ["/dev/dri:/dev/dri:rw"]},
            remove=lambda container: container.remove(force=True),
        )
    assert {node.path: node.gid for node in seen} == {
        f"/dev/{name}": gid for name, gid in nodes.XPU.items()
    }
    assert {(node.vendor, node.address) for node in seen} == {("", "")}


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"hello",
        b"\xff\xfe",
        b"[]",
        b'{"nodes": null}',
        b'{"nodes": [], "more": 1}',
        b'{"nodes": [{"path": "/dev/sda", "gid": 0}]}',
        b'{"nodes": [{"path": "/dev/dri/../sda", "gid": 0}]}',
        b'{"nodes": [{"path": "/dev/dri/renderD128\\n", "gid": 0}]}',
        b'{"nodes": [{"path": "/dev/dri/renderD128:/dev/sda", "gid": 0}]}',
        b'{"nodes": [{"path": "/dev/dri/card0", "gid": -1}]}',
        b'{"nodes": [{"path": "/dev/dri/card0", "gid": 4294967296}]}',
        b'{"nodes": [{"path": "/dev/dri/card0", "gid": "0"}]}',
        b'{"nodes": [{"path": "/dev/dri/card0", "gid": true}]}',
        b'{"nodes": [{"path": "/dev/dri/card0", "gid": 0, "vendor": "Intel"}]}',
        b'{"nodes": [{"path": "/dev/dri/card0", "gid": 0, "address": "a b"}]}',
        b'{"nodes": [{"path": "/dev/kfd", "gid": 0}, {"path": "/dev/kfd", "gid": 1}]}',
        json.dumps(
            {"nodes": [{"path": f"/dev/dri/card{n}", "gid": 0} for n in range(300)]}
        ).encode(),
    ],
)
def test_what_the_image_prints_is_not_believed(output: bytes) -> None:
    with pytest.raises(EngineError, match="printed something else"):
        parse_nodes(output)


def look(dev: Path, sysfs: Path) -> tuple[Node, ...]:
    program = PROGRAM.read_text()
    argv = [PYTHON, "-I", "-S", "-c", program, str(dev), str(sysfs)]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    return parse_nodes(done.stdout)


def test_the_vendor_and_the_address_are_those_of_the_nodes_number(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        lacking("only root can make stand-in device nodes")
    dev, sysfs = tmp_path / "dev", tmp_path / "sys"
    nodes.make_all(dev, {"dri/renderD128": nodes.RENDER, "kfd": nodes.KFD, "nvidia0": 7})
    nodes.make(dev / "dri/renderD129", nodes.SECOND, FULL)
    nodes.make(dev / "dri/card0", nodes.CARD, ZERO)
    for number, vendor, address in (("1:7", "0x1002", "0000:41:00.0"), ("1:5", "", "0000:03:00.0")):
        device = sysfs / "devices" / address
        device.mkdir(parents=True)
        if vendor:
            (device / "vendor").write_text(f"{vendor}\n")
        (sysfs / "dev/char" / number).mkdir(parents=True)
        (sysfs / "dev/char" / number / "device").symlink_to(device)
    (dev / "nvidia-caps").mkdir()
    (dev / "dri/renderD130").write_text("a file")
    (dev / "dri/renderD131").symlink_to("/nowhere")
    nodes.make(dev / "sda", 0)
    assert look(dev, sysfs) == (
        Node(path="/dev/dri/card0", gid=nodes.CARD),
        Node(path="/dev/dri/renderD128", gid=nodes.RENDER),
        Node(path="/dev/dri/renderD129", gid=nodes.SECOND, vendor="0x1002", address="0000:41:00.0"),
        Node(path="/dev/kfd", gid=nodes.KFD),
        Node(path="/dev/nvidia0", gid=7),
    )


def test_a_host_without_devices_has_none(tmp_path: Path) -> None:
    assert look(tmp_path / "dev", tmp_path / "sys") == ()
