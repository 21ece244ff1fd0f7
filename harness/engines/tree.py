"""A folder that must stay as it is: made read-only, described, compared, removed."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection
from pathlib import Path

#: By relative path: kind, size in bytes (a folder's mode), modification and change time in ns.
Manifest = dict[str, list[int | str]]

#: Written by the installer of a distribution: they differ from machine to machine.
_INSTALLERS = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")


def scan(folder: Path, *, without: Collection[str] = ()) -> Manifest:
    """Describe all that is in the folder (26,000 files take 0.2 s); links are not followed.

    The change time is in it because no program can set it: it tells of every write, also of
    one that put the old bytes or the old modification time back.
    """
    found: Manifest = {}
    todo = [""]
    while todo:
        prefix = todo.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                path, info = prefix + entry.name, entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    todo.append(f"{path}/")
                    found[path] = ["folder", stat.S_IMODE(info.st_mode), 0, 0]
                elif path not in without:
                    kind = "file" if stat.S_ISREG(info.st_mode) else "link or other"
                    found[path] = [kind, info.st_size, info.st_mtime_ns, info.st_ctime_ns]
    return found


def differences(before: Manifest, now: Manifest) -> list[str]:
    """What is not the same in two descriptions: ``added: path`` and the like, sorted."""
    words = [f"removed: {path}" for path in before.keys() - now.keys()]
    words += [f"added: {path}" for path in now.keys() - before.keys()]
    words += [f"changed: {path}" for path, entry in now.items() if before.get(path, entry) != entry]
    return sorted(words)


def freeze(folder: Path) -> None:
    """Take every right to write from all that is in the folder, but not from itself."""
    for root, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & ~0o222)


def remove(folder: Path) -> None:
    """Remove the folder with all in it, also one that is read-only or not there."""
    if not folder.is_dir():
        return
    with contextlib.suppress(PermissionError):
        return shutil.rmtree(folder)
    folder.chmod(0o700)
    for root, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(root, name)
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder)


def distributions(site_packages: Path) -> str:
    """sha256 (hex) over name, version and file hashes of every installed distribution.

    The hashes are those of the RECORDs, less what an installer writes: the same wheels give the
    same digest on every machine.
    """
    whole = hashlib.sha256()
    for info in sorted(site_packages.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        own = {f"{info.name}/{file}" for file in _INSTALLERS}
        with (info / "RECORD").open(encoding="utf-8", newline="") as file:
            rows = sorted(
                f"{row[0]},{row[1]}"
                for row in csv.reader(file)
                # A script in bin/ holds the path of this environment.
                if row and row[0] not in own and not row[0].startswith(("../", "/")) and row[1]
            )
        record = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        whole.update(f"{re.sub(r'[-_.]+', '-', name).lower()}=={version} {record}\n".encode())
    return whole.hexdigest()
