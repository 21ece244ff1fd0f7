"""pytest plugins that a case names: brought along where the image lacks them, and used."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import (
    FILE,
    LocalEnvironments,
    Spec,
    by_id,
    run_case,
    write_case,
)

from harness.engines.plugins import bundle
from harness.engines.toolkit import toolkit
from harness.errors import BadInput, EngineError
from harness.store import load_case
from harness.verdict import Report, Verdict

TESTS = """import pytest


@pytest.mark.asyncio
async def test_marked():
    pass


def test_mock(mocker):
    assert mocker.Mock()
"""
IDS = [f"{FILE}::test_marked", f"{FILE}::test_mock"]
#: The harness's own pytest is 9 or later; this one goes with 8 only.
OLD = "pytest-asyncio==1.2.0"
MOCK = "pytest-mock==3.15.1"


@pytest.fixture
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.getbasetemp() / "plugin-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def report(
    tmp: Path, environments: LocalEnvironments, spec: Spec, plugins: str, tests: str = TESTS
) -> Report:
    write_case(tmp / "case", tests={FILE: tests}, flips=[], controls=IDS, extra=plugins)
    return run_case(tmp / "case", environments.target(spec), tmp / "out", tmp / "locks")


def test_they_are_brought_along_with_a_pytest_that_fits(
    tmp_path: Path, local_environments: LocalEnvironments, cached: Path
) -> None:
    named = f'plugins = ["{OLD}", "{MOCK}"]'
    found = report(tmp_path, local_environments, Spec(pytest=False), named)
    assert {node.verdict for node in by_id(found).values()} == {Verdict.CONTROL_HELD}
    (row,) = found.rows
    assert row.evidence.unpatched and row.evidence.patched
    plugins = row.evidence.unpatched.record.plugins
    assert plugins == row.evidence.patched.record.plugins
    (line,) = (line for line in plugins if line.startswith("pytest_asyncio-1.2.0-"))
    assert len(line.partition("sha256:")[2]) == 64
    assert any(line.startswith("pytest-8.") for line in plugins)


def test_without_them_it_is_said_what_is_lacking(
    tmp_path: Path, local_environments: LocalEnvironments
) -> None:
    nodes = by_id(report(tmp_path, local_environments, Spec(), ""))
    assert {node.verdict for node in nodes.values()} == {Verdict.INFRA}
    assert "pytest-asyncio" in nodes["test_marked"].reason
    assert "fixture 'mocker'" in nodes["test_mock"].reason


def test_the_image_s_own_wins(
    tmp_path: Path, local_environments: LocalEnvironments, cached: Path
) -> None:
    own = {
        "pytest_asyncio.py": "import pytest\n\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_pyfunc_call(pyfuncitem):\n    return 'marked' in pyfuncitem.name or None\n",
        "pytest_asyncio-0.1.dist-info/METADATA": "Name: pytest-asyncio\nVersion: 0.1\n",
        "pytest_asyncio-0.1.dist-info/entry_points.txt": "[pytest11]\nasyncio = pytest_asyncio\n",
    }
    spec = Spec(files=(*Spec().files, *own.items()))
    named = f'plugins = ["pytest-asyncio==1.3.0", "{MOCK}"]'
    found = report(tmp_path, local_environments, spec, named)
    assert {node.verdict for node in by_id(found).values()} == {Verdict.CONTROL_HELD}
    arm = found.rows[0].evidence.unpatched
    assert arm is not None
    assert arm.record.plugins[0] == (
        "pytest-asyncio 0.1, the image's own (the case names pytest-asyncio==1.3.0)"
    )
    assert arm.record.plugins[1].startswith("pytest_mock-3.15.1-")


def test_what_does_not_go_with_the_image_s_pytest(cached: Path) -> None:
    with pytest.raises(EngineError, match="depends on pytest<9"):
        bundle([OLD], python="3.11.2", pytest="9.0.2", cache=cached)


def test_what_is_not_pure_python(cached: Path) -> None:
    with pytest.raises(EngineError, match="pure-Python wheels only"):
        bundle(["numpy==2.2.0"], python="3.11.2", pytest="", cache=cached)


def test_the_second_arm_gets_the_same_bytes_without_a_network(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bundle([MOCK], python="3.11.2", pytest="", cache=cached)
    assert not first.has_pytest
    assert not set(first.files) & set(toolkit())
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", "")):
        monkeypatch.setenv(name, value)
    assert bundle([MOCK], python="3.11.9", pytest="", cache=cached) == first


@pytest.mark.parametrize("pin", ["pytest-asyncio", "pytest-asyncio>=1", "x==1; os", "-r x", ""])
def test_only_exact_pins(tmp_path: Path, pin: str) -> None:
    write_case(tmp_path / "case", extra=f'plugins = ["{pin}"]')
    with pytest.raises(BadInput, match="plugins"):
        load_case(tmp_path / "case")
