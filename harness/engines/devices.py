"""What devices a host shows and what its daemon can give, without any vendor's library."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engines.transport import faults

if TYPE_CHECKING:
    from docker import DockerClient

INTEL, AMD = "0x8086", "0x1002"
_DISPLAY = "0x03"
NO_DEVICE = "Without a device: --device cpu."
_ELSEWHERE = (
    "On a host that has one: --host NAME=ssh://user@host; or run there, and merge: "
    "harness table EVIDENCE…"
)
#: What a host needs so that its daemon can give a device, by family.
REMEDIES = {
    "cuda": "Is the device on that host (nvidia-smi -L)? Install its driver and "
    "nvidia-container-toolkit, run nvidia-ctk runtime configure --runtime=docker, and restart "
    f"Docker; or by CDI: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml. {NO_DEVICE}",
    "xpu": "Is the device on that host (lspci -nn | grep 8086)? Load its driver (modprobe xe, or "
    f"i915), which makes /dev/dri/renderD128. {NO_DEVICE}",
    "rocm": "Is the device on that host (lspci -nn | grep 1002)? Load its driver (modprobe "
    f"amdgpu), which makes /dev/kfd and /dev/dri/renderD128. {NO_DEVICE}",
}
_NO_RIGHTS = "Join the group of that node (usually render): sudo usermod -aG render,video $USER."


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a family's devices look like from the host; arms measure for themselves.

    ``ids`` name each device in PCI order, by UUID or PCI address; empty where they cannot be told.
    """

    family: str
    present: bool
    text: str
    remedy: str = ""
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Whether a daemon can give containers a family's device; None where only trying tells."""

    family: str
    able: bool | None
    text: str
    remedy: str = ""


def devices(root: Path = Path("/")) -> list[Device]:
    """Look at every platform family of this host; nothing is started on a device."""
    return [look_at(family, root) for family in ("cpu", "cuda", "xpu", "rocm")]


def look_at(family: str, root: Path = Path("/")) -> Device:
    """Look at one family. ``root`` is where the host's /dev, /proc and /sys are."""
    looks = {"cpu": _cpu, "cuda": _cuda, "xpu": _xpu, "rocm": _rocm}
    return looks[family](root)


def nvidia_by(info: Mapping[str, Any], *, certain: bool = False) -> str:
    """How a daemon gives NVIDIA devices, from its ``info``: runtime, CDI or an empty string.

    Docker lists ``DiscoveredDevices`` from 28 on; from 25 on it names the folders where it looks
    for CDI specifications, whether there is one or not: that is not ``certain``.
    """
    if "nvidia" in (info.get("Runtimes") or {}):
        return "runtime"
    found = [str(entry.get("ID", "")) for entry in info.get("DiscoveredDevices") or ()]
    if any(name.startswith("nvidia.com/gpu=") for name in found):
        return "CDI"
    return "CDI" if info.get("CDISpecDirs") and not certain else ""


def offers(client: DockerClient, seen: Iterable[Device]) -> list[Offer]:
    """What a daemon can give, from what it says and what this host shows: no container is started.

    ``seen`` is what this host shows, which counts only where the daemon runs on it.

    Raises:
        EngineError: the daemon does not answer.
    """
    with faults("asking what the daemon can give"):
        info = client.info()
    here = info.get("Name") == platform.node() and info.get("KernelVersion") == platform.release()
    return [_offer(info, device, here) for device in seen]


def _offer(info: Mapping[str, Any], device: Device, here: bool) -> Offer:
    family = device.family
    if family == "cpu":
        return Offer(family=family, able=True, text=device.text if here else "as any machine")
    remedy = REMEDIES[family] if device.present or not here else ""
    if family == "cuda" and not nvidia_by(info):
        text = "the daemon has no NVIDIA runtime and reports no CDI"
        return Offer(family=family, able=False, text=text, remedy=remedy)
    if here:
        text = device.text
        if device.present:
            text = f"by {nvidia_by(info)}" if family == "cuda" else "by device node"
        return Offer(family=family, able=device.present, text=text)
    if family == "cuda":
        able = True if nvidia_by(info, certain=True) else None
        return Offer(family=family, able=able, text=f"by {nvidia_by(info)}, on another machine")
    text = "the daemon is on another machine, whose device nodes only a run can see"
    return Offer(family=family, able=None, text=text)


def _cpu(root: Path) -> Device:
    name = ""
    try:
        for line in (root / "proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        name = platform.processor()
    return Device(family="cpu", present=True, text=name or platform.machine())


def _cuda(root: Path) -> Device:
    why = ""
    if tool := shutil.which("nvidia-smi"):
        query = [tool, "--query-gpu=uuid,name,compute_cap,driver_version", "--format=csv,noheader"]
        try:
            out = subprocess.run(query, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
            return _absent("cuda", f"an nvidia-smi that fails: {error}", "Check the driver.")
        rows = [line.strip().partition(", ") for line in out.stdout.splitlines() if line.strip()]
        if out.returncode == 0 and rows:
            text = "; ".join(rest or first for first, _, rest in rows)
            return Device(family="cuda", present=True, text=text, ids=tuple(r[0] for r in rows))
        why = f"; nvidia-smi ends with {out.returncode}"
    if (root / "dev/nvidiactl").exists():
        text = f"/dev/nvidiactl is there{why or ' (no nvidia-smi)'}"
        return Device(family="cuda", present=True, text=text)
    return _absent("cuda", f"no NVIDIA device (no /dev/nvidiactl{why})", _ELSEWHERE)


def _xpu(root: Path) -> Device:
    if found := _renders(root, INTEL):
        return _nodes("xpu", "Intel", found, root)
    if _display_of(root, INTEL):
        return _absent("xpu", "an Intel display device without a render node", REMEDIES["xpu"])
    return _absent("xpu", "no Intel GPU with a node in /dev/dri", _ELSEWHERE)


def _rocm(root: Path) -> Device:
    kfd = (root / "dev/kfd").exists()
    found = _renders(root, AMD)
    if kfd and found:
        return _nodes("rocm", "AMD", found, root)
    if found or _display_of(root, AMD):
        lacks = "its render node" if kfd else "/dev/kfd"
        return _absent("rocm", f"an AMD device, but not {lacks}", REMEDIES["rocm"])
    return _absent("rocm", "no AMD device (no /dev/kfd with a render node)", _ELSEWHERE)


def _absent(family: str, text: str, remedy: str) -> Device:
    return Device(family=family, present=False, text=text, remedy=remedy)


def _nodes(family: str, maker: str, found: Sequence[tuple[str, str]], root: Path) -> Device:
    """Describe devices by their render nodes, and say where this user may not open one."""
    names = ", ".join(name for _, name in found)
    needed = [root / "dev/dri" / name for _, name in found]
    needed += [root / "dev/kfd"] if family == "rocm" else []
    closed = [node for node in needed if not os.access(node, os.R_OK | os.W_OK)]
    text = f"{len(found)} {maker} device{'s' if len(found) > 1 else ''} ({names})"
    if closed:
        text += f", but this user may not open /dev/{closed[0].relative_to(root / 'dev')}"
    return Device(
        family=family,
        present=True,
        text=text,
        remedy=_NO_RIGHTS if closed else "",
        ids=tuple(address for address, _ in found),
    )


def _renders(root: Path, vendor: str) -> list[tuple[str, str]]:
    """PCI address and name of the vendor's render nodes that are in /dev/dri, in PCI order."""
    found = []
    for node in (root / "sys/class/drm").glob("renderD*"):
        if _read(node / "device/vendor") == vendor and (root / "dev/dri" / node.name).exists():
            found.append(((node / "device").resolve().name, node.name))
    return sorted(found)


def _display_of(root: Path, vendor: str) -> bool:
    return any(
        _read(device / "class").startswith(_DISPLAY) and _read(device / "vendor") == vendor
        for device in (root / "sys/bus/pci/devices").glob("*")
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
