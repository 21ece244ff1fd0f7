"""An environment that is read-only for an arm, by a mount that nobody else sees."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from functools import cache


def read_only(folder: str) -> tuple[str, ...]:
    """A command prefix that mounts ``folder`` read-only for the arm alone, where that works.

    Only root can. For others its files are without write permission, which their owner could
    give again: that is why the environment is looked at after each arm, too.
    """
    return _mounted(folder) if folder and can_mount() else ()


def _mounted(folder: str) -> tuple[str, ...]:
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, folder)


@cache
def can_mount() -> bool:
    """Whether this user can mount for one process alone: root on Linux, mostly."""
    if platform.system() != "Linux" or os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    argv = (*_mounted(sys.prefix), "true")
    try:
        return subprocess.run(argv, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
