"""The installed command, as a user runs it, on the tiny package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.golden import LocalEnvironments, Spec

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cli:
    """Runs ``harness`` in a folder, with a cache of its own."""

    cwd: Path
    cache: Path
    python: Path

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "harness", *args]

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "XDG_CACHE_HOME": str(self.cache), "COLUMNS": "160"}

    def __call__(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*args),
            cwd=self.cwd,
            env=self.env | more.pop("env", {}),
            capture_output=True,
            text=True,
            timeout=300,
            **more,
        )

    def json(self, *args: str, code: int) -> dict[str, Any]:
        done = self(*args, "--json")
        assert done.returncode == code, (done.stdout, done.stderr)
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document


@pytest.fixture
def cli(tmp_path: Path, local_environments: LocalEnvironments) -> Cli:
    local_environments.target(Spec())
    cwd = tmp_path / "project"
    cwd.mkdir()
    return Cli(cwd=cwd, cache=tmp_path / "cache", python=local_environments.made[Spec()])
