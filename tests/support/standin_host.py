"""Stand-ins for what a GPU host shows: an nvidia-smi, and folders in place of /dev and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

UUID = "GPU-5f2a1f43-8a8c-4b3e-9d5e-0123456789ab"
OTHER = "GPU-6f2a1f43-8a8c-4b3e-9d5e-0123456789ab"


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, *, exit_code: int = 0) -> None:
    """A stand-in for nvidia-smi, first on PATH: it knows two devices, or fails."""
    rows = "".join(f"echo '{uuid}, NVIDIA H200, 9.0, 580.1'\n" for uuid in (UUID, OTHER))
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{rows if not exit_code else ''}exit {exit_code}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def drm(root: Path, vendor: str, *, kfd: bool = False) -> Path:
    """Two devices of a vendor, numbered against their PCI order; return ``root``."""
    for minor, address in ((128, "0000:83:00.0"), (129, "0000:03:00.0")):
        device = root / "sys/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        node = root / f"sys/class/drm/renderD{minor}"
        node.mkdir(parents=True)
        (node / "device").symlink_to(device)
        path = root / f"dev/dri/renderD{minor}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    if kfd:
        (root / "dev/kfd").touch()
    return root
