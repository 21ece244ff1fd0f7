"""Says which device nodes a container was given. Usage: ``scout.py [DEV SYS]``.

Runs in a short container before the arms, handed over with ``python -c``: standard library
only, Python 3.9 or later. It prints one line of JSON, ``{"nodes": [...]}``: of each node its path,
its group's number, and vendor and bus address of its PCI device, empty where the kernel
does not tell. The host cannot look itself: the daemon may be on another machine.
"""

import json
import os
import stat
import sys

#: What GPU drivers call their nodes: NVIDIA's (also Tegra's and WSL's) and AMD's. Nothing else
#: of /dev is anybody's business.
PREFIXES = ("nvidia", "nvhost", "nvmap", "dxg", "kfd")


def main(dev="/dev", sysfs="/sys"):
    names = [name for name in listed(dev) if name.startswith(PREFIXES)]
    names += ["dri/" + name for name in listed(dev + "/dri")]
    nodes = [node(dev, sysfs, name) for name in sorted(names)]
    print(json.dumps({"nodes": [found for found in nodes if found]}))


def listed(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def node(dev, sysfs, name):
    """What is known of a character device; None of anything else."""
    try:
        status = os.stat(os.path.join(dev, name))
    except OSError:
        return None
    if not stat.S_ISCHR(status.st_mode):
        return None
    # By number and not by name: the number is what the kernel goes by.
    number = "%d:%d" % (os.major(status.st_rdev), os.minor(status.st_rdev))
    device = os.path.join(sysfs, "dev/char", number, "device")
    vendor = read(os.path.join(device, "vendor"))
    address = os.path.basename(os.path.realpath(device)) if vendor else ""
    return {
        "path": "/dev/" + name,
        "gid": status.st_gid,
        "vendor": vendor,
        "address": address,
    }


def read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(32).strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
