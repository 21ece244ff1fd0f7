"""probe.py as it is started, beside stand-ins for torch and NVML, and its parts on made-up files.

``HARNESS_GUEST_PYTHON`` names another interpreter to run it with (3.9 is the oldest).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import standins
from support.standins import B70, H200, L40S, MI300X

import harness.guest
from harness.case import PLATFORM
from harness.guest import accelerator, nvml, sysfs, xpu
from harness.record import Probe
from harness.schema import parse_json

PYTHON = os.environ.get("HARNESS_GUEST_PYTHON", sys.executable)
GUEST = Path(harness.guest.__file__).parent
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc for the stand-in NVML")
Run = Callable[..., Probe]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the probe where torch.py is the given text; files go beside it."""

    def probed(torch: str = "", *, libraries: Path | None = None, **files: str) -> Probe:
        site = tmp_path / "site"
        site.mkdir(exist_ok=True)
        if torch:
            (site / "torch.py").write_text(torch)
        for name, text in files.items():
            (site / name).mkdir(exist_ok=True)
            (site / name / "__init__.py").write_text(text)
        (tmp_path / "request.json").write_text('{"package": "minipkg"}')
        answer = tmp_path / "answer.json"
        environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
        # -S: this machine's own torch, if any, stays out of it.
        argv = [PYTHON, "-S", str(GUEST / "probe.py"), str(tmp_path / "request.json"), str(answer)]
        done = subprocess.run(
            argv,
            env=environment | ({"LD_LIBRARY_PATH": str(libraries)} if libraries else {}),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        found = parse_json(answer.read_bytes(), Probe, where="answer.json")
        assert PLATFORM.fullmatch(found.platform)
        assert all(len(note) <= 301 for note in found.notes)
        return found

    return probed


@pytest.mark.parametrize(
    ("major", "minor", "key"),
    [
        (8, 9, "cuda-sm89"),
        (9, 0, "cuda-sm90"),
        (10, 0, "cuda-sm100"),
        (12, 0, "cuda-sm120"),
    ],
)
def test_a_cuda_device_is_named_by_its_compute_capability(
    run: Run, major: int, minor: int, key: str
) -> None:
    device = H200 | {"major": major, "minor": minor, "name": "NVIDIA Something"}
    found = run(standins.torch(device, cuda="13.0"))
    assert (found.platform, found.device, found.devices) == (key, "NVIDIA Something", 1)
    assert found.hardware["memory"] == "143771 MiB"
    assert found.versions == {"torch": "2.13.0", "cuda": "13.0", "cudnn": "91002"}


def test_without_nvml_there_is_what_torch_knows_and_one_note(run: Run) -> None:
    device = H200 | {"uuid": "11111111-1111-1111-1111-111111111111"}
    found = run(standins.torch(device, cuda="13.0"))
    assert found.device_uuid == "11111111-1111-1111-1111-111111111111"
    (note,) = found.notes
    assert note.startswith("NVML cannot be used (")


@needs_gcc
def test_nvml_describes_the_device_that_torch_names_by_uuid(run: Run, tmp_path: Path) -> None:
    libraries = standins.nvml(tmp_path / "lib")
    device = H200 | {"uuid": "11111111-1111-1111-1111-111111111111"}
    found = run(standins.torch(device, cuda="13.0"), libraries=libraries)
    assert found.device_uuid == "GPU-11111111-1111-1111-1111-111111111111"
    assert found.hardware == {
        "memory": "143771 MiB",
        "driver": "580.00.01",
        "VBIOS": "96.00.89.00.01",
        "ECC": "on",
        "MIG": "off",
        "compute mode": "exclusive process",
        "PCI bus": "00000000:01:00.0",
        "power limit": "700 W",
        "highest SM clock": "1980 MHz",
    }
    assert found.readings == {
        "SM clock": "345 MHz",
        "memory clock": "3201 MHz",
        "temperature": "31 °C",
        "power": "76 W",
        "throttled": "idle, software power cap",
        "ECC errors since the driver was loaded": "8589934592 corrected, 1 uncorrected",
    }
    assert found.notes == ()


@needs_gcc
def test_torch_s_first_device_may_be_nvml_s_second(run: Run, tmp_path: Path) -> None:
    libraries = standins.nvml(tmp_path / "lib")
    address = {"pci_domain_id": 0, "pci_bus_id": 2, "pci_device_id": 0}
    found = run(standins.torch(L40S | address, H200, cuda="12.9"), libraries=libraries)
    assert (found.platform, found.devices) == ("cuda-sm89", 2)
    assert found.device_uuid == "GPU-22222222-2222-2222-2222-222222222222"
    assert found.hardware["ECC"] == "not supported"
    assert "VBIOS" not in found.hardware and "MIG" not in found.hardware
    assert found.readings["SM clock"] == "210 MHz"
    assert found.notes == ("NVML does not say: VBIOS (Insufficient Permissions)",)


@needs_gcc
@pytest.mark.parametrize(
    ("count", "uuid"), [(1, "GPU-11111111-1111-1111-1111-111111111111"), (2, "")]
)
def test_an_anonymous_device_is_matched_only_where_it_is_the_only_one(
    run: Run, tmp_path: Path, count: int, uuid: str
) -> None:
    libraries = standins.nvml(tmp_path / "lib", count=count)
    found = run(standins.torch(H200, cuda="13.0"), libraries=libraries)
    assert found.device_uuid == uuid
    assert found.hardware["driver"] == "580.00.01"
    unknown = "NVML does not find torch's device: torch tells neither its UUID nor its PCI bus"
    assert found.notes == (() if uuid else (unknown,))


@needs_gcc
def test_a_device_that_nvml_does_not_know_is_not_described(run: Run, tmp_path: Path) -> None:
    libraries = standins.nvml(tmp_path / "lib", count=1)
    device = H200 | {"uuid": "44444444-4444-4444-4444-444444444444"}
    found = run(standins.torch(device, cuda="13.0"), libraries=libraries)
    assert found.device_uuid == "44444444-4444-4444-4444-444444444444"
    assert "VBIOS" not in found.hardware
    assert found.notes == ("NVML does not find torch's device: Not Found",)


@needs_gcc
def test_a_mig_instance_keeps_its_uuid_and_is_described_by_its_card(
    run: Run, tmp_path: Path
) -> None:
    libraries = standins.nvml(tmp_path / "lib")
    device = H200 | {"uuid": "33333333-3333-3333-3333-333333333333"}
    found = run(standins.torch(device, cuda="13.0"), libraries=libraries)
    assert found.device_uuid == "MIG-33333333-3333-3333-3333-333333333333"
    assert found.hardware["VBIOS"] == "96.00.89.00.01"


@needs_gcc
def test_an_nvml_that_cannot_start_is_a_note(run: Run, tmp_path: Path) -> None:
    libraries = standins.nvml(tmp_path / "lib", init=9)
    found = run(standins.torch(H200, cuda="13.0"), libraries=libraries)
    assert found.platform == "cuda-sm90"
    assert found.notes == ("NVML cannot be used (Driver Not Loaded): no VBIOS, ECC and clocks",)


def test_a_library_that_is_none_is_a_note(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnvidia-ml.so.1").write_text("not a library")
    found = run(standins.torch(H200, cuda="13.0"), libraries=tmp_path / "lib")
    assert found.platform == "cuda-sm90"
    (note,) = found.notes
    assert note.startswith("NVML cannot be used")


def test_the_kernel_module_s_file_has_the_driver_s_version(tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    )
    assert nvml.driver_file(str(file)) == "580.159.04"
    assert nvml.driver_file(str(tmp_path / "none")) == ""


def test_a_rocm_device_is_named_by_its_architecture(run: Run) -> None:
    found = run(standins.torch(MI300X, hip="7.2.3"))
    assert (found.platform, found.device) == ("rocm-gfx942", "AMD Instinct MI300X")
    assert found.hardware["ECC"] == "on"
    assert found.versions == {"torch": "2.13.0", "hip": "7.2.3", "miopen": "91002"}


def test_an_xpu_device_is_named_by_its_family(run: Run) -> None:
    found = run(standins.torch(B70, xpu="20260200"))
    assert (found.platform, found.device) == ("xpu-bmg", "Intel(R) Arc(TM) Pro B70 Graphics")
    assert found.device_uuid == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert found.hardware == {"memory": "32768 MiB", "compute driver": "1.6.33578+38"}
    assert found.versions == {"torch": "2.13.0", "xpu": "20260200"}


@pytest.mark.parametrize(
    ("props", "key"),
    [
        ({"architecture": 0x000000030DC00800}, "xpu-dg2"),  # intel_gpu_acm_g10
        ({"architecture": 0x000000030E400000}, "xpu-dg2"),  # intel_gpu_acm_g12
        ({"architecture": 0x000000030F000700}, "xpu-pvc"),  # intel_gpu_pvc
        ({"architecture": 0x000000030F400700}, "xpu-pvc"),  # intel_gpu_pvc_vg
        ({"architecture": 0x0000000311C00400}, "xpu-mtl"),  # intel_gpu_mtl_h
        ({"architecture": 0x0000000312800400}, "xpu-arl"),  # intel_gpu_arl_h
        ({"architecture": 0x0000000500400400}, "xpu-bmg"),  # intel_gpu_bmg_g21
        ({"architecture": 0x0000000500800000}, "xpu-bmg"),  # intel_gpu_bmg_g31
        ({"architecture": 0x0000000501000400}, "xpu-lnl"),  # intel_gpu_lnl_m
        ({"architecture": 0x0000000780000400}, "xpu-ptl"),  # intel_gpu_ptl_h
        ({"architecture": 0x00000008C2C00000}, "xpu-cri"),  # intel_gpu_cri
        ({"architecture": 0x0100000000009000, "name": "Other"}, "xpu-other"),  # nvidia_gpu_sm_90
        ({"architecture": -0x66FFFFFFFFFFFFFF, "name": "Other"}, "xpu-other"),  # unknown, signed
        ({"architecture": 0x0000000500400400, "name": "Arc A770"}, "xpu-bmg"),
        ({"version": "20.1.4"}, "xpu-bmg"),
        ({"version": "1.6", "name": "Other"}, "xpu-other"),
        ({"device_id": 0x56A0}, "xpu-dg2"),
        ({"device_id": 0x0BD5}, "xpu-pvc"),
        ({"device_id": 0xE20B}, "xpu-bmg"),
        ({"name": "Intel(R) Arc(TM) Pro B70 Graphics"}, "xpu-bmg"),
        ({"name": "Intel(R) Arc(TM) B580 Graphics"}, "xpu-bmg"),
        ({"name": "Intel(R) Arc(TM) A770M Graphics"}, "xpu-dg2"),
        ({"name": "Intel(R) Data Center GPU Flex 170"}, "xpu-dg2"),
        ({"name": "Intel(R) Data Center GPU Max 1550"}, "xpu-pvc"),
        ({"name": "Intel(R) Arc(TM) B390 Graphics"}, "xpu-arc_b390"),  # part of Panther Lake
        ({"name": "Intel(R) Arc(TM) Graphics 140V"}, "xpu-arc_140v"),
        ({"name": "未来 GPU" + "\n|x" * 40}, "xpu-gpu" + "_x" * 18),
        ({"name": "…"}, "xpu"),
        ({}, "xpu"),
    ],
)
def test_what_names_an_xpu(props: dict[str, object], key: str) -> None:
    found = xpu.key(SimpleNamespace(**props))
    assert found == key
    assert PLATFORM.fullmatch(found)


def test_the_loaded_level_zero_is_told_by_its_file_names(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 08:01 1234                /usr/lib/x86_64-linux-gnu/"
    maps.write_text(
        f"{line}libze_loader.so.1.26.2\n{line}libze_loader.so.1.26.2\n"
        f"{line}libze_intel_gpu.so.1.6.33578.38\n{line}libze_other.so.1.2\n"
    )
    assert xpu.level_zero(str(maps)) == {
        "level-zero": "1.26.2",
        "level-zero-gpu": "1.6.33578.38",
    }
    assert xpu.level_zero(str(tmp_path / "none")) == {}


def test_no_torch_is_a_cpu_without_a_note(run: Run) -> None:
    found = run()
    assert (found.platform, found.devices, found.versions, found.notes) == ("cpu", 0, {}, ())
    assert found.device == accelerator.cpu_name() != ""


def test_a_cpu_torch_is_a_cpu_without_a_note(run: Run) -> None:
    found = run(standins.torch())
    assert (found.platform, found.notes) == ("cpu", ())


@pytest.mark.parametrize("built", [{"cuda": "13.0"}, {"hip": "7.2"}, {"xpu": "20260200"}])
def test_an_accelerator_s_torch_without_a_device_is_a_cpu_with_a_note(
    run: Run, built: dict[str, str]
) -> None:
    warning = 'import warnings; warnings.warn("Found no\\nNVIDIA driver")'
    found = run(standins.torch(available=warning, **built))  # type: ignore[arg-type]
    family = next(iter(built)).replace("hip", "rocm")
    assert found.platform == "cpu"
    assert found.notes == (
        f"torch is built for {family} and finds no device: Found no NVIDIA driver",
    )


def test_a_broken_torch_is_a_cpu_with_a_note(run: Run) -> None:
    found = run("raise OSError('libcudart.so.13: cannot open ' + 'x' * 1000)\n")
    assert found.platform == "cpu"
    (note,) = found.notes
    assert note.startswith("torch cannot be imported: OSError: libcudart.so.13: cannot open x")


@pytest.mark.parametrize(
    ("built", "key"), [({"cuda": "13.0"}, "cuda"), ({"hip": "7.2"}, "rocm"), ({"xpu": "1"}, "xpu")]
)
def test_a_device_that_cannot_be_read_is_never_a_cpu(
    run: Run, built: dict[str, str], key: str
) -> None:
    found = run(standins.torch(H200, properties="raise RuntimeError('ECC')", **built))  # type: ignore[arg-type]
    assert (found.platform, found.device, found.devices) == (key, accelerator.UNREADABLE, 1)
    assert found.notes == ("the device cannot be read: RuntimeError: ECC",)


def test_where_torch_cannot_say_whether_it_has_a_device_nobody_says_cpu(run: Run) -> None:
    stuck = "raise RuntimeError('stuck')"
    found = run(standins.torch(H200, cuda="13.0", available=stuck, properties=stuck))
    assert (found.platform, found.device) == ("cuda", accelerator.UNREADABLE)
    text = "torch cannot say whether it has a cuda device: RuntimeError: stuck"
    assert text in found.notes


def test_properties_without_the_usual_parts_are_read_as_far_as_they_go(run: Run) -> None:
    found = run(standins.torch({"major": 9, "minor": 0, "uuid": ["x"]}, cuda="13.0"))
    assert (found.platform, found.device) == ("cuda-sm90", accelerator.UNREADABLE)
    assert found.device_uuid == ""
    assert run(standins.torch({}, hip="7.2")).platform == "rocm"


def test_variables_and_labels_do_not_name_the_platform(run: Run) -> None:
    labels = "os.environ.update(NVIDIA_PRODUCT_NAME='L40S', TORCH_CUDA_ARCH_LIST='8.9')"
    assert run(standins.torch(H200, cuda="13.0", more=labels)).platform == "cuda-sm90"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder


def amd_card(root: Path, address: str, card: int) -> Path:
    """A made-up /sys with an AMD device as amdgpu shows it."""
    folder = write(
        root / "devices/pci0000:00" / address,
        vendor="0x1002",
        vbios_version="113-M3000100-102",
        unique_id="a1b2c3d4e5f60718",
        current_compute_partition="SPX",
        current_memory_partition="NPS1",
        pp_dpm_sclk="0: 500Mhz\n1: 2100Mhz *",
        pp_dpm_mclk="0: 900Mhz *\n1: 1300Mhz",
        ras__umc_err_count="ue: 0\nce: 2",
        hwmon__hwmon3__temp1_input="41000",
    )
    for link, target in (
        (root / "bus/pci/devices" / address, folder),
        (root / f"class/drm/card{card}/device", folder),
        (folder / "driver", write(root / "bus/pci/drivers/amdgpu")),
        (root / "bus/pci/drivers/amdgpu/module", root / "module/amdgpu"),
    ):
        link.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(target)
    write(root / "module/amdgpu", version="6.14.14")
    return folder


AMD_HARDWARE = {
    "driver": "amdgpu 6.14.14",
    "VBIOS": "113-M3000100-102",
    "PCI bus": "0000:c1:00.0",
    "compute partition": "SPX",
    "memory partition": "NPS1",
}
AMD_READINGS = {
    "SM clock": "2100 MHz",
    "memory clock": "900 MHz",
    "temperature": "41 °C",
    "ECC errors": "ue: 0 ce: 2",
}


@pytest.mark.parametrize("bus_id", ["0000:c1:00.0", ""])
def test_the_kernel_describes_an_amd_device(tmp_path: Path, bus_id: str) -> None:
    amd_card(tmp_path, "0000:c1:00.0", 1)
    assert sysfs.amd(bus_id, str(tmp_path)) == ("a1b2c3d4e5f60718", AMD_HARDWARE, AMD_READINGS, "")


def test_of_two_amd_devices_the_address_decides_or_nothing_does(tmp_path: Path) -> None:
    amd_card(tmp_path, "0000:c1:00.0", 0)
    amd_card(tmp_path, "0001:02:00.0", 1)
    assert sysfs.amd("0001:02:00.0", str(tmp_path))[1]["PCI bus"] == "0001:02:00.0"
    uuid, hardware, readings, note = sysfs.amd("", str(tmp_path))
    assert (uuid, hardware, readings) == ("", {}, {})
    assert note == "the kernel shows 2 GPUs that could be torch's device: no VBIOS and clocks"
    assert "shows no GPU" in sysfs.amd("0000:99:00.0", str(tmp_path))[3]


def test_the_kernel_describes_an_intel_device(tmp_path: Path) -> None:
    folder = tmp_path / "devices/0000:03:00.0"
    write(
        folder,
        vendor="0x8086",
        device="0xe223",
        revision="0x00",
        tile0__gt0__freq0__act_freq="2400",
        hwmon__hwmon1__temp2_input="38500",
    )
    (folder / "driver").symlink_to(write(tmp_path / "bus/pci/drivers/xe", bind=""))
    (tmp_path / "class/drm/card0").mkdir(parents=True)
    (tmp_path / "class/drm/card0/device").symlink_to(folder)
    uuid, hardware, readings, note = sysfs.intel(0xE223, str(tmp_path))
    assert (uuid, note) == ("", "")
    assert hardware == {
        "driver": f"xe of kernel {os.uname().release}",
        "PCI bus": "0000:03:00.0",
        "PCI device": "0xe223 revision 0x00",
    }
    assert readings == {"clock": "2400 MHz", "temperature": "38 °C"}
    assert "shows no GPU" in sysfs.intel(0xE20B, str(tmp_path))[3]


@pytest.mark.parametrize(
    ("version", "direct_url", "module", "commit"),
    [
        ("1.0", None, None, ""),
        ("1.0+g3ee2df303", None, None, "3ee2df303"),
        ("0.27.2rc1.dev77+g3ee2df303.d20260801", None, None, "3ee2df303"),
        ("1.0+cu130.g3ee2df303", None, None, "3ee2df303"),
        ("1.0+cu130", None, None, ""),
        ("1.0+gpu", None, None, ""),
        ("1.0", None, "__commit_id__ = commit_id = 'g4bdc8a788'\n", "4bdc8a788"),
        ("1.0", None, "commit_id: str | None\n\n__commit_id__ = commit_id = None\n", ""),
        ("1.0+g3ee2df303", None, "__commit_id__ = commit_id = 'g4bdc8a788'\n", "4bdc8a788"),
        ("1.0", {"vcs_info": {"commit_id": "ab" * 20}}, "commit_id = 'g4bdc8a788'\n", "ab" * 20),
        ("1.0", {"vcs_info": {"commit_id": ["x"]}}, None, ""),
        ("1.0", {"dir_info": {"editable": True}}, "commit_id = 'g4bdc8a788'\n", "4bdc8a788"),
        ("1.0", "not an object", None, ""),
    ],
)
def test_the_commit_of_the_package(
    run: Run, tmp_path: Path, version: str, direct_url: object, module: str | None, commit: str
) -> None:
    info = tmp_path / "site/minipkg-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: minipkg\nVersion: {version}\n")
    (tmp_path / "site/minipkg").mkdir()
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    if module is not None:
        (tmp_path / "site/minipkg/_version.py").write_text(module)
    found = run(minipkg="raise SystemExit('the probe never imports the package under test')\n")
    assert (found.package_version, found.package_commit) == (f"minipkg {version}", commit)
    assert found.package_path == str(tmp_path / "site/minipkg")


def test_a_package_without_a_distribution_has_no_commit(run: Run) -> None:
    found = run(minipkg="")
    assert (found.package_version, found.package_commit) == ("", "")
    assert found.package_path.endswith("/minipkg")
