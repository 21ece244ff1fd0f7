"""What a host shows of its devices, and what its daemon can give: on stand-ins for both."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, cast

import pytest
from docker import DockerClient
from support.required import lacking
from support.standin_host import OTHER, UUID, drm, smi

from harness.engines.devices import Device, Offer, devices, look_at, nvidia_by, offers
from harness.engines.docker import DockerEngine
from harness.errors import EngineError

FAMILIES = ("cpu", "cuda", "xpu", "rocm")


def test_every_family_is_looked_for_and_what_is_absent_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {device.family: device for device in devices(tmp_path)}
    assert tuple(found) == FAMILIES
    assert found["cpu"].present
    for family in FAMILIES[1:]:
        assert not found[family].present and found[family].remedy and not found[family].ids


def test_this_machine_is_looked_at_without_a_fault() -> None:
    assert [device.family for device in devices()] == list(FAMILIES)


def test_nvidia_devices_are_those_that_nvidia_smi_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch)
    found = look_at("cuda", tmp_path)
    assert found.present and found.ids == (UUID, OTHER)
    assert found.text == "NVIDIA H200, 9.0, 580.1; NVIDIA H200, 9.0, 580.1"


def test_an_nvidia_smi_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, exit_code=9)
    assert not look_at("cuda", tmp_path).present
    assert "nvidia-smi ends with 9" in look_at("cuda", tmp_path).text
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    assert look_at("cuda", tmp_path).present
    assert "nvidia-smi ends with 9" in look_at("cuda", tmp_path).text


def test_intel_and_amd_devices_are_render_nodes_in_pci_order(tmp_path: Path) -> None:
    intel = look_at("xpu", drm(tmp_path / "intel", "0x8086"))
    assert intel.ids == ("0000:03:00.0", "0000:83:00.0")
    assert intel.text == "2 Intel devices (renderD129, renderD128)" and not intel.remedy
    amd = look_at("rocm", drm(tmp_path / "amd", "0x1002", kfd=True))
    assert amd.ids == intel.ids and amd.text == "2 AMD devices (renderD129, renderD128)"
    assert not look_at("rocm", tmp_path / "intel").present
    assert not look_at("xpu", tmp_path / "amd").present


def test_an_amd_device_without_kfd_needs_its_driver(tmp_path: Path) -> None:
    found = look_at("rocm", drm(tmp_path, "0x1002"))
    assert not found.present and "not /dev/kfd" in found.text and "amdgpu" in found.remedy


def test_a_device_on_the_bus_without_a_node_needs_its_driver(tmp_path: Path) -> None:
    for address, vendor in (("0000:03:00.0", "0x8086"), ("0000:41:00.0", "0x1002")):
        device = tmp_path / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "class").write_text("0x030000\n")
        (device / "vendor").write_text(f"{vendor}\n")
    assert "without a render node" in look_at("xpu", tmp_path).text
    assert "modprobe xe" in look_at("xpu", tmp_path).remedy
    assert "modprobe amdgpu" in look_at("rocm", tmp_path).remedy


def test_a_node_that_this_user_may_not_open_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = drm(tmp_path, "0x8086")
    closed = root / "dev/dri/renderD129"
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and real(path, mode))
    found = look_at("xpu", root)
    assert found.present and "may not open /dev/dri/renderD129" in found.text
    assert "render" in found.remedy


@pytest.mark.parametrize(
    ("info", "way", "certain"),
    [
        ({}, "", ""),
        ({"Runtimes": {"runc": {}}, "CDISpecDirs": None}, "", ""),
        ({"Runtimes": {"nvidia": {}}, "CDISpecDirs": ["/etc/cdi"]}, "runtime", "runtime"),
        ({"CDISpecDirs": ["/etc/cdi"]}, "CDI", ""),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}, "CDI", "CDI"),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "vendor.com/nic=0"}]}, "", ""),
    ],
)
def test_how_a_daemon_gives_nvidia_devices(info: dict[str, Any], way: str, certain: str) -> None:
    assert nvidia_by(info) == way
    assert nvidia_by(info, certain=True) == certain


class Daemon:
    """A stand-in daemon that only says what it is."""

    def __init__(self, *, here: bool, **info: Any) -> None:
        name = platform.node() if here else "elsewhere"
        self._info = {"Name": name, "KernelVersion": platform.release(), **info}

    def info(self) -> dict[str, Any]:
        return self._info


def offered(daemon: Daemon, *present: str) -> dict[str, Offer]:
    seen = [
        Device(family=family, present=family in present, text=f"{family} text", remedy="look")
        for family in FAMILIES
    ]
    return {offer.family: offer for offer in offers(cast("DockerClient", daemon), seen)}


def test_a_daemon_here_gives_what_this_host_shows() -> None:
    runtime = {"nvidia": {}}
    found = offered(Daemon(here=True, Runtimes=runtime), "cpu", "cuda", "xpu")
    assert [found[family].able for family in FAMILIES] == [True, True, True, False]
    assert found["cuda"].text == "by runtime" and found["rocm"].text == "rocm text"
    assert offered(Daemon(here=True, Runtimes=runtime), "cpu")["cuda"].able is False


def test_a_daemon_without_nvidias_runtime_says_so_and_how_to_get_it() -> None:
    found = offered(Daemon(here=True), "cpu", "cuda")["cuda"]
    assert found.able is False and "no NVIDIA runtime" in found.text
    assert "nvidia-ctk runtime configure" in found.remedy


def test_of_a_daemon_elsewhere_only_its_own_words_count() -> None:
    """What this host shows is nothing to it."""
    found = offered(Daemon(here=False, CDISpecDirs=["/etc/cdi"]), "cpu", "cuda", "xpu", "rocm")
    assert [found[family].able for family in FAMILIES] == [True, None, None, None]
    found = offered(Daemon(here=False, Runtimes={"nvidia": {}}), "cpu")
    assert found["cuda"].able is True


@pytest.mark.docker
def test_the_real_daemon_is_asked(docker_reason: str) -> None:
    if docker_reason:
        lacking(docker_reason)
    engine = DockerEngine()
    try:
        assert [offer.family for offer in offers(engine.client, devices())] == list(FAMILIES)
    finally:
        engine.close()


def test_a_daemon_that_is_gone_is_an_engine_error() -> None:
    class Gone(Daemon):
        def info(self) -> dict[str, Any]:
            raise ConnectionError("nobody listens")

    with pytest.raises(EngineError, match=r"asking what the daemon can give: nobody listens"):
        offered(Gone(here=True))
