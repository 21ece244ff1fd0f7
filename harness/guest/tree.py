"""What the files of a tree are: walked, hashed, copied and compared, for stage.py and seal.py.

Runs inside the environment: standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from typing import Any

#: Files above this size count by what the file system says of them: hashing vLLM's kernels
#: in every arm would cost more than the tests.
LARGE = 4 * 1024 * 1024
#: What Python and pytest write as they run.
IGNORED = ("__pycache__", ".pytest_cache")
#: sha256 (None: too large), size, mtime, ctime, inode
Entry = list[Any]
Entries = dict[str, Entry]


def describe(
    path: str,
    name: str,
    large: int | None,
    reuse: Entries | None = None,
    hashed: Collection[str] = (),
) -> Entries:
    """Describe the file or every file of the folder ``path``, by a relative path from ``name``.

    Content is not read above the size ``large`` (None: always read), except of the paths in
    ``hashed``. ``reuse`` are entries from a moment ago, which stand where nothing else of the
    file has changed.
    """
    found: Entries = {}
    for full, relative, status in _files(path, name):
        facts = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        before = reuse.get(relative) if reuse else None
        if before is not None and before[1:] == facts:
            found[relative] = before
        else:
            limit = None if relative in hashed else large
            found[relative] = [_sha256(full, status, limit), *facts]
    return found


def digest(entries: Entries) -> str:
    """Return the sha256 over the sorted paths and contents; large files count by their size.

    A large file with several links has a hash here (see ``_sha256``) but counts by size too.
    """
    whole = hashlib.sha256()
    for path in sorted(entries):
        content, size = entries[path][:2]
        if content is None or size > LARGE:
            content = f"size:{size}"
        whole.update(f"{path}\0{content}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def differences(before: Entries, now: Entries) -> list[str]:
    """Return ``path: changed``, ``deleted`` or ``added``; ``before`` decides what is compared.

    That is the content where it was hashed, else size, times and inode.
    """
    lines = [f"{path}: added" for path in now.keys() - before.keys()]
    for path, entry in before.items():
        if path not in now:
            lines.append(f"{path}: deleted")
        elif entry[0] != now[path][0] if entry[0] is not None else entry[1:] != now[path][1:]:
            lines.append(f"{path}: changed")
    return sorted(lines)


def copy(source: str, target: str) -> None:
    """Copy a file or a folder with its times, and with the right to write.

    A link to something inside the folder becomes what it points to; another stays a link.
    """
    if os.path.isdir(source):
        _copy_folder(source, target, os.path.realpath(source), ())
    else:
        _copy_file(source, target)


def _files(path: str, name: str) -> Iterator[tuple[str, str, os.stat_result]]:
    if not os.path.isdir(path):
        if os.path.lexists(path):
            yield path, name, os.lstat(path)
        return
    todo = [(path, name)]
    while todo:
        folder, prefix = todo.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                relative = prefix + "/" + entry.name if prefix else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in IGNORED:
                        todo.append((entry.path, relative))
                else:
                    yield entry.path, relative, entry.stat(follow_symlinks=False)


def _sha256(path: str, status: os.stat_result, large: int | None) -> str | None:
    """Hash a file's content, a link's target and what it leads to; None if it is too large.

    A large file with several links is hashed all the same: a link made or removed elsewhere,
    as package managers do, changes its ctime, which then tells nothing.
    """
    content = hashlib.sha256()
    if stat.S_ISLNK(status.st_mode):
        content.update(b"link\0" + os.fsencode(os.readlink(path)) + b"\0")
        if not os.path.isfile(path):
            return content.hexdigest()
    elif not stat.S_ISREG(status.st_mode):
        return f"special:{stat.S_IFMT(status.st_mode):o}"
    elif large is not None and status.st_size > large and status.st_nlink == 1:
        return None
    with open(path, "rb", buffering=0) as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            content.update(block)
    return content.hexdigest()


def _copy_folder(source: str, target: str, top: str, above: tuple[str, ...]) -> None:
    above = (*above, os.path.realpath(source))
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            destination = os.path.join(target, entry.name)
            real = os.path.realpath(entry.path) if entry.is_symlink() else ""
            if real and (real in above or not real.startswith(top + os.sep)):
                os.symlink(real, destination)  # absolute: from here a relative one leads elsewhere
            elif entry.is_dir():
                _copy_folder(entry.path, destination, top, above)
            elif entry.is_file():
                _copy_file(entry.path, destination)
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode) | stat.S_IRWXU)
    _copy_times(source, target)


def _copy_file(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    _copy_times(source, target)


def _copy_times(source: str, target: str) -> None:
    # Bytecode holds its source's time: without it, the arm would compile everything again.
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
