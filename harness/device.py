"""The device that a user asks for: a platform family, and which one of its devices."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.case import FAMILIES
from harness.errors import BadInput

#: Vendors of the Container Device Interface, by platform family.
CDI_KINDS = {"nvidia.com/gpu": "cuda", "intel.com/gpu": "xpu", "amd.com/gpu": "rocm"}
_UUID = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]+")
_CDI_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_EXAMPLES = "Write cpu, cuda, cuda:0, cuda:GPU-<UUID>, xpu:0, rocm:0 or nvidia.com/gpu=0."


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device. ``which`` is an index, a UUID or, with ``cdi``, the device's CDI name.

    An empty ``which`` means the first device of the family.
    """

    family: str
    which: str = ""
    cdi: bool = False

    def __str__(self) -> str:
        """The device as a user writes it."""
        if self.cdi:
            return self.which
        return f"{self.family}:{self.which}" if self.which else self.family


def parse_device(text: str, *, where: str = "--device") -> Device:
    """Read ``cpu``, ``cuda``, ``cuda:1``, ``cuda:GPU-…``, ``xpu:0``, ``rocm:0`` or a CDI name.

    Raises:
        BadInput: it is none of these; ``where`` names the option or the key.
    """
    kind, equals, name = text.partition("=")
    if equals:
        if kind not in CDI_KINDS or not _CDI_NAME.fullmatch(name):
            raise BadInput(f"{where}: {text!r} is not a known CDI device", _EXAMPLES)
        if name == "all":
            raise BadInput(f"{where}: {text!r}: a row is made on one device", _EXAMPLES)
        return Device(family=CDI_KINDS[kind], which=text, cdi=True)
    family, colon, which = text.partition(":")
    if family not in FAMILIES:
        raise BadInput(f"{where}: {text!r} is not a device", _EXAMPLES)
    index = which.isascii() and which.isdecimal() and len(which) <= 4
    good = index or (family == "cuda" and bool(_UUID.fullmatch(which)))
    if colon and (not good or family == "cpu"):
        raise BadInput(f"{where}: {which!r} names no {family} device", _EXAMPLES)
    return Device(family=family, which=str(int(which)) if index else which)
