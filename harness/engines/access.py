"""What of a host's devices an arm is given: one device, and only what it needs.

A daemon's host may be another machine, so nothing is looked up here: a short container
(``scouting``) shows what the daemon gives, and the arms get the part of it that is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.device import Device
from harness.engines.base import Access
from harness.engines.devices import AMD, INTEL, NO_DEVICE, REMEDIES, look_at, nvidia_by
from harness.engines.scouting import DeviceRefused, Node, Remove, scout
from harness.errors import BadInput, EngineUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

#: What a container sees when it is started with these options.
Look = Callable[[Mapping[str, Any]], tuple[Node, ...]]

GIB = 1 << 30
#: Of NVIDIA's driver capabilities an arm needs two: compute is CUDA, utility is NVML, which the
#: probe reads driver, VBIOS and ECC from. Graphics, video and display stay out.
_NVIDIA = ("compute", "utility")
_MAKERS = {"cuda": "NVIDIA", "xpu": "Intel", "rocm": "AMD"}
#: ROCm's page on containers: seccomp=unconfined "enables memory mapping". Its page on PyTorch: 8 GB
#: of shared memory for the workers of data loaders; its --ipc=host beside that would open the
#: host's shared memory, and its SYS_PTRACE is for debuggers: neither is given.
_ROCM = {"security_opt": ["seccomp=unconfined"], "shm_size": 8 * GIB}
_CDI_REMEDY = "CDI needs Docker 25 or later, and a specification in /etc/cdi of the daemon's host. "
_ROCM_WORDS = "seccomp unconfined and 8 GiB of shared memory, as ROCm's documentation says"


def container_access(
    client: DockerClient,
    *,
    image_id: str,
    python: str,
    platform: str,
    wanted: Device | None,
    remove: Remove,
) -> Access:
    """Choose the device for an image and say how a container gets it.

    ``platform`` is what the image is meant for (may be empty), ``wanted`` what the user chose;
    with neither it is an NVIDIA device where the daemon has one to give, else none.
    ``remove`` takes away a container that looked for devices. ``options`` of the answer are
    arguments of ``containers.create``.

    Raises:
        EngineUnavailable: the daemon cannot give such a device, with the remedy.
        EngineError: the daemon or the image failed while the device was looked for.
    """
    info = client.info()
    # Where NVIDIA's runtime is the default, an image's own NVIDIA_VISIBLE_DEVICES opens devices.
    plain = str(info.get("DefaultRuntime", "")).startswith("nvidia")
    options = {"runtime": "runc"} if plain else {}
    family = wanted.family if wanted else platform.partition("-")[0]
    words = "no device"
    if not family and not nvidia_by(info, certain=True):
        words = "no device: the daemon has no NVIDIA runtime"
    elif family != "cpu":
        look = partial(scout, client, image_id, python, remove=remove)
        chosen = wanted or Device(family=family or "cuda")
        access = _device(chosen, info, lambda more: look({**options, **more}))
        return Access(
            family=access.family,
            key=access.key,
            words=access.words,
            options={**options, **access.options},
        )
    return Access(family="cpu", key="cpu", words=(words,), options=options)


def _device(wanted: Device, info: Mapping[str, Any], look: Look) -> Access:
    try:
        if wanted.cdi:
            return _by_cdi(wanted.family, wanted.which, look)
        if wanted.family == "cuda":
            return _cuda(wanted.which or "0", info, look)
        if wanted.family == "rocm":
            return _rocm(int(wanted.which or 0), look)
        return _xpu(int(wanted.which or 0), look)
    except DeviceRefused as error:
        raise EngineUnavailable(
            f"the daemon cannot give device {wanted} to a container: {error}",
            (_CDI_REMEDY if wanted.cdi else "") + REMEDIES[wanted.family],
        ) from error


def _cuda(which: str, info: Mapping[str, Any], look: Look) -> Access:
    if nvidia_by(info) == "CDI":
        return _by_cdi("cuda", f"nvidia.com/gpu={which}", look)
    # Also where no runtime is listed: Docker can do without one where the toolkit's hook is there.
    request = _request(driver="nvidia", device_ids=[which], capabilities=[["gpu", *_NVIDIA]])
    options = {"device_requests": [request]}
    _require("cuda", which, look(options))
    words = f"NVIDIA device {which} by device request ({', '.join(_NVIDIA)})"
    return Access(family="cuda", key=f"cuda-{which}", words=(words,), options=options)


def _by_cdi(family: str, name: str, look: Look) -> Access:
    request: dict[str, Any] = {"device_requests": [_request(driver="cdi", device_ids=[name])]}
    nodes = look(request)
    options = {**request, **(_ROCM if family == "rocm" else {})}
    _require(family, name, nodes)
    groups = _groups(node for node in nodes if node.path.startswith(("/dev/dri/", "/dev/kfd")))
    words = [", ".join([f"{name} by CDI", *_named(groups)])]
    words += [_ROCM_WORDS] if family == "rocm" else []
    return Access(
        family=family,
        key=f"{family}-{name.partition('=')[2]}",
        words=tuple(words),
        options={**options, **({"group_add": groups} if groups else {})},
    )


def _xpu(index: int, look: Look) -> Access:
    nodes = _choose("xpu", index, INTEL, look({"devices": [_passed("/dev/dri")]}))
    return _by_nodes("xpu", index, nodes)


def _rocm(index: int, look: Look) -> Access:
    seen = look({"devices": [_passed("/dev/kfd"), _passed("/dev/dri")]})
    # One kfd for all devices; which of them a process can use follows from its render nodes.
    kfd = [node for node in seen if node.path == "/dev/kfd"]
    render = _choose("rocm", index, AMD, seen)[:1]
    access = _by_nodes("rocm", index, [*kfd, *render])
    return Access(
        family="rocm",
        key=access.key,
        words=(*access.words, _ROCM_WORDS),
        options={**access.options, **_ROCM},
    )


def _by_nodes(family: str, index: int, nodes: Sequence[Node]) -> Access:
    groups = _groups(nodes)
    options: dict[str, Any] = {"devices": [_passed(node.path) for node in nodes]}
    if groups:
        options["group_add"] = groups
    given = ", ".join([*(node.path for node in nodes), *_named(groups)])
    address = nodes[-1].address
    words = f"{given} (PCI {address})" if address else given
    return Access(family=family, key=f"{family}-{index}", words=(words,), options=options)


def _choose(family: str, index: int, vendor: str, nodes: Sequence[Node]) -> list[Node]:
    """The render node of the vendor's device ``index``, in PCI order, and its card nodes.

    A node whose vendor the kernel does not tell counts as the vendor's.
    """
    renders = [
        node
        for node in nodes
        if node.path.startswith("/dev/dri/renderD") and node.vendor in ("", vendor)
    ]
    renders.sort(key=lambda node: (node.address, node.minor))
    maker = _MAKERS[family]
    if not renders:
        raise EngineUnavailable(
            f"the daemon's host has no {maker} GPU among its /dev/dri", REMEDIES[family]
        )
    if index >= len(renders):
        raise _out_of_range(family, str(index), len(renders), "the daemon's host")
    chosen = renders[index]
    return [chosen, *(node for node in nodes if _is_card_of(node, chosen))]


def _is_card_of(node: Node, render: Node) -> bool:
    if not node.path.startswith("/dev/dri/card"):
        return False
    if render.address or node.address:
        return node.address == render.address
    return node.minor + 128 == render.minor  # how the kernel numbers both, as a rule


def _require(family: str, which: str, nodes: Sequence[Node]) -> None:
    """Refuse where the container started, but without a device: Podman ignores device requests."""
    paths = [node.path for node in nodes]
    render = any(path.startswith("/dev/dri/renderD") for path in paths)
    there = {
        "cuda": any(not path.startswith(("/dev/dri/", "/dev/kfd")) for path in paths),
        "xpu": render,
        "rocm": render and "/dev/kfd" in paths,
    }
    if not there[family]:
        raise EngineUnavailable(
            f"the daemon started a container, but ignored the request for {_MAKERS[family]} device "
            f"{which}",
            f"Podman does so over its Docker API: use Docker for this device. {NO_DEVICE}",
        )


def local_access(wanted: Device | None, *, root: Path = Path("/")) -> Access:
    """The same for a process on this machine: ``options`` are environment variables.

    They hide the other devices from programs that keep to them; nothing is isolated. ``root`` is
    where the machine's /dev and /sys are.

    Raises:
        BadInput: a device that can only be given to a container.
        EngineUnavailable: this machine does not have it, with the remedy.
    """
    if wanted is None:  # not hidden, so most likely the first one is used
        seen = (look_at(family, root) for family in ("cuda", "xpu", "rocm"))
        family = next((device.family for device in seen if device.present), "")
        return Access(family=family, key=f"{family}-0" if family else "cpu")
    if wanted.cdi:
        raise BadInput(
            f"--device {wanted}: CDI is for containers, and this engine starts none",
            f"Write {wanted.family}:0, or use --engine docker.",
        )
    if wanted.family == "cpu":
        words = "no device: " + " ".join(f"{name}={value}" for name, value in _HIDDEN.items())
        return Access(family="cpu", key="cpu", words=(words,), options=_HIDDEN)
    which = wanted.which or "0"
    _is_here(wanted.family, which, root)
    variables = _VISIBLE[wanted.family](which)
    words = f"{_MAKERS[wanted.family]} device {which}: " + " ".join(
        f"{name}={value}" for name, value in variables.items()
    )
    return Access(
        family=wanted.family, key=f"{wanted.family}-{which}", words=(words,), options=variables
    )


#: -1 is no device, and every runtime stops at the first index that is none. HIP takes an empty
#: value for none at all, and so does Level Zero, whose own variable can hide nothing: SYCL's can.
#: vLLM wants HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES alike.
_HIDDEN = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    "ROCR_VISIBLE_DEVICES": "-1",
    "ONEAPI_DEVICE_SELECTOR": "!*:gpu",
}
_VISIBLE: dict[str, Callable[[str], dict[str, str]]] = {
    # In PCI order, as nvidia-smi counts; CUDA's own order is by speed.
    "cuda": lambda which: {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": which},
    # The selector only undoes one that the user's shell may have.
    "xpu": lambda which: {
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        "ZE_AFFINITY_MASK": which,
        "ONEAPI_DEVICE_SELECTOR": "level_zero:gpu",
    },
    # The lowest layer hides for all above it; HIP then counts what is left, which is one.
    "rocm": lambda which: {
        "ROCR_VISIBLE_DEVICES": which,
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    },
}


def _is_here(family: str, which: str, root: Path) -> None:
    found = look_at(family, root)
    if not found.present:
        raise EngineUnavailable(f"this machine has {found.text}", found.remedy)
    if not found.ids:
        return
    if which.isdecimal() and int(which) >= len(found.ids):
        raise _out_of_range(family, which, len(found.ids), "this machine")
    if which.startswith("GPU-") and not any(known.startswith(which) for known in found.ids):
        raise EngineUnavailable(
            f"this machine has no NVIDIA device {which}",
            f"There are: {', '.join(found.ids)} (nvidia-smi -L).",
        )


def _out_of_range(family: str, which: str, number: int, where: str) -> EngineUnavailable:
    last = f" to {family}:{number - 1}" if number > 1 else ""
    return EngineUnavailable(
        f"no {family} device {which}: {where} has {number}",
        f"They count from 0, in PCI order: --device {family}:0{last}. {NO_DEVICE}",
    )


def _request(**values: Any) -> Any:
    import docker.types

    return docker.types.DeviceRequest(**values)


def _passed(path: str) -> str:
    """To be read and written; making nodes (m) is nothing that a program needs."""
    return f"{path}:{path}:rw"


def _groups(nodes: Any) -> list[str]:
    """The groups that own the nodes, by number: the image may call them otherwise, or not at all.

    Group 0 is left out: a container's user is in it, or shall not be.
    """
    return [str(gid) for gid in sorted({node.gid for node in nodes} - {0})]


def _named(groups: Sequence[str]) -> list[str]:
    return [f"group{'s' if len(groups) > 1 else ''} {' and '.join(groups)}"] if groups else []
