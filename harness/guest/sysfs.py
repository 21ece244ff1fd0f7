"""What the Linux kernel says of an AMD or Intel GPU, from its PCI folder. Loaded by accelerator.py.

File names are those of the kernel's documentation: gpu/amdgpu/driver-misc.rst and thermal.rst for
amdgpu, ABI/testing/sysfs-driver-intel-xe-* and i915 for Intel. None was seen on a device here.
"""

import glob
import os

AMD, INTEL = "0x1002", "0x8086"
LIMIT = 4096


def amd(bus_id, root="/sys"):
    """Return (uuid, hardware, readings, note) of the device at a PCI address.

    Without an address (older torch) the only AMD device that drives a card is taken.
    """
    folder, note = device(root, bus_id, lambda place: says(place, "vendor") == AMD)
    if not folder:
        return "", {}, {}, note
    hardware = {
        "driver": driver(folder),
        "VBIOS": says(folder, "vbios_version"),
        "PCI bus": os.path.basename(folder),
        "compute partition": says(folder, "current_compute_partition"),
        "memory partition": says(folder, "current_memory_partition"),
    }
    readings = {
        "SM clock": current(says(folder, "pp_dpm_sclk")),
        "memory clock": current(says(folder, "pp_dpm_mclk")),
        "temperature": temperature(folder),
        "ECC errors": " ".join(says(folder, "ras/umc_err_count").split()),
    }
    return says(folder, "unique_id"), filled(hardware), filled(readings), ""


def intel(device_id, root="/sys"):
    """Return (uuid, hardware, readings, note) of the Intel GPU with this PCI device ID.

    torch tells no PCI address for it, so of several equal ones none is described.
    """

    def fits(place):
        return says(place, "vendor") == INTEL and says(place, "device") == "0x%04x" % device_id

    folder, note = device(root, "", fits)
    if not folder:
        return "", {}, {}, note
    hardware = {
        "driver": driver(folder),
        "PCI bus": os.path.basename(folder),
        "PCI device": "%s revision %s" % (says(folder, "device"), says(folder, "revision")),
    }
    readings = {"clock": megahertz(folder), "temperature": temperature(folder)}
    return "", filled(hardware), filled(readings), ""


def device(root, bus_id, fits):
    """The PCI folder of the one GPU that fits, or an empty string and a note that says why not."""
    if bus_id:
        folders = [os.path.join(root, "bus/pci/devices", bus_id)]
    else:
        cards = glob.glob(os.path.join(root, "class/drm/card*/device"))
        folders = sorted({os.path.realpath(card) for card in cards})
    folders = [folder for folder in folders if fits(folder)]
    if len(folders) == 1:
        return folders[0], ""
    what = "no GPU" if not folders else "%d GPUs" % len(folders)
    return "", "the kernel shows %s that could be torch's device: no VBIOS and clocks" % what


def driver(folder):
    """The kernel module that drives a device, with its version where it has one."""
    link = os.path.join(folder, "driver")
    if not os.path.exists(link):
        return ""
    name = os.path.basename(os.path.realpath(link))
    version = says(link, "module/version")
    return "%s %s" % (name, version or "of kernel %s" % os.uname().release)


def current(levels):
    """The level that amdgpu marks with an asterisk: ``1: 2100Mhz *`` gives ``2100 MHz``."""
    for line in levels.splitlines():
        if line.rstrip().endswith("*"):
            value = line.partition(":")[2].strip(" *\t")
            return value[:-3] + " MHz" if value.lower().endswith("mhz") else value
    return ""


def megahertz(folder):
    """The actual frequency: of xe's first graphics unit, else of i915's."""
    for pattern in ("tile0/gt0/freq0/act_freq", "drm/card*/gt_act_freq_mhz"):
        for path in sorted(glob.glob(os.path.join(folder, pattern))):
            value = says(path)
            if value:
                return "%s MHz" % value
    return ""


def temperature(folder):
    """The first sensor of the device, in whole degrees."""
    for path in sorted(glob.glob(os.path.join(folder, "hwmon/hwmon*/temp*_input"))):
        value = says(path)
        if value.lstrip("-").isdigit():
            return "%d °C" % (int(value) // 1000)
    return ""


def says(*parts):
    """What a file holds, shortened; an empty string where it cannot be read."""
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
            return file.read(LIMIT).strip()
    except OSError:
        return ""


def filled(values):
    return {name: value for name, value in values.items() if value}
