"""One device of this machine for arms that are no containers: what their variables say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.standin_host import UUID, drm, smi

from harness.device import parse_device
from harness.engines.access import local_access
from harness.engines.base import Access
from harness.engines.local import LocalEngine
from harness.errors import BadInput, EngineUnavailable
from harness.image import from_interpreter


def test_a_local_arm_sees_every_device_unless_one_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert local_access(None, root=tmp_path) == Access(family="", key="cpu")
    amd = drm(tmp_path / "amd", "0x1002", kfd=True)
    assert local_access(None, root=amd) == Access(family="rocm", key="rocm-0")
    smi(tmp_path, monkeypatch)
    assert local_access(None, root=amd).key == "cuda-0"


@pytest.mark.parametrize("which", ["1", UUID, "GPU-5f2a1f43", "MIG-5f2a1f43"])
def test_a_local_cuda_device_is_chosen_in_pci_order_or_by_uuid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    smi(tmp_path, monkeypatch)
    access = local_access(parse_device(f"cuda:{which}"))
    assert access.options == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": which}
    assert access.key == f"cuda-{which}" and access.family == "cuda"
    assert access.words[0].startswith(f"NVIDIA device {which}: CUDA_DEVICE_ORDER=PCI_BUS_ID")


def test_a_local_xpu_or_rocm_device_is_chosen_by_its_vendors_variables(tmp_path: Path) -> None:
    xpu = local_access(parse_device("xpu:1"), root=drm(tmp_path / "intel", "0x8086"))
    assert xpu.options["ZE_AFFINITY_MASK"] == "1" and xpu.key == "xpu-1"
    rocm = local_access(parse_device("rocm:1"), root=drm(tmp_path / "amd", "0x1002", kfd=True))
    assert rocm.options == {
        "ROCR_VISIBLE_DEVICES": "1",
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("cuda:2", "no cuda device 2: this machine has 2"),
        ("cuda:GPU-00000000", "this machine has no NVIDIA device GPU-00000000"),
        ("xpu", "this machine has no Intel GPU"),
        ("rocm", "this machine has no AMD device"),
    ],
)
def test_a_device_that_this_machine_lacks_is_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, problem: str
) -> None:
    smi(tmp_path, monkeypatch)
    with pytest.raises(EngineUnavailable, match=problem) as raised:
        local_access(parse_device(wanted), root=tmp_path)
    assert raised.value.remedy


def test_a_cdi_device_is_not_for_the_local_engine() -> None:
    with pytest.raises(BadInput, match="CDI is for containers"):
        local_access(parse_device("nvidia.com/gpu=0"))


def test_every_vendor_is_hidden_from_a_local_cpu_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the user's own variables, which an arm inherits, show devices."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "0,1")
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:0")
    engine = LocalEngine(cache=tmp_path, python=Path(sys.executable), device=parse_device("cpu"))
    environment = engine.prepare(from_interpreter(sys.executable), on_step=lambda _: None)
    lines: list[str] = []
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    with engine.open(environment, label="cpu") as sandbox:
        sandbox.exec(
            [environment.python, "-c", code],
            env=environment.variables,
            cwd=f"{sandbox.root}/work",
            time_limit=60,
            on_line=lines.append,
        )
    variables = json.loads(lines[-1])
    assert {name: variables[name] for name in environment.access.options} == {
        "CUDA_VISIBLE_DEVICES": "-1",
        "HIP_VISIBLE_DEVICES": "-1",
        "ROCR_VISIBLE_DEVICES": "-1",
        "ONEAPI_DEVICE_SELECTOR": "!*:gpu",
    }
    assert environment.access.key == "cpu"
