"""What devices this host shows, by platform family, without any vendor's library."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PCI = Path("/sys/bus/pci/devices")
_INTEL, _AMD = "0x8086", "0x1002"
_DISPLAY = "0x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a family's devices look like from the host; arms measure for themselves."""

    family: str
    present: bool
    text: str
    remedy: str = ""


def devices() -> list[Device]:
    """Look at every platform family of this host; nothing is started on a device."""
    return [_cpu(), _cuda(), _xpu(), _rocm()]


def _cpu() -> Device:
    name = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        name = platform.processor()
    return Device(family="cpu", present=True, text=name or platform.machine())


def _cuda() -> Device:
    tool = shutil.which("nvidia-smi")
    if tool:
        query = [tool, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
        try:
            out = subprocess.run(query, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError) as error:
            return Device(
                family="cuda",
                present=False,
                text=f"nvidia-smi fails: {error}",
                remedy="Check the driver.",
            )
        lines = [line.strip() for line in out.stdout.splitlines() if line.strip()]
        if out.returncode == 0 and lines:
            return Device(family="cuda", present=True, text="; ".join(lines))
    if Path("/dev/nvidiactl").exists():
        return Device(family="cuda", present=True, text="/dev/nvidiactl is there (no nvidia-smi)")
    return Device(
        family="cuda",
        present=False,
        text="no NVIDIA device (no /dev/nvidiactl)",
        remedy="Run there where one is, and merge: harness table EVIDENCE…",
    )


def _xpu() -> Device:
    if _display_of(_INTEL) and Path("/dev/dri").is_dir():
        return Device(family="xpu", present=True, text="an Intel display device with /dev/dri")
    return Device(
        family="xpu",
        present=False,
        text="no Intel GPU with /dev/dri",
        remedy="Run there where one is, and merge: harness table EVIDENCE…",
    )


def _rocm() -> Device:
    if Path("/dev/kfd").exists():
        return Device(family="rocm", present=True, text="an AMD device with /dev/kfd")
    text = "an AMD device, but no /dev/kfd" if _display_of(_AMD) else "no AMD device (no /dev/kfd)"
    return Device(
        family="rocm",
        present=False,
        text=text,
        remedy="Run there where one is, and merge: harness table EVIDENCE…",
    )


def _display_of(vendor: str) -> bool:
    for device in _PCI.glob("*"):
        try:
            kind = (device / "class").read_text().strip()
            if kind.startswith(_DISPLAY) and (device / "vendor").read_text().strip() == vendor:
                return True
        except OSError:
            continue
    return False
