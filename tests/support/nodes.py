"""Stand-ins for a GPU's device nodes: they are /dev/null by another name, and no device.

The daemon, which runs on this machine, passes them into containers like real ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock

from support.required import lacking

NULL = os.makedev(1, 3)
#: Nobody on this machine is in these groups.
CARD, RENDER, SECOND, KFD = 64101, 64102, 64103, 64104
XPU = {"dri/card0": CARD, "dri/renderD128": RENDER, "dri/card1": CARD, "dri/renderD129": SECOND}
ROCM = {**XPU, "kfd": KFD}
#: Owns the stand-ins, so that root without capabilities opens them by their group alone.
NOBODY = 65534


def make(path: Path, gid: int, number: int = NULL) -> None:
    """Make one character device that belongs to nobody and a group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, 0o660 | stat.S_IFCHR, number)
    os.chmod(path, 0o660)
    os.chown(path, NOBODY, gid)


def make_all(folder: Path, nodes: Mapping[str, int]) -> None:
    """Make character devices in a folder, by name and group."""
    for name, gid in nodes.items():
        make(folder / name, gid)


@contextlib.contextmanager
def stand_ins(nodes: Mapping[str, int]) -> Iterator[None]:
    """Exactly these nodes in /dev, by name and group; tests that use them take turns."""
    if os.geteuid() != 0:
        lacking("only root can make stand-in device nodes")
    with FileLock(Path(tempfile.gettempdir(), "ab-harness-test-nodes.lock")):
        _clear()
        try:
            make_all(Path("/dev"), nodes)
            yield
        finally:
            _clear()


def _clear() -> None:
    """Remove stand-ins, also those of a test that was killed; never a real node."""
    found = [*Path("/dev/dri").glob("**/*"), *Path("/dev").glob("kfd")]
    if any(not stat.S_ISCHR(n.lstat().st_mode) or n.lstat().st_rdev != NULL for n in found):
        lacking("this machine has real GPU device nodes")
    Path("/dev/kfd").unlink(missing_ok=True)
    shutil.rmtree("/dev/dri", ignore_errors=True)
