"""What a user writes to choose a device."""

from __future__ import annotations

import pytest

from harness.device import Device, parse_device
from harness.errors import BadInput

UUID = "GPU-5f2a1f43-8a8c-4b3e-9d5e-0123456789ab"


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu", Device(family="cpu")),
        ("cuda", Device(family="cuda")),
        ("cuda:1", Device(family="cuda", which="1")),
        ("xpu:0", Device(family="xpu", which="0")),
        ("rocm:12", Device(family="rocm", which="12")),
        (f"cuda:{UUID}", Device(family="cuda", which=UUID)),
        ("cuda:MIG-5f2a1f43", Device(family="cuda", which="MIG-5f2a1f43")),
        ("nvidia.com/gpu=0", Device(family="cuda", which="nvidia.com/gpu=0", cdi=True)),
        ("intel.com/gpu=card1", Device(family="xpu", which="intel.com/gpu=card1", cdi=True)),
        ("amd.com/gpu=0", Device(family="rocm", which="amd.com/gpu=0", cdi=True)),
    ],
)
def test_a_device_is_read_and_written_alike(text: str, device: Device) -> None:
    assert parse_device(text) == device
    assert str(device) == text


def test_one_index_has_one_name() -> None:
    assert parse_device("cuda:00") == parse_device("cuda:0")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a device"),
        ("gpu", "is not a device"),
        ("CUDA", "is not a device"),
        ("cuda:", "names no cuda device"),
        ("cuda:-1", "names no cuda device"),
        ("cuda:0,1", "names no cuda device"),
        ("cuda:12345", "names no cuda device"),
        ("cuda:\u0663", "names no cuda device"),
        ("cuda:all", "names no cuda device"),
        ("cuda:GPU-x", "names no cuda device"),
        (f"xpu:{UUID}", "names no xpu device"),
        ("cpu:0", "names no cpu device"),
        ("nvidia.com/gpu=", "not a known CDI device"),
        ("nvidia.com/gpu=-x", "not a known CDI device"),
        ("example.com/gpu=0", "not a known CDI device"),
        ("nvidia.com/gpu=all", "a row is made on one device"),
    ],
)
def test_anything_else_is_refused_with_examples(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as raised:
        parse_device(text, where="hosts.a.device")
    assert "hosts.a.device" in raised.value.problem
    assert "cuda:0" in raised.value.remedy
