"""Stand-ins for what no test machine has: torch with a device, and NVIDIA's NVML. They only say
what a test wants them to say; nothing is computed, and no row made with one is a measurement."""

from __future__ import annotations

import subprocess
from pathlib import Path

H200 = {"name": "NVIDIA H200", "major": 9, "minor": 0, "total_memory": 143771 << 20}
L40S = {"name": "NVIDIA L40S", "major": 8, "minor": 9, "total_memory": 46068 << 20}
MI300X = {
    "name": "AMD Instinct MI300X",
    "major": 9,
    "minor": 4,
    "gcnArchName": "gfx942:sramecc+:xnack-",
    "total_memory": 196592 << 20,
}
#: The architecture number is SYCL's intel_gpu_bmg_g31.
B70 = {
    "name": "Intel(R) Arc(TM) Pro B70 Graphics",
    "architecture": 0x0000000500800000,
    "device_id": 0xE223,
    "driver_version": "1.6.33578+38",
    "total_memory": 32 << 30,
    "uuid": bytes(range(16)),
}

_TORCH = '''"""A stand-in for torch, made for a test: it says what the test wants a device to be."""

import os
from types import SimpleNamespace

__version__ = {version!r}
version = SimpleNamespace(cuda={cuda!r}, hip={hip!r}, xpu={xpu!r})
backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002))


class Backend:
    def __init__(self, devices):
        self.devices = devices

    def is_available(self):
        {available}
        return bool(self.devices)

    def device_count(self):
        return len(self.devices)

    def get_device_properties(self, index):
        {properties}
        return SimpleNamespace(**self.devices[index])


devices = {devices!r}
cuda = Backend({cuda_devices})
xpu = Backend({xpu_devices})
{more}
'''


def torch(
    *devices: dict[str, object],
    version: str = "2.13.0",
    cuda: str | None = None,
    hip: str | None = None,
    xpu: str | None = None,
    available: str = "",
    properties: str = "",
    more: str = "",
) -> str:
    """The source of a stand-in torch.py, built for ``cuda``, ``hip`` or ``xpu`` of that version.

    ``available`` and ``properties`` are statements run where torch is asked for a device and for
    its properties, ``more`` at the end of the module.
    """
    return _TORCH.format(
        version=version,
        cuda=cuda,
        hip=hip,
        xpu=xpu,
        devices=list(devices),
        cuda_devices="devices" if cuda or hip else "[]",
        xpu_devices="devices" if xpu else "[]",
        available=available,
        properties=properties,
        more=more,
    )


#: NVML with three devices: one whole, one that answers hardly anything, one that is a MIG instance.
NVML = r"""
#include <stdio.h>
#include <string.h>

typedef struct { const char *uuid, *bus, *vbios; unsigned sm; int ecc, whole; } device;
static device devices[] = {
    {"GPU-11111111-1111-1111-1111-111111111111", "00000000:01:00.0", "96.00.89.00.01", 345, 1, 1},
    {"GPU-22222222-2222-2222-2222-222222222222", "00000000:02:00.0", "", 210, -1, 1},
    {"MIG-33333333-3333-3333-3333-333333333333", "", "", 0, 0, 0},
};
static int initialised = 0;

#define NOT_SUPPORTED 3
#define NO_PERMISSION 4
#define NOT_FOUND 6
#define READY if (!initialised) return 1

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci;

static int copy(char *to, unsigned size, const char *text) {
    if (strlen(text) >= size) return 7;
    strcpy(to, text);
    return 0;
}

int nvmlInit_v2(void) { initialised++; return INIT; }
int nvmlShutdown(void) { initialised--; return 0; }
const char *nvmlErrorString(int code) {
    return code == NO_PERMISSION ? "Insufficient Permissions"
         : code == NOT_FOUND ? "Not Found" : code == 9 ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    READY; return copy(to, size, "580.00.01");
}
int nvmlDeviceGetCount_v2(unsigned *n) { READY; *n = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device **d) { READY; *d = &devices[i]; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, device **d) {
    READY;
    for (int i = 0; i < 3; i++)
        if (!strcmp(devices[i].uuid, uuid)) { *d = &devices[i]; return 0; }
    return NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device **d) {
    READY;
    unsigned domain, number, slot, function;
    char text[32];
    if (sscanf(bus, "%x:%x:%x.%x", &domain, &number, &slot, &function) != 4) return 2;
    sprintf(text, "%08X:%02X:%02X.%X", domain, number, slot, function);
    for (int i = 0; i < 2; i++)
        if (!strcmp(devices[i].bus, text)) { *d = &devices[i]; return 0; }
    return NOT_FOUND;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *mig, device **d) {
    READY; if (mig->whole) return 2; *d = &devices[0]; return 0;
}
int nvmlDeviceGetUUID(device *d, char *to, unsigned size) { READY; return copy(to, size, d->uuid); }
int nvmlDeviceGetVbiosVersion(device *d, char *to, unsigned size) {
    READY; return *d->vbios ? copy(to, size, d->vbios) : NO_PERMISSION;
}
int nvmlDeviceGetEccMode(device *d, unsigned *now, unsigned *next) {
    READY; if (d->ecc < 0) return NOT_SUPPORTED; *now = d->ecc; *next = 0; return 0;
}
int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *next) {
    READY; if (d->ecc < 0) return NOT_SUPPORTED; *now = 0; *next = 1; return 0;
}
int nvmlDeviceGetComputeMode(device *d, int *mode) { READY; *mode = 3; return 0; }
int nvmlDeviceGetPciInfo_v3(device *d, pci *info) {
    READY;
    memset(info, 0, sizeof *info);
    strcpy(info->legacy, "0000:ff:00.0");
    return copy(info->bus_id, sizeof info->bus_id, d->bus);
}
int nvmlDeviceGetPowerManagementLimit(device *d, unsigned *mw) { READY; *mw = 700000; return 0; }
int nvmlDeviceGetPowerUsage(device *d, unsigned *mw) { READY; *mw = 76543; return 0; }
int nvmlDeviceGetMaxClockInfo(device *d, int which, unsigned *mhz) {
    READY; *mhz = 1980; return which != 1;
}
int nvmlDeviceGetClockInfo(device *d, int which, unsigned *mhz) {
    READY; *mhz = which == 1 ? d->sm : 3201; return 0;
}
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *c) { READY; *c = 31; return sensor; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, unsigned long long *bits) {
    READY; *bits = 0x5; return 0;
}
int nvmlDeviceGetTotalEccErrors(device *d, int kind, int since, unsigned long long *n) {
    READY; if (d->ecc < 0) return NOT_SUPPORTED; *n = kind ? 1 : 1ull << 33; return since;
}
"""


def nvml(folder: Path, *, count: int = 2, init: int = 0) -> Path:
    """Compile a stand-in libnvidia-ml.so.1 into a folder for LD_LIBRARY_PATH, and return that."""
    folder.mkdir(parents=True)
    command = ["gcc", "-shared", "-fPIC", f"-DCOUNT={count}", f"-DINIT={init}", "-x", "c", "-"]
    command += ["-o", str(folder / "libnvidia-ml.so.1")]
    subprocess.run(command, input=NVML, text=True, check=True)
    return folder
