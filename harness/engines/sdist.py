"""A released source distribution: found and fetched as pip's settings say, never built or run.

uv finds the address and the sha256 (without building anything); the archive is kept in the cache
by its digest and read as an archive: nothing of it is unpacked to disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import ssl
import sys
import tarfile
import tempfile
import tomllib
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from harness.case import unsafe_path
from harness.engines import packages
from harness.engines.commands import Ended, redact, run_all
from harness.errors import BadInput, EngineError, HarnessError
from harness.record import SourceRecord
from harness.sources import SdistSpec

MIB = 1 << 20
ARCHIVE_LIMIT = 512 * MIB
FILE_LIMIT = 64 * MIB
TOTAL_LIMIT = 512 * MIB
#: Files, and bytes after decompression, that an archive may have.
MEMBERS_LIMIT = 200_000
UNPACKED_LIMIT = 4096 * MIB
_REMEDY = "See the project's releases; sdist:NAME==VERSION needs one with a source distribution."


@dataclass(frozen=True, kw_only=True)
class SdistTree:
    """The files of an archive below its one top-level folder ``NAME-VERSION/``."""

    archive: Path
    spec: str
    sha256: str

    @property
    def record(self) -> SourceRecord:
        """Which release, and the sha256 of its archive."""
        return SourceRecord(kind="sdist", spec=self.spec, revision=f"sha256:{self.sha256}")

    def names(self) -> tuple[str, ...]:
        """The paths of all regular files."""
        return tuple(self._members)

    def read(self, path: str) -> bytes:
        """The bytes of one file.

        Raises:
            BadInput: the archive has no such file, or it has more than 64 MiB.
        """
        return self.read_many([path])[path]

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of several files, in one pass over the archive.

        Raises:
            BadInput: as for ``read``, or all have more than 512 MiB.
        """
        for path in paths:
            if path not in self._members:
                raise BadInput(f"{self.spec}: no file {path!r} in it")
            if self._members[path] > FILE_LIMIT:
                raise BadInput(f"{self.spec}: {path} has more than {FILE_LIMIT // MIB} MiB")
        wanted = set(paths)
        if sum(self._members[path] for path in wanted) > TOTAL_LIMIT:
            raise BadInput(f"{self.spec}: more than {TOTAL_LIMIT // MIB} MiB asked for at once")
        found: dict[str, bytes] = {}
        with self._opened() as archive:
            for path, member in self._walk(archive):
                if path in wanted and (file := archive.extractfile(member)) is not None:
                    found[path] = file.read(FILE_LIMIT)
                    if len(found) == len(wanted):
                        break
        return found

    @cached_property
    def _members(self) -> dict[str, int]:
        """Path and size of every regular file, without the top-level folder."""
        with self._opened() as archive:
            return {path: member.size for path, member in self._walk(archive)}

    def _walk(self, archive: tarfile.TarFile) -> Iterator[tuple[str, tarfile.TarInfo]]:
        size = 0
        for number, member in enumerate(archive):
            size += max(member.size, 0)
            if number >= MEMBERS_LIMIT or size > UNPACKED_LIMIT:
                raise BadInput(f"{self.spec}: the archive is too big to be read safely")
            top, _, path = member.name.removeprefix("./").partition("/")
            if member.isreg() and top and not unsafe_path(path):
                yield path, member

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        try:
            with tarfile.open(self.archive, mode="r|*") as archive:
                yield archive
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise BadInput(
                f"{self.spec}: the archive cannot be read: {error}",
                "A .tar.gz is expected (PEP 625); some old releases have a .zip only.",
            ) from error


def fetch(spec: SdistSpec, cache: Path) -> SdistTree:
    """Find the release's source distribution, fetch it once, and check its sha256.

    Raises:
        BadInput: there is no such release, or it has no source distribution.
        EngineError: the index cannot be reached, or what came is not what it promised.
    """
    text = f"sdist:{spec.name}=={spec.version}"
    folder = cache / "sdists"
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{spec.name}-{spec.version}.sha256"
    if note.is_file():
        digest = note.read_text(encoding="ascii").strip()
        kept = folder / digest
        if kept.is_file() and _digest(kept) == digest:
            return SdistTree(archive=kept, spec=text, sha256=digest)
    address, digest = _find(spec, text)
    kept = folder / digest
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        got = Path(scratch, "archive")
        _download(address, got, text)
        if _digest(got) != digest:
            raise EngineError(
                f"{text}: what was fetched is not what the index promises (sha256 {digest})",
                "Try again; if it stays, the index or a proxy changes files.",
            )
        os.replace(got, kept)
        new = Path(scratch, "note")
        new.write_text(digest, encoding="ascii")
        os.replace(new, note)
    return SdistTree(archive=kept, spec=text, sha256=digest)


def _find(spec: SdistSpec, text: str) -> tuple[str, str]:
    """Address and sha256 of the archive, as uv finds them.

    uv builds a release that has no wheel to learn what it needs, and leaves archives out where
    it is told not to. So it is asked first whether it can do without, then for the archive.
    """
    settings = packages.pip_settings()
    with tempfile.TemporaryDirectory(prefix="harness-sdist-") as scratch:
        given, out = Path(scratch, "in.txt"), Path(scratch, "pylock.toml")
        given.write_text(f"{spec.name}=={spec.version}\n", encoding="utf-8")
        argv = [packages.uv_program(), "pip", "compile", str(given), "--no-deps", "--quiet"]
        argv += ["--universal", "--format", "pylock.toml", "-o", str(out)]
        argv += ["--python", sys.executable, *packages.uv_argv(settings)]
        env = packages.uv_environment(settings)
        for command in ([*argv, "--no-build"], argv):
            out.unlink(missing_ok=True)
            (ended,) = run_all([command], env=env, cwd=scratch, time_limit=300)
            if ended.code != 0:
                raise _not_found(text, ended)
        found = tomllib.loads(out.read_text(encoding="utf-8")).get("packages", [])
        archives = [package["sdist"] for package in found if "sdist" in package]
        if not archives:
            raise BadInput(f"{text}: the release has no source distribution", _REMEDY)
        digest = str(archives[0].get("hashes", {}).get("sha256", ""))
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise EngineError(f"{text}: the index gives no sha256 of it", packages.REMEDY)
        if "url" in archives[0]:
            return str(archives[0]["url"]), digest
        return Path(scratch, str(archives[0]["path"])).resolve().as_uri(), digest


def _not_found(text: str, ended: Ended) -> HarnessError:
    if ended.says("no usable wheels"):
        return BadInput(
            f"{text}: the release has no wheel, and without one its archive is not found "
            "but by building it",
            "Fetch and unpack it yourself, and give the folder.",
        )
    if ended.says(r"there is no version|not found in the|no versions of"):
        return BadInput(f"{text}: there is no such release:\n{ended.last_words()}", _REMEDY)
    return EngineError(f"{text} cannot be found:\n{ended.last_words()}", packages.REMEDY)


def _download(address: str, target: Path, text: str) -> None:
    """Fetch one file, with pip's certificates and proxy."""
    settings = packages.pip_settings()
    parts = urlsplit(address)
    try:
        if parts.scheme == "file":
            shutil.copyfile(unquote(parts.path), target)
            return
        handlers: list[urllib.request.BaseHandler] = []
        if settings.proxy:
            proxies = {"http": settings.proxy, "https": settings.proxy}
            handlers.append(urllib.request.ProxyHandler(proxies))
        context = ssl.create_default_context(cafile=settings.cert or None)
        if parts.hostname in settings.trusted_hosts:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        handlers.append(urllib.request.HTTPSHandler(context=context))
        request = urllib.request.Request(address, headers={"User-Agent": "ab-harness"})
        with (
            urllib.request.build_opener(*handlers).open(request, timeout=180) as answer,
            target.open("wb") as file,
        ):
            _copy(answer, file, text)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise EngineError(
            f"{text}: cannot be fetched: {redact(str(error))}", packages.REMEDY
        ) from error


def _copy(source: IO[bytes], target: IO[bytes], text: str) -> None:
    size = 0
    while data := source.read(MIB):
        size += len(data)
        if size > ARCHIVE_LIMIT:
            raise EngineError(f"{text}: more than {ARCHIVE_LIMIT // MIB} MiB")
        target.write(data)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
