"""Tar archives in and out of a container; what comes out is not trusted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath


def pack(files: Mapping[str, bytes], root: str) -> bytes:
    """Return a tar that holds ``files`` below ``root``; folders are open to every user.

    An image may run as any user, and what is put over the API belongs to root.
    """
    buffer = io.BytesIO()
    base = PurePosixPath(root.lstrip("/"))
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        made: set[PurePosixPath] = set()
        for name, data in files.items():
            path = base / name
            for folder in reversed(path.parents):
                if folder.parts and folder not in made:
                    made.add(folder)
                    tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o777))
            entry = _entry(path, tarfile.REGTYPE, 0o666)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def unpack_one(chunks: Iterable[bytes], limit: int) -> bytes | None:
    """Return the one regular file of a tar, cut at ``limit`` bytes; anything else is None."""
    buffer = io.BytesIO()
    for chunk in chunks:
        buffer.write(chunk)
        if buffer.tell() > limit + 65536:
            break
    buffer.seek(0)
    try:
        with tarfile.open(fileobj=buffer, mode="r|") as tar:
            member = tar.next()
            if member is None or not member.isreg():
                return None
            file = tar.extractfile(member)
            return file.read(limit) if file else None
    except tarfile.ReadError:
        return None


def _entry(path: PurePosixPath, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(path))
    entry.type = kind
    entry.mode = mode
    return entry
