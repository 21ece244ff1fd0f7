"""The locked environment of the local engine: made once from a lock, then read-only.

``<cache>/environments/<key>/`` is a virtual environment. ``complete.json`` is written last: without
it the folder is what an interrupted build left, and is made again. ``manifest.json`` says what
every file was, so that an arm that changed the environment is found out.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.engines.base import OnStep
from harness.engines.makeenv import FULL, Maker, mark
from harness.engines.processes import is_dead, kill_marked
from harness.engines.tree import Manifest, differences, freeze, remove, scan
from harness.errors import BadInput, EngineError
from harness.image import Image, Lock

#: Part of the key: raise it when environments are made in another way.
FORMAT = 1
_COMPLETE, _MANIFEST = "complete.json", "manifest.json"
_OWN = (_COMPLETE, _MANIFEST)


def key(lock: bytes, python: str, warm: Sequence[str] = ()) -> str:
    """32 hex digits of a sha256 over all that an environment depends on.

    That is the lock, ``python`` (major.minor), the ``warm`` modules, this machine's architecture
    and libc, and FORMAT.
    """
    parts = {
        "format": FORMAT,
        "lock": hashlib.sha256(lock).hexdigest(),
        "python": python,
        "warm": list(warm),
        "platform": [sys.platform, platform.machine(), *platform.libc_ver()],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def key_of(image_folder: Path, image: Image) -> str:
    """The key of an image's environment on this machine.

    Raises:
        BadInput: the image has no lock, or its lock cannot be read.
    """
    lock = _lock_of(image)
    path = image_folder / lock.requirements
    try:
        return key(path.read_bytes(), lock.python, lock.warm)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error


def find(cache: Path, key: str) -> Path | None:
    """The finished environment of that key, or None; one whose Python is gone does not count."""
    env = _environments(cache) / key
    return env if _facts(env) and (env / "bin" / "python").exists() else None


def ensure(image_folder: Path, image: Image, cache: Path, on_step: OnStep) -> Path:
    """Return the image's environment; make it first where it is not here yet.

    Of several processes at once one makes it and the others wait. When it fails or is
    interrupted, nothing is left that counts as an environment.

    Raises:
        BadInput: the image has no lock, or its lock cannot be read.
        EngineError: it cannot be made, with the last words of uv or Python and the remedy.
    """
    name = key_of(image_folder, image)
    if found := find(cache, name):
        return found
    env = _environments(cache) / name
    with _os_errors(env), _locked(env, on_step) as held:
        if found := find(cache, name):
            return found
        lock = _lock_of(image)
        maker = Maker(image=image.name, lock=lock, env=env, held=held, on_step=on_step)
        _remove(env)
        try:
            maker.make(image_folder / lock.requirements)
            _finish(env, image.name)
        except BaseException:
            _remove(env)
            raise
        finally:
            remove(maker.scratch)
    return env


def changed(env: Path, before: Manifest | None = None) -> list[str]:
    """What differs from ``before`` (else: from when it was made), as ``added: path`` and so on.

    ``before`` is from ``tree.scan``, for a caller that trusts no file an arm might write.
    """
    if before is None:
        try:
            before = json.loads((env / _MANIFEST).read_bytes())
        except (OSError, ValueError):
            return [f"changed: {_MANIFEST}"]
    return differences(before, scan(env, without=_OWN))


def discard(env: Path) -> None:
    """Remove an environment, read-only as it is.

    Raises:
        EngineError: something in it cannot be removed.
    """
    with _os_errors(env), _locked(env, lambda step: None):
        _remove(env)


def reap(cache: Path) -> list[str]:
    """Remove what builds left that were killed; return what was removed, in words."""
    removed = set()
    for folder in sorted(_environments(cache).glob("*/")):
        env = folder.with_suffix("")  # beside it may lie KEY.tmp
        with contextlib.suppress(OSError), _locked(env):
            if not _facts(folder):
                remove(folder)
                removed.add(f"unfinished environment {env.name}")
    return sorted(removed)


def _environments(cache: Path) -> Path:
    return cache.absolute() / "environments"


def _lock_of(image: Image) -> Lock:
    if image.lock is None:
        raise BadInput(f"image {image.name} has no [lock]", "Use --engine docker.")
    return image.lock


def _facts(env: Path) -> dict[str, Any] | None:
    """What ``complete.json`` says; None where the environment is not finished."""
    try:
        facts = json.loads((env / _COMPLETE).read_bytes())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("format") == FORMAT else None


def _finish(env: Path, image: str) -> None:
    freeze(env)
    manifest = scan(env, without=_OWN)
    (env / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    facts = {"format": FORMAT, "image": image}
    part = env / f"{_COMPLETE}.part"
    part.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    part.rename(env / _COMPLETE)
    env.chmod(0o555)


def _remove(env: Path) -> None:
    if env.is_dir():
        env.chmod(0o700)
        (env / _COMPLETE).unlink(missing_ok=True)  # from here on it counts as unfinished
        remove(env)


@contextlib.contextmanager
def _locked(env: Path, on_step: OnStep | None = None) -> Iterator[int]:
    """Hold the lock on an environment, whose file descriptor this yields.

    Without ``on_step`` it is not waited for: BlockingIOError.

    Not ``filelock``: commands inherit this lock (see makeenv.Maker).
    """
    env.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(env.with_name(f"{env.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        waiting = False
        while not _taken(handle):
            holder = os.pread(handle, 1000, 0).decode("utf-8", "replace")
            dead = holder and is_dead(holder.rpartition("@")[2])
            ended = (
                kill_marked(holder, str(env)) if dead else []
            )  # what a killed process left running
            if not ended and on_step is None:
                raise BlockingIOError
            if not dead and not waiting and on_step is not None:
                on_step("another process makes this environment: waiting for it")
                waiting = True
            time.sleep(0.1)
        os.ftruncate(handle, 0)
        os.pwrite(handle, mark().encode(), 0)
        yield handle
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _os_errors(env: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise EngineError(
            f"environment {env}: {error}", FULL if full else "Look at the rights of that folder."
        ) from error
