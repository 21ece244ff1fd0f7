"""Which accelerator torch finds in this environment, and what can be read of it.

Loaded by probe.py. Nothing is taken from a request, an image or a variable: the platform key is
the compute capability, architecture or family of the device that torch itself will use. Nothing
here raises; what cannot be read becomes a note.
"""

import importlib.metadata
import importlib.util
import platform
import re
import uuid
import warnings

#: Distributions that say something of the software under the package, where they are there.
DISTRIBUTIONS = (
    "torch",
    "triton",
    "pytorch-triton",
    "pytorch-triton-xpu",
    "pytorch-triton-rocm",
    "triton-xpu",
    "triton-rocm",
    "intel_extension_for_pytorch",
    "intel-sycl-rt",
)
#: The name of a device that is there and cannot be read.
UNREADABLE = "a device that cannot be read"
_UUID = re.compile(r"[0-9A-Za-z-]{8,64}")
_NOT_A_KEY = re.compile(r"[^a-z0-9._]+")


class Found:
    """What is measured: fields of ``harness.record.Probe`` by name."""

    def __init__(self):
        self.platform, self.device, self.device_uuid, self.devices = "cpu", cpu_name(), "", 0
        self.hardware, self.readings, self.versions, self.notes = {}, {}, installed(), []

    def note(self, text):
        """Keep one short line."""
        text = " ".join(str(text).split())
        self.notes.append(text[:300] + ("…" if len(text) > 300 else ""))

    def add(self, unique, hardware, readings, note):
        """Add what another source than torch says."""
        self.device_uuid = unique or self.device_uuid
        self.hardware.update(hardware)
        self.readings.update(readings)
        if note:
            self.note(note)


def measure(load):
    """Return the device that torch uses first, or the processor; ``load`` loads a module."""
    found = Found()
    torch = imported(found)
    if torch is None:
        return found
    family, backend = present(torch, found)
    if not family:
        return found
    # From here on the tests have a device: were it called a CPU, a row would claim the wrong thing.
    found.platform, found.device = family, UNREADABLE
    describe = {"cuda": cuda, "rocm": rocm, "xpu": xpu}[family]
    try:
        found.devices = int(backend.device_count())
        describe(torch, backend.get_device_properties(0), found, load)
    except Exception as error:
        found.note("the device cannot be read: %s: %s" % (type(error).__name__, error))
    return found


def imported(found):
    """Import torch and note its versions; None where it is not there or broken."""
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        import torch
    except Exception as error:  # a broken torch is a finding, not a reason to stop
        found.note("torch cannot be imported: %s: %s" % (type(error).__name__, error))
        return None
    found.versions["torch"] = str(getattr(torch, "__version__", "unknown"))
    for name in ("cuda", "hip", "xpu"):
        value = getattr(getattr(torch, "version", None), name, None)
        if value:
            found.versions[name] = str(value)
    return torch


def present(torch, found):
    """The family of the device that torch sees ("" if none) and the part of torch for it.

    Where torch cannot even say whether there is one, the family stands: nobody knows then that
    the tests run on the processor.
    """
    cuda_family = "rocm" if "hip" in found.versions else "cuda"
    for name, family in (("cuda", cuda_family), ("xpu", "xpu")):
        backend = getattr(torch, name, None)
        if not hasattr(backend, "is_available"):
            continue
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                if backend.is_available():
                    return family, backend
        except Exception as error:
            text = "torch cannot say whether it has a %s device: %s: %s"
            found.note(text % (family, type(error).__name__, error))
            return family, backend
        if {"cuda": "cuda", "rocm": "hip", "xpu": "xpu"}[family] in found.versions:
            why = ": %s" % said[0].message if said else ""
            found.note("torch is built for %s and finds no device%s" % (family, why))
    return "", None


def cuda(torch, props, found, load):
    found.platform = "cuda-sm%d%d" % (props.major, props.minor)
    named(props, found)
    library(torch, "cudnn", found)
    found.add(*load("nvml").read(found.device_uuid, bus_id(props), found.devices == 1))


def rocm(torch, props, found, load):
    arch, *features = str(getattr(props, "gcnArchName", "")).lower().split(":")
    arch = _NOT_A_KEY.sub("", arch)
    found.platform = "rocm-" + arch if arch else "rocm"
    named(props, found)
    for feature in features:
        if feature.startswith("sramecc"):
            found.hardware["ECC"] = "on" if feature.endswith("+") else "off"
    library(torch, "miopen", found)
    found.add(*load("sysfs").amd(bus_id(props)))


def xpu(torch, props, found, load):
    module = load("xpu")
    found.platform = module.key(props)
    named(props, found)
    found.versions.update(module.level_zero())
    found.add(*load("sysfs").intel(getattr(props, "device_id", None) or 0))
    # The user-mode driver, which is what torch talks to, beside the kernel's.
    user = str(getattr(props, "driver_version", "") or "")
    if user:
        found.hardware["compute driver"] = user


def named(props, found):
    """Name, UUID and memory, as torch knows them."""
    found.device = str(getattr(props, "name", "") or UNREADABLE)
    unique = getattr(props, "uuid", "")
    if isinstance(unique, bytes) and len(unique) == 16:
        unique = uuid.UUID(bytes=unique)
    if _UUID.fullmatch(str(unique)):  # anything else may differ from process to process
        found.device_uuid = str(unique)
    memory = getattr(props, "total_memory", None)
    if isinstance(memory, int):
        found.hardware["memory"] = "%d MiB" % (memory >> 20)


def bus_id(props):
    """The PCI address, which newer versions of torch tell; else an empty string."""
    parts = [getattr(props, "pci_%s_id" % name, None) for name in ("domain", "bus", "device")]
    if not all(isinstance(part, int) for part in parts):
        return ""
    return "%04x:%02x:%02x.0" % tuple(parts)


def library(torch, name, found):
    """The version of cuDNN, or of MIOpen, which torch reports in the same place."""
    try:
        version = torch.backends.cudnn.version()
    except Exception as error:
        found.note("%s cannot be asked for its version: %s" % (name, error))
        return
    if version:
        found.versions[name] = str(version)


def installed():
    """Versions of the distributions of interest that are installed."""
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return versions


def cpu_name():
    """The processor's model name, from /proc/cpuinfo where there is one."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.lower().startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
