"""Which family an Intel GPU is of, and what drives it. Loaded by accelerator.py.

Sources: SYCL's ``ext/oneapi/experimental/device_architecture.def`` (here that of intel-sycl-rt
2026.2) says that an architecture ID, which torch passes on, is 0xAABBBBCCCCCCCCDD, where AA is 00
for Intel GPUs and CCCCCCCC the GMDID. A GMDID has the architecture in bits 31 to 22, the release in
21 to 14 and the revision in 5 to 0. PCI IDs are those of the kernel's ``drm/intel/pciids.h`` from
memory; DG2's were checked against pci.ids. No Intel GPU was at hand to try any of it on.
"""

import re

#: (architecture, release) of a GMDID, by family. 12.70 and 12.71 are Arrow Lake U and S as well.
FAMILIES = {
    (12, 55): "dg2",
    (12, 56): "dg2",
    (12, 57): "dg2",
    (12, 60): "pvc",
    (12, 61): "pvc",
    (12, 70): "mtl",
    (12, 71): "mtl",
    (12, 74): "arl",
    (20, 1): "bmg",
    (20, 2): "bmg",
    (20, 4): "lnl",
    (30, 0): "ptl",
    (30, 1): "ptl",
    (30, 3): "wcl",
    (30, 4): "nvl",
    (30, 5): "nvl",
    (35, 10): "nvl",
    (35, 11): "cri",
}
PCI_IDS = (
    (range(0x5690, 0x56D0), "dg2"),
    (range(0x0BD0, 0x0BF0), "pvc"),
    (range(0x0B69, 0x0B6F), "pvc"),
    (range(0xE200, 0xE300), "bmg"),
    (range(0x64A0, 0x64C0), "lnl"),
    (range(0x6420, 0x6421), "lnl"),
    (range(0xB080, 0xB0C0), "ptl"),
)
#: Last resort. Arc B3xx is part of a processor (Panther Lake), so only other numbers are bmg.
NAMES = (
    (re.compile(r"\bMax\b \d{4}"), "pvc"),
    (re.compile(r"\bFlex \d{3}\b|\bArc\b.* A\d{2,3}M?\b"), "dg2"),
    (re.compile(r"\bArc\b.* B(?:\d0|5\d0|7\d0)\b"), "bmg"),
)
_TRADE = re.compile(r"\((?:r|tm)\)|\b(?:intel|graphics)\b", re.IGNORECASE)
_OTHER = re.compile(r"[^a-z0-9]+")
_LOADED = re.compile(r"/lib(ze_loader|ze_intel_gpu)\.so\.([0-9.]*[0-9])$", re.MULTILINE)


def key(props):
    """The platform key of torch's device properties: ``xpu-bmg``, ``xpu-pvc``, …

    The architecture that SYCL names decides, else the IP version, else the PCI device ID, else
    the marketing name; a device that none of them knows gets its name in small letters.
    """
    name = str(getattr(props, "name", ""))
    found = (
        FAMILIES.get(gmdid(getattr(props, "architecture", None)))
        or FAMILIES.get(dotted(getattr(props, "version", None)))
        or by_pci_id(getattr(props, "device_id", None))
        or next((family for pattern, family in NAMES if pattern.search(bare(name))), "")
        or _OTHER.sub("_", bare(name).lower())[:40].strip("_")
    )
    return "xpu-" + found if found else "xpu"


def gmdid(architecture):
    """(architecture, release) of a SYCL architecture ID, or None if it is no Intel GPU's."""
    if not isinstance(architecture, int) or not 0 < architecture < 1 << 40:
        return None
    number = architecture >> 8
    return number >> 22, number >> 14 & 0xFF


def dotted(version):
    """(architecture, release) of an IP version such as ``20.1.4``.

    Level Zero devices are said to give it as ``version``; others give a version of SYCL, which
    has two parts.
    """
    parts = str(version).split(".")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def by_pci_id(device_id):
    if not isinstance(device_id, int):
        return ""
    return next((family for numbers, family in PCI_IDS if device_id in numbers), "")


def bare(name):
    """A name without trade marks."""
    return " ".join(_TRADE.sub(" ", name).split())


def level_zero(path="/proc/self/maps"):
    """Versions of the Level Zero loader and driver that torch has loaded, by their file names."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = dict(_LOADED.findall(file.read()))
    except OSError:
        return {}
    names = {"ze_loader": "level-zero", "ze_intel_gpu": "level-zero-gpu"}
    return {names[name]: version for name, version in sorted(found.items()) if "." in version}
