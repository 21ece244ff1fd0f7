"""Where no daemon answers: a reason, and nothing that bites later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import gc
from harness.engines.docker import DockerEngine
print(DockerEngine().unavailable())
gc.collect()
"""


@pytest.mark.parametrize("host", ["unix:///nowhere", "tcp://127.0.0.1:1"])
def test_no_daemon_gives_a_reason_and_leaves_no_socket(host: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", CODE],
        env={**os.environ, "DOCKER_HOST": host},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert "no Docker daemon answers" in done.stdout and "Start Docker" in done.stdout
    assert done.stderr == ""
