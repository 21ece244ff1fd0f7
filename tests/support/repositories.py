"""Real git repositories and folders, with what real `git diff` and `diff` print of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, str | bytes | None]
_WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(repository: Path, *args: str) -> bytes:
    """What git prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run(
        ["git", *_WHO, *args], cwd=repository, check=True, capture_output=True, env=env
    ).stdout


def write(folder: Path, files: Files) -> None:
    """Write the files; None removes one."""
    for name, data in files.items():
        path = folder / name
        if data is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def commit(repository: Path, files: Files, message: str) -> str:
    """Commit the files on top of what is there, and return the commit."""
    if not (repository / ".git").exists():
        repository.mkdir(parents=True, exist_ok=True)
        git(repository, "init", "-q", "-b", "main")
    write(repository, files)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", message)
    return git(repository, "rev-parse", "HEAD").decode().strip()


def two_commits(repository: Path, before: Files, after: Files) -> Path:
    """A repository whose branch ``fix`` goes on from ``main``."""
    commit(repository, before, "What was there")
    git(repository, "checkout", "-q", "-b", "fix")
    commit(repository, after, "Take an unset factor for 1")
    return repository


def plain_diff(folder: Path, before: Files, after: Files, *options: str) -> bytes:
    """What `diff` prints of the folders ``old`` and ``new``."""
    shutil.rmtree(folder, ignore_errors=True)
    write(folder / "old", before)
    shutil.copytree(folder / "old", folder / "new")
    write(folder / "new", after)
    done = subprocess.run(
        ["diff", *options, "old", "new"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stdout
