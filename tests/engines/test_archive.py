"""Tar archives in and out of a container; what comes out is hostile."""

from __future__ import annotations

import io
import tarfile

import pytest

from harness.engines.archive import pack, unpack_one


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry, data in members:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def member(kind: bytes, name: str = "x", target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_pack_holds_files_in_folders_that_any_user_may_use() -> None:
    data = pack({"a/b.txt": b"1", "a/c.txt": b"2", "d": b"3"}, "/root")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        modes = {entry.name: entry.mode for entry in archive}
        assert list(modes) == ["root", "root/a", "root/a/b.txt", "root/a/c.txt", "root/d"]
        assert modes["root/a"] == 0o777 and modes["root/d"] == 0o666
        assert archive.extractfile("root/a/c.txt").read() == b"2"  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 100_000])
def test_one_file_comes_out(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    data = tar((tarfile.TarInfo("x"), content[:size]))
    chunks = [data[i : i + 700] for i in range(0, len(data), 700)]
    assert unpack_one(chunks, 1 << 20) == content[:size]


def test_a_file_is_cut_at_the_limit() -> None:
    content = bytes(range(256)) * 2000
    data = tar((tarfile.TarInfo("x"), content))
    read: list[int] = []

    def chunks():  # type: ignore[no-untyped-def]
        for i in range(0, len(data), 1000):
            read.append(i)
            yield data[i : i + 1000]

    assert unpack_one(chunks(), 5000) == content[:5000]
    assert read[-1] < len(data) - 100_000  # the rest was not even read


@pytest.mark.parametrize(
    "entry",
    [
        member(tarfile.SYMTYPE, target="/etc/passwd"),
        member(tarfile.LNKTYPE, target="/etc/passwd"),
        member(tarfile.CHRTYPE),
        member(tarfile.FIFOTYPE),
        member(tarfile.DIRTYPE),
    ],
)
def test_anything_but_a_regular_file_is_nothing(entry: tarfile.TarInfo) -> None:
    assert unpack_one([tar((entry, b""))], 1000) is None


@pytest.mark.parametrize("data", [b"", b"no tar at all", bytes(2048)])
def test_rubbish_is_nothing(data: bytes) -> None:
    assert unpack_one([data], 1000) is None
