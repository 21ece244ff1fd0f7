"""``harness doctor`` as installed: every platform, with what can run it or why nothing can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.required import lacking
from support.standin_host import smi

from .conftest import Cli

FAMILIES = ("cpu", "cuda", "xpu", "rocm")


def platforms(cli: Cli, **env: str) -> dict[str, dict[str, object]]:
    done = cli("doctor", "--json", env=env)
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    return {
        one["what"].partition(" ")[2]: one for one in findings if one["what"][:9] == "platform "
    }


def test_every_platform_has_its_engines_or_a_reason_and_a_remedy(cli: Cli) -> None:
    found = platforms(cli)
    assert tuple(found) == FAMILIES
    for finding in found.values():
        if finding["engines"]:
            assert finding["state"] == "ok" and "runs with" in str(finding["text"])
        else:
            assert finding["state"] == "note" and "cannot run here: " in str(finding["text"])
            assert finding["remedy"]
    assert "local" in found["cpu"]["engines"]  # type: ignore[operator]
    text = cli("doctor").stdout
    assert all(f"platform {family}" in text for family in FAMILIES)


@pytest.mark.docker
def test_a_device_that_only_the_local_engine_reaches(
    cli: Cli, docker_reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in nvidia-smi beside a real daemon that has no NVIDIA runtime."""
    if docker_reason:
        lacking(docker_reason)
    smi(tmp_path, monkeypatch)
    found = platforms(cli)["cuda"]
    assert found["engines"] == ["local"] and found["state"] == "ok"
    assert "NVIDIA H200" in str(found["text"]) and "no NVIDIA runtime" in str(found["text"])
    assert "nvidia-ctk runtime configure" in str(found["remedy"])


def test_without_a_daemon_the_local_engine_is_left(cli: Cli) -> None:
    found = platforms(cli, DOCKER_HOST="unix:///nowhere")
    assert found["cpu"]["engines"] == ["local"]
    assert all("no daemon answers" in str(finding["text"]) for finding in found.values())
